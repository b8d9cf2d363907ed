"""Facts in what the probe recorded: memory and saved tensors from micro-batch to micro-batch and from step to step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import median
from typing import Any

import msgspec

from firstfault.ingest.context import Context
from firstfault.ingest.lines import Line
from firstfault.model.bundle import Note
from firstfault.model.fact import Fact
from firstfault.model.span import SourceSpan

PRODUCES = (
    "autograd.saved_bytes_after_backward",
    "autograd.saved_bytes_rising_micro_steps",
    "memory.activation_bytes",
    "memory.flat_before",
    "memory.micro_step_r2",
    "memory.micro_step_slope_bytes",
    "memory.step_slope_bytes",
    "oom.micro_index",
    "oom.requested_bytes",
    "run.steps_done",
    "train.accumulation_steps",
)

MAX_RECORDS = 200_000
MAX_LINE_CHARS = 64 << 10
MIN_MICRO_STEPS = 3
MIN_STEPS = 8
WARM_UP_STEPS = 3
SLOPE_WINDOW = 64
FLAT_WINDOW = 20
FLAT_SHARE = 0.02
MIN_SLOPE_BYTES = 1 << 20
MAX_SPANS = 8


class _Record(msgspec.Struct, frozen=True):
    """One line of the probe: the state behind a micro-batch."""

    rank: int | None
    step: int
    micro_step: int
    allocated_bytes: int | None
    saved_bytes: int | None
    span: SourceSpan


def read_vitals(lines: Sequence[Line], ctx: Context) -> tuple[tuple[Fact, ...], tuple[Note, ...]]:
    """Facts of the rank with most records; what needs more points than there are stays unknown."""
    records: dict[int | None, list[_Record]] = {}
    facts: dict[str, Fact] = {}
    unreadable = 0
    for line in lines[:MAX_RECORDS]:
        text = line.text.strip()
        if not text:
            continue
        values = _decode(text)
        if values is None:
            unreadable += 1
            continue
        _header(values, ctx.span(line), facts)
        record = _record(values, ctx.span(line))
        if record is not None:
            records.setdefault(record.rank, []).append(record)
    notes = (Note(ctx.source.path, f"{unreadable} lines are no records of the probe"),) if unreadable else ()
    if records:
        chosen = max(records.values(), key=len)
        for fact in (*_micro_step_facts(chosen), *_saved_facts(chosen), *_step_facts(chosen)):
            facts[fact.name] = fact
    return tuple(facts.values()), notes


def _decode(text: str) -> dict[str, Any] | None:
    if len(text) > MAX_LINE_CHARS:
        return None
    try:
        values = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def _whole(value: Any) -> int | None:
    """A count or a number of bytes; None for anything else, and for what no machine has."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if 0 <= value < 1 << 60 else None


def _header(values: dict[str, Any], span: SourceSpan, facts: dict[str, Fact]) -> None:
    """What the probe knows of the run, of the first forward pass, and of the allocation that failed."""
    steps = _whole(values.get("accumulation_steps"))
    if steps:
        facts.setdefault("train.accumulation_steps", _fact("train.accumulation_steps", steps, "probe", (span,)))
    saved = _whole(values.get("saved_bytes_after_forward"))
    if saved:
        facts.setdefault(
            "memory.activation_bytes",
            _fact("memory.activation_bytes", saved, "saved tensors behind the first forward", (span,)),
        )
    if values.get("event") == "oom":
        for name, key in (("oom.micro_index", "micro_step"), ("oom.requested_bytes", "requested_bytes")):
            value = _whole(values.get(key))
            if value is not None:
                facts.setdefault(name, _fact(name, value, "the probe's record of the failure", (span,)))


def _record(values: dict[str, Any], span: SourceSpan) -> _Record | None:
    step = _whole(values.get("step"))
    if step is None:
        return None
    return _Record(
        rank=_whole(values.get("rank")),
        step=step,
        micro_step=_whole(values.get("micro_step")) or 0,
        allocated_bytes=_whole(values.get("allocated_bytes")),
        saved_bytes=_whole(values.get("saved_bytes_after_backward")),
        span=span,
    )


def _micro_step_facts(records: list[_Record]) -> list[Fact]:
    """Slope of allocated bytes over the last window that is long enough, from its second micro-batch on.

    What the first one adds are the gradients, which stay.
    """
    windows: dict[int, list[_Record]] = {}
    for record in records:
        if record.micro_step >= 1 and record.allocated_bytes is not None:
            windows.setdefault(record.step, []).append(record)
    usable = [window for window in windows.values() if len({record.micro_step for record in window}) >= MIN_MICRO_STEPS]
    if not usable:
        return []
    window = usable[-1]
    points = [(float(record.micro_step), float(record.allocated_bytes or 0)) for record in window]
    slope, r2 = _line_through(points)
    spans = _ends(window)
    origin = "least squares over the micro-batches of one window"
    return [
        _fact("memory.micro_step_slope_bytes", round(slope), origin, spans),
        _fact("memory.micro_step_r2", r2, origin, spans),
    ]


def _line_through(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Slope and R squared of the least-squares line; values that do not vary are a perfect, flat line."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    sum_xx = sum((x - mean_x) ** 2 for x, _ in points)
    sum_xy = sum((x - mean_x) * (y - mean_y) for x, y in points)
    sum_yy = sum((y - mean_y) ** 2 for _, y in points)
    slope = sum_xy / sum_xx
    return slope, 1.0 if not sum_yy else min(slope * sum_xy / sum_yy, 1.0)


def _saved_facts(records: list[_Record]) -> list[Fact]:
    saved = [record for record in records if record.saved_bytes is not None]
    if not saved:
        return []
    rising = 0
    for before, after in zip(reversed(saved[:-1]), reversed(saved), strict=False):
        if (after.saved_bytes or 0) <= (before.saved_bytes or 0):
            break
        rising += 1
    last = saved[-1]
    facts = [_fact("autograd.saved_bytes_after_backward", last.saved_bytes or 0, "probe", (last.span,))]
    if len(saved) > 1:
        run = saved[len(saved) - 1 - rising :]
        facts.append(_fact("autograd.saved_bytes_rising_micro_steps", rising, "probe", _ends(run)))
    return facts


def _step_facts(records: list[_Record]) -> list[Fact]:
    last = max(records, key=lambda record: record.step)
    facts = [_fact("run.steps_done", last.step, "steps in the probe's record begin at 0", (last.span,))]
    starts = {
        record.step: record for record in reversed(records) if record.micro_step == 0 and record.allocated_bytes is not None
    }
    ordered = [starts[step] for step in sorted(starts)]
    settled = ordered[WARM_UP_STEPS:]
    if len(settled) >= MIN_STEPS:
        slope = _robust_slope(settled[-SLOPE_WINDOW:])
        facts.append(_fact("memory.step_slope_bytes", slope, "median slope over the starts of steps", _ends(settled)))
    # The last step may be the one that failed.
    before = [record.allocated_bytes or 0 for record in ordered[:-1][-FLAT_WINDOW:]]
    if len(before) >= MIN_STEPS:
        flat = max(before) - min(before) < FLAT_SHARE * max(before)
        facts.append(
            _fact("memory.flat_before", flat, "allocated bytes at the starts of steps", _ends(ordered[:-1][-FLAT_WINDOW:]))
        )
    return facts


def _robust_slope(records: list[_Record]) -> int:
    """Theil-Sen slope in bytes a step; 0 unless it exceeds 1 MiB and three times its own spread."""
    slopes = [
        ((later.allocated_bytes or 0) - (earlier.allocated_bytes or 0)) / (later.step - earlier.step)
        for earlier, later in combinations(records, 2)
    ]
    slope = median(slopes)
    # The pairwise slopes scatter far more than their median does: its spread shrinks with the number of steps.
    spread = median(abs(value - slope) for value in slopes) / len(records) ** 0.5
    return round(slope) if abs(slope) > max(MIN_SLOPE_BYTES, 3 * spread) else 0


def _ends(records: Sequence[_Record]) -> tuple[SourceSpan, ...]:
    spans = [record.span for record in records]
    return tuple(spans if len(spans) <= MAX_SPANS else (*spans[: MAX_SPANS // 2], *spans[-MAX_SPANS // 2 :]))


def _fact(name: str, value: bool | int | float, origin: str, spans: tuple[SourceSpan, ...]) -> Fact:
    return Fact(name=name, value=value, origin=origin, spans=spans)
