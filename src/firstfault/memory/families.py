"""From a model's `config.json` to its shape: one function a family, by `model_type`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from firstfault.errors import UsageError
from firstfault.memory.config_sizes import Config, check, projections, rotary_share, size
from firstfault.memory.encoders import ENCODERS
from firstfault.memory.plain_decoders import PLAIN_DECODERS
from firstfault.memory.shapes import Architecture, Layer, Matrix, Norm, Wiring


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
        made = ENCODERS[family](config, head) if family in ENCODERS else DECODERS.get(family, _unknown)(config)
        check(made)
        return made
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise UsageError(f"the model configuration lacks or mistakes a size: {error}", where=family or "config.json") from error


def _mlp(hidden: int, inner: int, bias: bool = False) -> dict[str, Matrix]:
    return {
        "gate": Matrix("gate_proj", inner, hidden, bias),
        "up": Matrix("up_proj", inner, hidden, bias),
        "down": Matrix("down_proj", hidden, inner, bias),
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
    matrices = projections(hidden, heads, kv, dim, qkv_bias=qkv_bias, out_bias=bias if out_bias is None else out_bias)
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
    return _with_layer(made, matrices, made.layers[0].vectors, rotary=rotary_share(config, 1.0))


def _with_layer(made: Architecture, matrices: dict[str, Matrix], vectors: tuple[int, ...], **more: Any) -> Architecture:
    layer = Layer(count=made.depth, matrices=matrices, vectors=vectors)
    return replace(made, layers=(layer,), **more)


def _stablelm(config: Config) -> Architecture:
    made = _llama(config, norm="layer", qkv_bias=bool(config.get("use_qkv_bias", False)), out_bias=False)
    layer = replace(made.layers[0], vectors=tuple(2 * one for one in made.layers[0].vectors))
    return replace(made, layers=(layer,), extra_vectors=(2 * made.hidden,), rotary=rotary_share(config, 0.25))


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
    **PLAIN_DECODERS,
    "llama": _llama,
    "mistral": _llama,
    "granite": _granite,
    "phi3": _phi3,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "qwen2": lambda config: _llama(config, qkv_bias=True, out_bias=False),
    "qwen3": lambda config: _llama(config, qk_norm="head"),
    "olmo2": lambda config: _llama(config, norm="gemma", qk_norm="whole", wiring="post-rms"),
    "gemma3_text": _gemma3,
    "gemma3": _gemma3,
    "smollm3": _llama,
    "stablelm": _stablelm,
    "mixtral": _mixtral,
    "qwen2_moe": _qwen2_moe,
    "qwen3_moe": _qwen3_moe,
}
