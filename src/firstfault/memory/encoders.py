"""From the `config.json` of an encoder, an encoder-decoder or a vision model to its shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from firstfault.memory.shapes import Architecture, Layer, Matrix

Config = Mapping[str, Any]


def _labels(config: Config) -> int:
    names = config.get("id2label")
    return len(names) if isinstance(names, Mapping) and names else int(config.get("num_labels", 2))


def head_of(config: Config, head: str | None) -> str:
    """`masked-lm` or `classification`: as told, else by the class names of the configuration."""
    if head:
        return head
    names = config.get("architectures") or []
    return "masked-lm" if any("MaskedLM" in str(name) or "PreTraining" in str(name) for name in names) else "classification"


def _bert_layer(config: Config, names: tuple[str, str, str, str, str, str]) -> tuple[dict[str, Matrix], int, int]:
    h, inner = int(config["hidden_size"]), int(config["intermediate_size"])
    q, k, v, o, up, down = names
    matrices = {
        "q": Matrix(q, h, h, True),
        "k": Matrix(k, h, h, True),
        "v": Matrix(v, h, h, True),
        "o": Matrix(o, h, h, True),
        "up": Matrix(up, inner, h, True),
        "down": Matrix(down, h, inner, True),
    }
    return matrices, h, inner


_BERT_NAMES = ("query", "key", "value", "attention.output.dense", "intermediate.dense", "output.dense")


def _bert(config: Config, head: str | None, *, roberta: bool = False, deberta: bool = False) -> Architecture:
    """BERT and RoBERTa: LayerNorm after each half, learned positions, dropout everywhere; DeBERTa-v2 by its own attention."""
    names = ("query_proj", "key_proj", "value_proj", *_BERT_NAMES[3:]) if deberta else _BERT_NAMES
    matrices, h, _ = _bert_layer(config, names)
    vocab, labels = int(config["vocab_size"]), _labels(config)
    kind = head_of(config, head)
    types = int(config.get("type_vocab_size") or 0)
    tables = [vocab * h]
    if not deberta or config.get("position_biased_input", True):
        tables.append(int(config["max_position_embeddings"]) * h)
    if types:
        tables.append(types * h)
    extra: tuple[Matrix, ...] = ()
    vectors = [2 * h]
    if deberta:
        buckets = int(config.get("position_buckets", -1))
        span = buckets if buckets > 0 else int(config.get("max_relative_positions", -1))
        span = span if span > 0 else int(config["max_position_embeddings"])
        tables.append(2 * span * h)
        if "layer_norm" in str(config.get("norm_rel_ebd", "none")):
            vectors.append(2 * h)
        convolution = int(config.get("conv_kernel_size") or 0)
        if convolution:
            vectors += [convolution * h * h + h, 2 * h]
    if kind == "masked-lm":
        extra, last, tied = (Matrix("transform.dense", h, h, True),), Matrix("decoder", vocab, h, True), True
        vectors.append(2 * h)
    else:
        extra = (Matrix("classifier.dense" if roberta else "pooler.dense", h, h, True),)
        last, tied = Matrix("classifier.out_proj" if roberta else "classifier", labels, h, True), False
    return Architecture(
        family=str(config.get("model_type")),
        kind="encoder",
        hidden=h,
        vocab=vocab,
        heads=int(config["num_attention_heads"]),
        kv_heads=int(config["num_attention_heads"]),
        head_dim=h // int(config["num_attention_heads"]),
        layers=(Layer(count=int(config["num_hidden_layers"]), matrices=matrices, vectors=(2 * h, 2 * h), causal=False),),
        tables=tuple(tables),
        norm="layer",
        wiring="post",
        activation="fused",
        head=last,
        tied=tied,
        extra=extra,
        extra_vectors=tuple(vectors),
        rotary=0.0,
        embedding_norm=True,
        final_norm=False,
        embedding_dropout=float(config.get("hidden_dropout_prob", 0.1)),
        residual_dropout=float(config.get("hidden_dropout_prob", 0.1)),
        attention_dropout=float(config.get("attention_probs_dropout_prob", 0.1)),
        labels=0 if kind == "masked-lm" else labels,
        known=not deberta,
    )


def _distilbert(config: Config, head: str | None) -> Architecture:
    names = ("q_lin", "k_lin", "v_lin", "out_lin", "lin1", "lin2")
    told = {"hidden_size": config["dim"], "intermediate_size": config["hidden_dim"]}
    shared = {"num_attention_heads": config["n_heads"], "num_hidden_layers": config["n_layers"], "type_vocab_size": 0}
    dropouts = {
        "hidden_dropout_prob": config.get("dropout", 0.1),
        "attention_probs_dropout_prob": config.get("attention_dropout", 0.1),
    }
    made = _bert(dict(config) | told | shared | dropouts, head)
    matrices, _, _ = _bert_layer(told, names)
    from msgspec.structs import replace

    return replace(made, layers=(replace(made.layers[0], matrices=matrices),), drops_attention=False)


def _vit(config: Config, head: str | None) -> Architecture:
    matrices, h, _ = _bert_layer(config, _BERT_NAMES)
    if not config.get("qkv_bias", True):
        matrices |= {role: Matrix(matrices[role].name, h, h) for role in "qkv"}
    patch, image, channels = (
        int(config.get("patch_size", 16)),
        int(config.get("image_size", 224)),
        int(config.get("num_channels", 3)),
    )
    tokens = (image // patch) ** 2 + 1
    labels = _labels(config)
    return Architecture(
        family="vit",
        kind="vision",
        hidden=h,
        vocab=labels,
        heads=int(config["num_attention_heads"]),
        kv_heads=int(config["num_attention_heads"]),
        head_dim=h // int(config["num_attention_heads"]),
        layers=(Layer(count=int(config["num_hidden_layers"]), matrices=matrices, vectors=(2 * h, 2 * h), causal=False),),
        tables=(h, tokens * h),
        norm="layer",
        head=Matrix("classifier", labels, h, True),
        extra_vectors=(2 * h,),
        rotary=0.0,
        patch=Matrix("patch_embeddings.projection", h, channels * patch * patch, True),
        tokens=tokens,
        labels=labels,
        embedding_dropout=float(config.get("hidden_dropout_prob", 0.0)),
        residual_dropout=float(config.get("hidden_dropout_prob", 0.0)),
        attention_dropout=float(config.get("attention_probs_dropout_prob", 0.0)),
    )


def _t5(config: Config, head: str | None) -> Architecture:
    h, inner, heads, dim = (int(config[name]) for name in ("d_model", "d_ff", "num_heads", "d_kv"))
    vocab, depth = int(config["vocab_size"]), int(config["num_layers"])
    wide = heads * dim
    attention = {"q": Matrix("q", wide, h), "k": Matrix("k", wide, h), "v": Matrix("v", wide, h), "o": Matrix("o", h, wide)}
    cross = {f"cross_{role}": matrix for role, matrix in attention.items()}
    gated = "gated" in str(config.get("feed_forward_proj", "relu"))
    mlp = {"gate": Matrix("wi_0", inner, h), "up": Matrix("wi_1", inner, h)} if gated else {"up": Matrix("wi", inner, h)}
    mlp["down"] = Matrix("wo", h, inner)
    decoders = int(config.get("num_decoder_layers") or depth)
    buckets = int(config.get("relative_attention_num_buckets", 32)) * heads
    rate = float(config.get("dropout_rate", 0.1))
    return Architecture(
        family=str(config.get("model_type")),
        kind="encoder-decoder",
        hidden=h,
        vocab=vocab,
        heads=heads,
        kv_heads=heads,
        head_dim=dim,
        layers=(
            Layer(count=depth, matrices=attention | mlp, vectors=(h, h), causal=False),
            Layer(count=decoders, matrices=attention | cross | mlp, vectors=(h, h, h), cross=True),
        ),
        tables=(vocab * h,),
        head=Matrix("lm_head", vocab, h),
        tied=bool(config.get("tie_word_embeddings", True)),
        extra_vectors=(h, h, buckets, buckets),
        rotary=0.0,
        activation="gelu_new" if gated else "relu",
        embedding_dropout=rate,
        residual_dropout=rate,
        attention_dropout=rate,
        inner_dropout=rate,
    )


ENCODERS: dict[str, Callable[[Config, str | None], Architecture]] = {
    "bert": _bert,
    "roberta": lambda config, head: _bert(config, head, roberta=True),
    "xlm-roberta": lambda config, head: _bert(config, head, roberta=True),
    "deberta-v2": lambda config, head: _bert(config, head, deberta=True),
    "distilbert": _distilbert,
    "vit": _vit,
    "t5": _t5,
}
