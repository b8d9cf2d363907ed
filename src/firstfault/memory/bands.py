"""How far off each figure may be, and whether a device holds it."""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.memory import devices
from firstfault.memory.plan import MemoryPlan
from firstfault.memory.shapes import Architecture
from firstfault.model.forecast import Band, Component, FitVerdict, Phase, PhaseName

_MIB = 1 << 20
_RESERVED = (1.01, 1.04, 1.12)
_RESERVED_CHECKPOINTED = (1.03, 1.17, 1.42)
_RESERVED_EXPANDABLE = (1.0, 1.01, 1.06)
"""Reserved over the highest allocated so far. Published runs at one length lie between 1.02 and 1.42 (bench/memory_truth.py);
most of it are freed blocks of recomputed layers that the logits do not fit in."""
_COMMUNICATION = (100 * _MIB, 350 * _MIB, 1000 * _MIB)
"""NCCL's channels and buffers in a run of several processes."""
_WHY = {
    "weights": "parameters x bytes of their type",
    "gradients": "trained parameters x bytes of their type",
    "optimizer state": "what the optimizer keeps a parameter",
    "logits": "tokens x vocabulary x bytes, with the copies of the loss",
    "activations": "saved for backward, and what the current operation needs",
    "optimizer temporaries": "what one optimizer step computes beside its state",
    "gathered weights": "layers whose shards are put together for the moment",
    "gather buffers": "outputs (or gradients) of all devices on the first",
    "gathered logits": "predictions that are kept on the device",
    "DDP buckets": "one more set of gradients (gradient_as_bucket_view is off)",
    "workspaces": "cuBLAS and attention kernels",
    "not explained": "measured bytes beyond what is computed (negative: computed beyond what is measured)",
}


def uncertainty(plan: MemoryPlan, shape: Architecture) -> tuple[float, float]:
    """Factors of the lower and upper end of allocated bytes."""
    if not shape.known:
        return 0.8, 1.3
    if plan.quantization != "none":
        return 0.85, 1.2
    if shape.kind == "encoder-decoder":
        return 0.8, 1.12
    if any(layer.experts for layer in shape.layers):
        return 0.9, 1.12
    if plan.parallel.strategy not in ("single", "dp", "ddp", "zero0"):
        return 0.94, 1.08
    if plan.autocast not in (None, plan.weights):
        return 0.95, 1.05
    return 0.98, 1.02


def phase_of(plan: MemoryPlan, shape: Architecture, name: str, peak: tuple[int, dict[str, int]], top: int) -> Phase:
    """The bands of one phase; `top` is the highest point of it and of those before it."""
    live, kinds = peak
    low, high = uncertainty(plan, shape)
    factors = _RESERVED_CHECKPOINTED if plan.checkpointing else _RESERVED
    if plan.allocator.expandable_segments:
        factors = _RESERVED_EXPANDABLE
    allocated = Band(lo=int(live * low), mid=live, hi=int(live * high))
    extra = outside(plan)
    tops = [int(top * share) for share in (low, 1, high)]
    limit = plan.device.memory_bytes
    # Near the limit the allocator gives its cached blocks back before it fails: reserved stays below it while the tensors fit.
    caps = [max(one, limit - taken) if limit else one * 2 for one, taken in zip(tops, extra, strict=True)]
    lows, mids, highs = (min(int(one * factor), cap) for one, factor, cap in zip(tops, factors, caps, strict=True))
    reserved = Band(lo=lows, mid=max(lows, mids), hi=max(lows, mids, highs))
    total = Band(lo=reserved.lo + extra[0], mid=reserved.mid + extra[1], hi=reserved.hi + extra[2])
    parts = sorted(((size, kind) for kind, size in kinds.items() if size), reverse=True)
    return Phase(
        name=_phase_name(name),
        device="cuda:0" if plan.parallel.strategy in ("single", "dp") else "each",
        allocated=allocated,
        reserved=reserved,
        total=total,
        components=tuple(component(kind, size) for size, kind in parts),
    )


def component(kind: str, size: int) -> Component:
    """`size` bytes of a kind, with what they are."""
    return Component(name=kind, bytes=size, why=_WHY.get(kind, ""))


def outside(plan: MemoryPlan) -> tuple[int, int, int]:
    """What a device holds besides torch's own memory: context and communication, the least, the usual and the most bytes."""
    if plan.device.context_bytes is not None:
        return (plan.device.context_bytes,) * 3
    several = plan.parallel.world > 1 and plan.parallel.strategy != "dp"
    low, usual, high = (one + (shared if several else 0) for one, shared in zip(devices.CONTEXT, _COMMUNICATION, strict=True))
    return low, usual, high


def _phase_name(name: str) -> PhaseName:
    return name  # type: ignore[return-value]


def judge(phases: Sequence[Phase], limit: int | None) -> FitVerdict:
    """`fits` where even the upper end goes in, `does not fit` where the live tensors alone exceed the device.

    Cached blocks that nobody uses do not count against it: the allocator returns them before it gives up. A twentieth is
    left for the holes between blocks in use.
    """
    if limit is None:
        return "unknown"
    outside = [(phase.total.lo - phase.reserved.lo, phase.total.hi - phase.reserved.hi) for phase in phases]
    if any(phase.allocated.mid + low > limit for phase, (low, _) in zip(phases, outside, strict=True)):
        return "does not fit"
    if any(phase.allocated.hi * 1.05 + high > limit for phase, (_, high) in zip(phases, outside, strict=True)):
        return "tight"
    return "fits"
