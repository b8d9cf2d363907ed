"""Bytes of an optimizer: what it keeps a parameter, and what its step takes for a moment."""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.memory.plan import DTYPE_BYTES, MemoryPlan
from firstfault.memory.sharding import kept_width
from firstfault.memory.tape import Parameter

BLOCK = 256
SMALLEST_QUANTIZED = 4096
"""bitsandbytes keeps the state of smaller tensors in fp32."""


def state_bytes(plan: MemoryPlan, groups: Sequence[tuple[int, Parameter, bool]]) -> int:
    """State of all trained parameters: (how often, parameter, is an embedding) each; before any sharding."""
    return sum(count * _state(plan, one, embedding) for count, one, embedding in groups if one.trained)


def _state(plan: MemoryPlan, one: Parameter, embedding: bool) -> int:
    name = plan.optimizer.name
    width = DTYPE_BYTES[plan.optimizer.state_dtype] if plan.optimizer.state_dtype else kept_width(plan, one.width)
    master = one.numel * 4 if plan.parallel.strategy.startswith("zero") and one.width == 2 else 0
    width = 4 if master else width
    if name in ("none", "sgd"):
        return master
    if name == "sgd_momentum":
        return one.numel * width + master
    if name == "adamw_8bit":
        if embedding or one.numel < SMALLEST_QUANTIZED:
            return one.numel * 8 + master
        return 2 * one.numel + 2 * 4 * (one.numel // BLOCK) + master
    if name == "adafactor":
        # One row and one column of fp32; a square stands for the shape, which differs by less than the rounding.
        return 8 * int(one.numel**0.5) + master
    return 2 * one.numel * width + master


def moment_bytes(plan: MemoryPlan, groups: Sequence[tuple[int, Parameter, bool]]) -> int:
    """What one `step()` allocates besides: torch's foreach AdamW takes the square root of all second moments."""
    trained = [(count, one.numel, kept_width(plan, one.width)) for count, one, _ in groups if one.trained]
    largest = max((numel * width for _, numel, width in trained), default=0)
    name, implementation = plan.optimizer.name, plan.optimizer.implementation
    if name == "adafactor":
        # Square and update; for weights in half precision also weight and gradient in fp32.
        return max((numel * 4 * (2 if width == 4 else 4) for _, numel, width in trained), default=0)
    if name == "adamw_8bit" or name in ("none", "sgd", "sgd_momentum") or implementation == "fused":
        return 0
    if implementation == "loop":
        return 2 * largest
    by_width: dict[int, int] = {}
    for count, numel, width in trained:
        by_width[width] = by_width.get(width, 0) + count * numel * width
    return max(by_width.values(), default=0)
