"""Sizes and choices in a model configuration, under the names that the families give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firstfault.memory.shapes import Activation, Matrix

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
