"""Decoders with LayerNorm and an MLP of two matrices, from their `config.json`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firstfault.memory.config_sizes import Config, activation, projections, rotary_share, size
from firstfault.memory.shapes import Architecture, Layer, Matrix


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
        activation=activation(config, "gelu_new"),
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
        rotary=rotary_share(config, 0.25),
        wiring="parallel" if config.get("use_parallel_residual", True) else "pre",
        head=Matrix("embed_out", size(config, "vocab_size"), h),
        tied=bool(config.get("tie_word_embeddings", False)),
        activation=activation(config, "gelu"),
        residual_dropout=float(config.get("hidden_dropout", 0.0)),
        attention_dropout=float(config.get("attention_dropout", 0.0)),
    )


def _phi(config: Config) -> Architecture:
    h, inner, heads = size(config, "hidden_size"), size(config, "intermediate_size"), size(config, "num_attention_heads")
    kv = size(config, "num_key_value_heads", default=heads)
    matrices = projections(h, heads, kv, h // heads, qkv_bias=True, out_bias=True)
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
        rotary=rotary_share(config, 0.5),
        head=Matrix("lm_head", size(config, "vocab_size"), h, True),
        tied=bool(config.get("tie_word_embeddings", False)),
        activation=activation(config, "gelu_new"),
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
        broadcasts_kv=not new and multi,
        wiring="parallel" if parallel else "pre",
        shared_norm=not two,
        tied=bool(config.get("tie_word_embeddings", True)),
    )


def _opt(config: Config) -> Architecture:
    h, inner, heads = size(config, "hidden_size"), size(config, "ffn_dim"), size(config, "num_attention_heads")
    matrices = projections(h, heads, heads, h // heads, qkv_bias=True, out_bias=True)
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
        activation=activation(config, "relu"),
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


def _starcoder2(config: Config) -> Architecture:
    h, inner, heads = size(config, "hidden_size"), size(config, "intermediate_size"), size(config, "num_attention_heads")
    kv, bias = size(config, "num_key_value_heads", default=heads), bool(config.get("use_bias", True))
    matrices = projections(h, heads, kv, h // heads, qkv_bias=bias, out_bias=bias)
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


PLAIN_DECODERS: dict[str, Callable[[Config], Architecture]] = {
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "phi": _phi,
    "falcon": _falcon,
    "opt": _opt,
    "bloom": _bloom,
    "mpt": _mpt,
    "starcoder2": _starcoder2,
}
