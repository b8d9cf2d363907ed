"""Tier 1: the forecast of a plan from a traced step, with the caching allocator on paper in place of a band."""

from __future__ import annotations

from firstfault.errors import UsageError
from firstfault.memory.assumptions import assume, miss
from firstfault.memory.bands import component, outside
from firstfault.memory.families import read_config
from firstfault.memory.plan import MemoryPlan
from firstfault.memory.replay import UNEXPLAINED, Peak, Replay
from firstfault.memory.trace import Trace
from firstfault.model.forecast import Assumption, Band, FirstOom, FitVerdict, Forecast, Phase

_ALLOCATED = (0.99, 1.01)
_ALLOCATED_AUTOCAST = (0.96, 1.04)
_RESERVED = (0.97, 1.05)
"""Published runs at one length lie within 5 % of the replay (bench/memory_truth.py --tier 1)."""


def untraceable(plan: MemoryPlan) -> str | None:
    """What a traced step cannot show of this plan, as the end of a sentence; None if it shows all."""
    parallel = plan.parallel
    if parallel.world > 1 and parallel.strategy not in ("single", "dp", "ddp"):
        return f"a step under {parallel.strategy} needs its processes"
    if parallel.offload_optimizer or parallel.offload_weights:
        return "offloading is not traced"
    if plan.quantization != "none" or plan.optimizer.name == "adamw_8bit" or plan.optimizer.paged:
        return "the kernels of bitsandbytes have no shapes without a GPU"
    if plan.loss in ("fused", "chunked"):
        return "a fused loss is a kernel without shapes"
    return None


def forecast_of(plan: MemoryPlan, trace: Trace) -> Forecast:
    """Peaks of every phase by the trace; whether they fit, by replays against the device less its context."""
    allocator, extra = plan.allocator, outside(plan)
    more, less = max(0, plan.difference_bytes), min(0, plan.difference_bytes)
    free = Replay(trace.events, allocator, extra=more)
    limit = plan.device.memory_bytes
    verdict: FitVerdict = "unknown"
    shown, first = free, None
    if limit is not None:
        runs = [Replay(trace.events, allocator, limit - taken - less, extra=more) for taken in extra]
        verdict = _judge(runs)
        if runs[1].failed is None:
            shown = runs[1]
        else:
            first = _first_oom(runs[1], limit)
    cap = limit if verdict == "fits" else None
    # Near the limit the cache is given back once; what is reserved from then on is less than what was before.
    settled = shown.allocator.reserved if shown.allocator.retries else None
    phases = tuple(
        _phase(plan, name, peak, shown.peaks.get(name, peak).reserved + less, cap, settled)
        for name, peak in ((name, _less(peak, less) if name != "load" else peak) for name, peak in free.peaks.items())
    )
    return Forecast(
        tier="trace",
        model=plan.model or str(plan.config.get("model_type", "")),
        parameters=trace.parameters,
        trainable_parameters=trace.trainable,
        device=plan.device.name,
        limit=limit,
        verdict=verdict,
        phases=phases,
        peak=max(range(len(phases)), key=lambda index: phases[index].allocated.mid),
        first_oom=first,
        assumptions=(*_assumed(plan), *_versions(trace)),
        missing=miss(plan),
        notes=tuple(trace.notes),
    )


def _judge(runs: list[Replay]) -> FitVerdict:
    """By the smallest, the usual and the largest context: a step that fails with the smallest does not fit."""
    if runs[0].failed is not None:
        return "does not fit"
    last = runs[2]
    limit = last.allocator.limit or 0
    if last.failed is not None or max(peak.live for peak in last.peaks.values()) * _ALLOCATED[1] > limit:
        return "tight"
    return "fits"


def _phase(plan: MemoryPlan, name: str, peak: Peak, reserved: int, cap: int | None, settled: int | None) -> Phase:
    """The bands of one phase; what fits stays below `cap`, as the allocator gives its cache back before it fails.

    `settled` is what stays reserved where the cache was given back.
    """
    extra = outside(plan)
    shares = _ALLOCATED if plan.autocast in (None, plan.weights) else _ALLOCATED_AUTOCAST
    allocated = Band(lo=int(peak.live * shares[0]), mid=peak.live, hi=max(int(peak.live * shares[1]), peak.blocks))
    reserved = max(reserved, peak.live)
    least = reserved if settled is None else min(reserved, settled)
    low, high = max(allocated.lo, int(least * _RESERVED[0])), max(allocated.hi, int(reserved * _RESERVED[1]))
    band = Band(lo=low, mid=reserved, hi=high if cap is None else max(reserved, min(high, cap - extra[2])))
    return Phase(
        name=name,  # type: ignore[arg-type]
        device="cuda:0" if plan.parallel.strategy in ("single", "dp") else "each",
        allocated=allocated,
        reserved=band,
        total=Band(lo=band.lo + extra[0], mid=band.mid + extra[1], hi=band.hi + extra[2]),
        components=tuple(
            component(kind, size)
            for size, kind in sorted(((size, kind) for kind, size in peak.kinds.items() if size), reverse=True)
        ),
    )


def _less(peak: Peak, less: int) -> Peak:
    """A peak of which a measurement shows `less` bytes (negative)."""
    if not less:
        return peak
    return peak._replace(live=peak.live + less, kinds={**peak.kinds, UNEXPLAINED: less}, blocks=peak.blocks + less)


def _first_oom(run: Replay, limit: int) -> FirstOom | None:
    failed = run.failed
    if failed is None:
        return None
    return FirstOom(
        phase=failed.phase,  # type: ignore[arg-type]
        device="cuda:0",
        request=failed.request,
        what=f"{failed.kind} of {failed.module}" if failed.module else failed.kind,
        allocated=failed.allocated,
        reserved=failed.reserved,
        limit=limit,
    )


def _assumed(plan: MemoryPlan) -> tuple[Assumption, ...]:
    """As for a formula, less what the trace knows."""
    try:
        shape = read_config(plan.config, plan.head)
    except UsageError:
        return ()
    return tuple(one for one in assume(plan, shape) if one.fact not in ("architecture", "reserved", "loss"))


def _versions(trace: Trace) -> tuple[Assumption, ...]:
    found = [
        Assumption(fact=name, value=version, source="the interpreter that was asked")
        for name, version in trace.versions.items()
    ]
    if trace.answers:
        places = ", ".join(sorted(trace.answers)[:4])
        asked = sum(trace.answers.values())
        found.append(
            Assumption(
                fact="content of tensors", value=f"asked {asked} times", source=f"answered as for full batches in {places}"
            )
        )
    found.append(Assumption(fact="reserved", value="replayed", source="the caching allocator's rules, steps of one length"))
    return tuple(found)
