"""From a model's `config.json` to its shape: one function a family, by `model_type`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from firstfault.errors import UsageError
from firstfault.memory.encoders import ENCODERS
from firstfault.memory.shapes import Architecture, Layer, Matrix, Norm, Wiring

Config = Mapping[str, Any]
_MOST = 1 << 24


def read_config(config: Config, head: str | None = None) -> Architecture:
    """The shape of the model that `config` describes; UsageError where a size is missing or senseless.

    An unknown `model_type` with the sizes of a decoder is taken for a Llama, and says so (`known` is false).
    """
    config = (
        dict(config.get("text_config") or {}) | {k: v for k, v in config.items() if k != "text_config"}
        if (isinstance(config.get("text_config"), Mapping) and "hidden_size" not in config)
        else config
    )
    family = str(config.get("model_type", ""))
    try:
        if family in ENCODERS:
            return ENCODERS[family](config, head)
        return DECODERS.get(family, _unknown)(config)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise UsageError(f"the model configuration lacks or mistakes a size: {error}", where=family or "config.json") from error


def size(config: Config, *names: str, default: int | None = None) -> int:
    """The first of `names` that holds a size; KeyError without one."""
    for name in names:
        value = config.get(name)
        if value is not None:
            number = int(value)
            if not 0 <= number <= _MOST:
                raise ValueError(f"{name} = {number}")
            return number
    if default is None:
        raise KeyError(names[0])
    return default


def _mlp(hidden: int, inner: int, bias: bool = False) -> dict[str, Matrix]:
    return {
        "gate": Matrix("gate_proj", inner, hidden, bias),
        "up": Matrix("up_proj", inner, hidden, bias),
        "down": Matrix("down_proj", hidden, inner, bias),
    }


def _projections(
    hidden: int, heads: int, kv: int, dim: int, *, qkv_bias: bool = False, out_bias: bool = False
) -> dict[str, Matrix]:
    return {
        "q": Matrix("q_proj", heads * dim, hidden, qkv_bias),
        "k": Matrix("k_proj", kv * dim, hidden, qkv_bias),
        "v": Matrix("v_proj", kv * dim, hidden, qkv_bias),
        "o": Matrix("o_proj", hidden, heads * dim, out_bias),
    }


def _llama(
    config: Config,
    *,
    norm: Norm = "rms",
    wiring: Wiring = "pre",
    qkv_bias: bool | None = None,
    out_bias: bool | None = None,
    qk_norm: str = "none",
    tied: bool = False,
    norms: int = 2,
    known: bool = True,
    **more: Any,
) -> Architecture:
    """Decoders with separate projections, rotary positions, RMSNorm and a gated MLP."""
    hidden, heads = size(config, "hidden_size"), size(config, "num_attention_heads")
    kv = size(config, "num_key_value_heads", default=heads)
    dim = size(config, "head_dim", default=hidden // heads)
    bias = bool(config.get("attention_bias", False))
    qkv_bias = bias if qkv_bias is None else qkv_bias
    matrices = _projections(hidden, heads, kv, dim, qkv_bias=qkv_bias, out_bias=bias if out_bias is None else out_bias)
    matrices |= _mlp(hidden, size(config, "intermediate_size"), bool(config.get("mlp_bias", False)))
    small = [hidden] * norms
    if qk_norm == "head":
        small += [dim, dim]
    elif qk_norm == "whole":
        small += [heads * dim, kv * dim]
    vocab = size(config, "vocab_size")
    return Architecture(
        family=str(config.get("model_type", "")),
        kind="decoder",
        hidden=hidden,
        vocab=vocab,
        heads=heads,
        kv_heads=kv,
        head_dim=dim,
        layers=(Layer(count=size(config, "num_hidden_layers"), matrices=matrices, vectors=tuple(small)),),
        tables=(vocab * hidden,),
        norm=norm,
        wiring=wiring,
        head=Matrix("lm_head", vocab, hidden),
        tied=bool(config.get("tie_word_embeddings", tied)),
        extra_vectors=(hidden,),
        qk_norm=qk_norm,  # type: ignore[arg-type]
        attention_dropout=float(config.get("attention_dropout") or 0.0),
        known=known,
        **more,
    )


def _unknown(config: Config) -> Architecture:
    return _llama(config, known=False)


def _gemma(config: Config) -> Architecture:
    return _llama(config, norm="gemma", tied=True, scales_embedding=True)


def _gemma2(config: Config) -> Architecture:
    return _llama(
        config,
        norm="gemma",
        wiring="sandwich",
        norms=4,
        tied=True,
        scales_embedding=True,
        caps_logits=bool(config.get("final_logit_softcapping", 30.0)),
        caps_scores=bool(config.get("attn_logit_softcapping", 50.0)),
    )


def _gemma3(config: Config) -> Architecture:
    return _llama(config, norm="gemma", wiring="sandwich", norms=4, tied=True, qk_norm="head", scales_embedding=True)


def _granite(config: Config) -> Architecture:
    return _llama(config, scales_embedding=True, scales_residual=True, scales_logits=True)


def _phi3(config: Config) -> Architecture:
    made = _llama(config)
    inner, kv = size(config, "intermediate_size"), made.kv_heads
    matrices = {
        "qkv": Matrix("qkv_proj", (made.heads + 2 * kv) * made.head_dim, made.hidden),
        "o": Matrix("o_proj", made.hidden, made.heads * made.head_dim),
        "gate_up": Matrix("gate_up_proj", 2 * inner, made.hidden),
        "down": Matrix("down_proj", made.hidden, inner),
    }
    return _with_layer(made, matrices, made.layers[0].vectors, rotary=_rotary(config, 1.0))


def _with_layer(made: Architecture, matrices: dict[str, Matrix], vectors: tuple[int, ...], **more: Any) -> Architecture:
    layer = Layer(count=made.depth, matrices=matrices, vectors=vectors)
    return replace(made, layers=(layer,), **more)


def _rotary(config: Config, default: float) -> float:
    told = config.get("partial_rotary_factor", config.get("rotary_pct"))
    parameters = config.get("rope_parameters")
    if told is None and isinstance(parameters, Mapping):
        told = parameters.get("partial_rotary_factor")
    return float(default if told is None else told)


def _plain(config: Config, *, inner: int, matrices: dict[str, Matrix], vectors: tuple[int, ...], **more: Any) -> Architecture:
    """Decoders with LayerNorm and an MLP of two matrices."""
    hidden, heads = size(config, "hidden_size", "n_embd", "d_model"), size(config, "num_attention_heads", "n_head", "n_heads")
    vocab = size(config, "vocab_size")
    count = size(config, "num_hidden_layers", "n_layer", "n_layers")
    given: dict[str, Any] = {
        "family": str(config.get("model_type", "")),
        "kind": "decoder",
        "hidden": hidden,
        "vocab": vocab,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": hidden // heads,
        "layers": (Layer(count=count, matrices=matrices, vectors=vectors),),
        "tables": (vocab * hidden,),
        "norm": "layer",
        "head": Matrix("lm_head", vocab, hidden),
        "extra_vectors": (2 * hidden,),
        "rotary": 0.0,
    }
    return Architecture(**(given | more))


def _gpt2(config: Config) -> Architecture:
    h = size(config, "n_embd", "hidden_size")
    inner = size(config, "n_inner", default=4 * h)
    matrices = {
        "qkv": Matrix("c_attn", 3 * h, h, True),
        "o": Matrix("c_proj", h, h, True),
        "up": Matrix("c_fc", inner, h, True),
        "down": Matrix("c_proj", h, inner, True),
    }
    return _plain(
        config,
        inner=inner,
        matrices=matrices,
        vectors=(2 * h, 2 * h),
        tied=bool(config.get("tie_word_embeddings", True)),
        tables=(size(config, "vocab_size") * h, size(config, "n_positions", "max_position_embeddings", default=1024) * h),
        activation="gelu_new",
        embedding_dropout=float(config.get("embd_pdrop", 0.1)),
        residual_dropout=float(config.get("resid_pdrop", 0.1)),
        attention_dropout=float(config.get("attn_pdrop", 0.1)),
    )


def _gpt_neox(config: Config) -> Architecture:
    h, inner, bias = size(config, "hidden_size"), size(config, "intermediate_size"), bool(config.get("attention_bias", True))
    matrices = {
        "qkv": Matrix("query_key_value", 3 * h, h, bias),
        "o": Matrix("dense", h, h, bias),
        "up": Matrix("dense_h_to_4h", inner, h, True),
        "down": Matrix("dense_4h_to_h", h, inner, True),
    }
    return _plain(
        config,
        inner=inner,
        matrices=matrices,
        vectors=(2 * h, 2 * h),
        rotary=_rotary(config, 0.25),
        wiring="parallel" if config.get("use_parallel_residual", True) else "pre",
        head=Matrix("embed_out", size(config, "vocab_size"), h),
        tied=bool(config.get("tie_word_embeddings", False)),
        activation="gelu_new" if config.get("hidden_act") == "gelu_new" else "fused",
        residual_dropout=float(config.get("hidden_dropout", 0.0)),
        attention_dropout=float(config.get("attention_dropout", 0.0)),
    )


def _phi(config: Config) -> Architecture:
    h, inner, heads = size(config, "hidden_size"), size(config, "intermediate_size"), size(config, "num_attention_heads")
    kv = size(config, "num_key_value_heads", default=heads)
    matrices = _projections(h, heads, kv, h // heads, qkv_bias=True, out_bias=True)
    matrices["o"] = Matrix("dense", h, h, True)
    matrices |= {"up": Matrix("fc1", inner, h, True), "down": Matrix("fc2", h, inner, True)}
    return _plain(
        config,
        inner=inner,
        matrices=matrices,
        vectors=(2 * h,),
        wiring="parallel",
        shared_norm=True,
        kv_heads=kv,
        rotary=_rotary(config, 0.5),
        head=Matrix("lm_head", size(config, "vocab_size"), h, True),
        tied=bool(config.get("tie_word_embeddings", False)),
        activation="gelu_new",
        residual_dropout=float(config.get("resid_pdrop", 0.0)),
        embedding_dropout=float(config.get("embd_pdrop", 0.0)),
    )


def _falcon(config: Config) -> Architecture:
    h, heads = size(config, "hidden_size"), size(config, "num_attention_heads", "n_head")
    dim, inner, bias = h // heads, size(config, "ffn_hidden_size", default=4 * h), bool(config.get("bias", False))
    new = bool(config.get("new_decoder_architecture", False))
    multi = bool(config.get("multi_query", True))
    kv = size(config, "num_kv_heads", default=heads) if new or not multi else 1
    matrices = {
        "qkv": Matrix("query_key_value", (heads + 2 * kv) * dim, h, bias),
        "o": Matrix("dense", h, h, bias),
        "up": Matrix("dense_h_to_4h", inner, h, bias),
        "down": Matrix("dense_4h_to_h", h, inner, bias),
    }
    parallel = new or bool(config.get("parallel_attn", True))
    two = not parallel or (new and config.get("num_ln_in_parallel_attn") != 1)
    return _plain(
        config,
        inner=inner,
        matrices=matrices,
        vectors=(2 * h,) * (2 if two else 1),
        kv_heads=kv,
        rotary=1.0,
        wiring="parallel" if parallel else "pre",
        shared_norm=not two,
        tied=bool(config.get("tie_word_embeddings", True)),
    )


def _opt(config: Config) -> Architecture:
    h, inner, heads = size(config, "hidden_size"), size(config, "ffn_dim"), size(config, "num_attention_heads")
    matrices = _projections(h, heads, heads, h // heads, qkv_bias=True, out_bias=True)
    matrices["o"] = Matrix("out_proj", h, h, True)
    matrices |= {"up": Matrix("fc1", inner, h, True), "down": Matrix("fc2", h, inner, True)}
    word = size(config, "word_embed_proj_dim", default=h)
    extra = () if word == h else (Matrix("project_out", word, h), Matrix("project_in", h, word))
    before = bool(config.get("do_layer_norm_before", True))
    return _plain(
        config,
        inner=inner,
        matrices=matrices,
        vectors=(2 * h, 2 * h),
        tied=bool(config.get("tie_word_embeddings", True)),
        tables=(size(config, "vocab_size") * word, (size(config, "max_position_embeddings") + 2) * h),
        activation="relu",
        residual_dropout=float(config.get("dropout", 0.1)),
        attention_dropout=float(config.get("attention_dropout", 0.0)),
        scales_query=True,
        extra=extra,
        extra_vectors=(2 * h,) if before else (),
        final_norm=before,
        head=Matrix("lm_head", size(config, "vocab_size"), word),
        wiring="pre" if before else "post",
    )


def _bloom(config: Config) -> Architecture:
    h = size(config, "hidden_size", "n_embed")
    matrices = {
        "qkv": Matrix("query_key_value", 3 * h, h, True),
        "o": Matrix("dense", h, h, True),
        "up": Matrix("dense_h_to_4h", 4 * h, h, True),
        "down": Matrix("dense_4h_to_h", h, 4 * h, True),
    }
    return _plain(
        config,
        inner=4 * h,
        matrices=matrices,
        vectors=(2 * h, 2 * h),
        tied=True,
        embedding_norm=True,
        extra_vectors=(2 * h, 2 * h),
        activation="fused",
    )


def _mpt(config: Config) -> Architecture:
    h, ratio = size(config, "d_model"), size(config, "expansion_ratio", default=4)
    matrices = {
        "qkv": Matrix("Wqkv", 3 * h, h),
        "o": Matrix("out_proj", h, h),
        "up": Matrix("up_proj", ratio * h, h),
        "down": Matrix("down_proj", h, ratio * h),
    }
    return _plain(config, inner=ratio * h, matrices=matrices, vectors=(h, h), tied=True, extra_vectors=(h,))


def _stablelm(config: Config) -> Architecture:
    made = _llama(config, norm="layer", qkv_bias=bool(config.get("use_qkv_bias", False)), out_bias=False)
    layer = replace(made.layers[0], vectors=tuple(2 * one for one in made.layers[0].vectors))
    return replace(made, layers=(layer,), extra_vectors=(2 * made.hidden,), rotary=_rotary(config, 0.25))


def _starcoder2(config: Config) -> Architecture:
    h, inner, heads = size(config, "hidden_size"), size(config, "intermediate_size"), size(config, "num_attention_heads")
    kv, bias = size(config, "num_key_value_heads", default=heads), bool(config.get("use_bias", True))
    matrices = _projections(h, heads, kv, h // heads, qkv_bias=bias, out_bias=bias)
    matrices |= {"up": Matrix("c_fc", inner, h, bias), "down": Matrix("c_proj", h, inner, bias)}
    return _plain(
        config,
        inner=inner,
        matrices=matrices,
        vectors=(2 * h, 2 * h),
        kv_heads=kv,
        rotary=1.0,
        residual_dropout=float(config.get("residual_dropout", 0.0)),
        tied=bool(config.get("tie_word_embeddings", True)),
    )


def _experts(
    config: Config, *, inner: int, count: int, qkv_bias: bool | None = None, qk_norm: str = "none", shared: int = 0
) -> Architecture:
    """Decoders whose MLP is a mixture of experts."""
    made = _llama(dict(config) | {"intermediate_size": inner}, qkv_bias=qkv_bias, qk_norm=qk_norm)
    h = made.hidden
    matrices = {role: m for role, m in made.layers[0].matrices.items() if role in "qkvo"}
    matrices["router"] = Matrix("gate", count, h)
    matrices["expert_gate_up"] = Matrix("experts.gate_up_proj", 2 * inner, h)
    matrices["expert_down"] = Matrix("experts.down_proj", h, inner)
    if shared:
        matrices |= {
            "gate": Matrix("shared_expert.gate_proj", shared, h),
            "up": Matrix("shared_expert.up_proj", shared, h),
            "down": Matrix("shared_expert.down_proj", h, shared),
            "shared_gate": Matrix("shared_expert_gate", 1, h),
        }
    top = size(config, "num_experts_per_tok", default=2)
    layer = replace(made.layers[0], matrices=matrices, experts=count, top_k=top)
    return replace(made, layers=(layer,))


def _mixtral(config: Config) -> Architecture:
    return _experts(config, inner=size(config, "intermediate_size"), count=size(config, "num_local_experts", "num_experts"))


def _qwen2_moe(config: Config) -> Architecture:
    return _experts(
        config,
        inner=size(config, "moe_intermediate_size"),
        count=size(config, "num_experts"),
        qkv_bias=True,
        shared=size(config, "shared_expert_intermediate_size"),
    )


def _qwen3_moe(config: Config) -> Architecture:
    return _experts(config, inner=size(config, "moe_intermediate_size"), count=size(config, "num_experts"), qk_norm="head")


DECODERS: dict[str, Callable[[Config], Architecture]] = {
    "llama": _llama,
    "mistral": _llama,
    "granite": _granite,
    "phi3": _phi3,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "qwen2": lambda config: _llama(config, qkv_bias=True, out_bias=False),
    "qwen3": lambda config: _llama(config, qk_norm="head"),
    "olmo2": lambda config: _llama(config, qk_norm="whole", wiring="post-rms"),
    "gemma3_text": _gemma3,
    "gemma3": _gemma3,
    "smollm3": _llama,
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "phi": _phi,
    "falcon": _falcon,
    "opt": _opt,
    "bloom": _bloom,
    "mpt": _mpt,
    "stablelm": _stablelm,
    "starcoder2": _starcoder2,
    "mixtral": _mixtral,
    "qwen2_moe": _qwen2_moe,
    "qwen3_moe": _qwen3_moe,
}
