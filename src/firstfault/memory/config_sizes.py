"""Sizes and choices in a model configuration, under the names that the families give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firstfault.memory.shapes import Activation, Architecture, Matrix

Config = Mapping[str, Any]
MOST = 1 << 24


def size(config: Config, *names: str, default: int | None = None) -> int:
    """The first of `names` that holds a size; KeyError without one."""
    for name in names:
        value = config.get(name)
        if value is not None:
            number = int(value)
            if not 0 <= number <= MOST:
                raise ValueError(f"{name} = {number}")
            return number
    if default is None:
        raise KeyError(names[0])
    return default


def projections(
    hidden: int, heads: int, kv: int, dim: int, *, qkv_bias: bool = False, out_bias: bool = False
) -> dict[str, Matrix]:
    """The four matrices of attention under the names of Llama."""
    return {
        "q": Matrix("q_proj", heads * dim, hidden, qkv_bias),
        "k": Matrix("k_proj", kv * dim, hidden, qkv_bias),
        "v": Matrix("v_proj", kv * dim, hidden, qkv_bias),
        "o": Matrix("o_proj", hidden, heads * dim, out_bias),
    }


def activation(config: Config, default: str) -> Activation:
    """GPT-2's own GELU is a chain of kernels, all others are one; ReLU keeps its result."""
    name = str(config.get("hidden_act") or config.get("activation_function") or default)
    return "gelu_new" if name == "gelu_new" else "relu" if name == "relu" else "fused"


def rotary_share(config: Config, default: float) -> float:
    """The share of each head that is turned by its position."""
    told = config.get("partial_rotary_factor", config.get("rotary_pct"))
    parameters = config.get("rope_parameters")
    if told is None and isinstance(parameters, Mapping):
        told = parameters.get("partial_rotary_factor")
    return float(default if told is None else told)


def check(shape: Architecture) -> None:
    """ValueError where a size of the model is none, or so large that no machine holds it."""
    matrices = [matrix for layer in shape.layers for matrix in layer.matrices.values()]
    matrices += [*shape.extra, *(one for one in (shape.head, shape.patch) if one is not None)]
    sizes = {"hidden size": shape.hidden, "vocabulary": shape.vocab, "heads": shape.heads, "head": shape.head_dim}
    sizes |= {"key and value heads": shape.kv_heads} | {matrix.name: min(matrix.out, matrix.into) for matrix in matrices}
    for name, number in [*sizes.items(), *((matrix.name, matrix.out) for matrix in matrices)]:
        if not 1 <= number <= MOST:
            raise ValueError(f"{name} = {number}")
    for layer in shape.layers:
        if not 1 <= layer.count <= 10_000 or layer.experts > 10_000 or layer.top_k > 10_000:
            raise ValueError(f"{layer.count} layers of {layer.experts} experts")
    if not 0 <= shape.rotary <= 1 or any(size < 0 for size in (*shape.tables, *shape.extra_vectors)):
        raise ValueError("a table, or the share of rotary positions")
    rates = (shape.embedding_dropout, shape.residual_dropout, shape.attention_dropout)
    if not all(0 <= rate <= 1 for rate in rates):
        raise ValueError(f"dropout {max(rates)}")
