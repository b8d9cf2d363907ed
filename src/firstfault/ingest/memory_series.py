"""Memory that a run prints as it goes: whether resident memory of its processes, or memory on its device, rises."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from typing import NamedTuple

from firstfault.ingest.context import Context
from firstfault.ingest.lines import Line
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Fact
from firstfault.model.span import SourceSpan
from firstfault.units import parse_size

PRODUCES = (
    "host.rss_growth",
    "memory.flat_before",
    "memory.micro_step_slope_bytes",
    "memory.step_slope_bytes",
    "train.accumulation_steps",
)

WORDS = ("rss", "resident", "mem", "allocated")
"""One of these stands in every line that is read."""

MAX_LINES = 4_000
"""Lines with one of the words that are read: the last ones, which lead up to the failure."""
MAX_SERIES = 256
MAX_LINE_CHARS = 2_000
MIN_POINTS = 5
MIN_STEPS = 8
WARM_UP = 2
SLOPE_WINDOW = 64
FLAT_WINDOW = 20
FLAT_SHARE = 0.02
RISE_SHARE = 0.1
MIN_RISE_BYTES = 64 << 20
MIN_SLOPE_BYTES = 1 << 20
STEADY_SHARE = 0.8
LATE_SHARE = 0.25

_FIGURE = lazy_pattern(
    r"(?<![a-z0-9])(?P<what>rss|resident(?:[ _](?:memory|set size|set))?"
    r"|mem(?:ory)?(?:[ _](?:allocated|used|usage))?|allocated)"
    r"(?: ?[=:] ?| )(?P<size>[0-9]{1,12}(?:\.[0-9]{1,6})?) ?(?P<unit>bytes|[kmgt]i?b)\b"
)
_WORDS_BEFORE = lazy_pattern(r"(?:[a-z]{1,12}[ _-]){1,3}\Z")
_MICRO_STEP = lazy_pattern(
    r"\bmicro[ _-]?(?:step|batch)\s{0,2}[=:#\[]?\s{0,4}(?P<step>[0-9]{1,9})\b(?: ?(?:/|of) ?(?P<total>[0-9]{1,6})\b)?",
    needs="micro",
)
_STEP = lazy_pattern(
    r"(?<!micro[ _-])\b(?:global_?)?(?:step|iter|iteration)s?\s{0,2}[=:#\[]?\s{0,4}(?P<step>[0-9]{1,9})\b",
    needs=("step", "iter"),
)
_WORKER = lazy_pattern(r"\bworker[ _#=:-]{0,2}(?P<number>[0-9]{0,6})", needs="worker")
# Peaks never fall, so their rise says little; what is free or the limit is not what is used.
_OTHER_FIGURES = frozenset(
    {"max", "peak", "highest", "reserved", "cached", "free", "available", "avail", "total", "limit", "shared"}
)
_HOST = frozenset({"cpu", "host", "ram", "system", "sys", "virtual", "process", "rss"})


class Point(NamedTuple):
    """One figure: the step it was printed for (None: no step on the line), its bytes, and where it stands."""

    step: int | None
    size_bytes: int
    span: SourceSpan


class _Key(NamedTuple):
    rank: int | None
    kind: str
    """`main` or `workers` for resident memory of a process, `device` for memory on the device."""
    number: str
    window: int | None
    """Micro-batches of a window where the line counts those instead of steps; 0 if it does not say how many there are."""


def read_memory_series(lines: Sequence[Line], ctx: Context) -> tuple[Fact, ...]:
    """Facts of series with enough points and a clear direction; anything else stays unknown."""
    series: dict[_Key, list[Point]] = {}
    on_gpu = False
    telling: deque[tuple[Line, str]] = deque(maxlen=MAX_LINES)
    for line in lines:
        lower = line.text[:MAX_LINE_CHARS].casefold()
        on_gpu = on_gpu or "cuda" in lower
        if any(word in lower for word in WORDS):
            telling.append((line, lower))
    for line, lower in telling:
        for key, point in _points(line, lower, ctx):
            if key in series or len(series) < MAX_SERIES:
                series.setdefault(key, []).append(point)
    resident = {key: points for key, points in series.items() if key.kind != "device"}
    facts = [*growth_fact([(key.kind, points) for key, points in resident.items()], "resident memory in the log")]
    # Without a GPU the tensors are in the process's own memory.
    kind = "device" if any(key.kind == "device" for key in series) else None if on_gpu else "main"
    facts.extend(_step_facts([points for key, points in series.items() if key.kind == kind and key.window is None]))
    facts.extend(_micro_step_facts([points for key, points in series.items() if key.kind == kind and key.window is not None]))
    windows = {key.window: points for key, points in series.items() if key.window}
    if len(windows) == 1:
        (length, points), *_ = windows.items()
        origin = "micro-batches of a window in the log"
        facts.append(Fact(name="train.accumulation_steps", value=length or 0, origin=origin, spans=(points[0].span,)))
    return tuple(facts)


def _points(line: Line, text: str, ctx: Context) -> Iterator[tuple[_Key, Point]]:
    """The first figure of the line, whose text comes in lower case."""
    for found in _FIGURE.finditer(text):
        before = _WORDS_BEFORE.search(text[max(0, found.start() - 40) : found.start()])
        words = set(before[0].replace("_", " ").replace("-", " ").split()) if before else set()
        what = found["what"]
        if words & _OTHER_FIGURES:
            continue
        micro = _MICRO_STEP.search(text)
        step = micro or _STEP.search(text)
        worker = _WORKER.search(text, 0, found.start("what"))
        if what.startswith(("rss", "resident")) or words & _HOST:
            side, number = ("workers", worker["number"]) if worker else ("main", "")
        else:
            side, number = "device", ""
        key = _Key(line.place.rank, side, number, int(micro["total"] or 0) if micro else None)
        yield key, Point(int(step["step"]) if step else None, parse_size(found["size"] + found["unit"]), ctx.span(line))
        return


def growth_fact(series: Sequence[tuple[str, Sequence[Point]]], origin: str) -> Iterator[Fact]:
    """host.rss_growth of series, each labelled `main` or `workers`: the side that rose more, or `none` if all are flat."""
    usable = [(side, points) for side, points in series if len(points) >= MIN_POINTS]
    if not usable:
        return
    rising = [(side, points) for side, points in usable if rises([point.size_bytes for point in points])]
    if rising:
        total: dict[str, int] = {}
        for side, points in rising:
            total[side] = total.get(side, 0) + points[-1].size_bytes - points[0].size_bytes
        side = max(sorted(total), key=lambda name: total[name])
        # A side that was not recorded may have grown as well; only what was seen is said.
        shown = next(points for own, points in rising if own == side)
        yield Fact(name="host.rss_growth", value=side, origin=origin, spans=_ends(shown))
    elif all(is_flat([point.size_bytes for point in points[WARM_UP:]]) for _, points in usable):
        yield Fact(name="host.rss_growth", value="none", origin=origin, spans=_ends(usable[0][1]))


def rises(values: Sequence[int]) -> bool:
    """True if values rise by a tenth and 64 MiB at least, steadily, and not at the beginning only."""
    if len(values) < MIN_POINTS:
        return False
    rise = values[-1] - values[0]
    if rise < max(MIN_RISE_BYTES, RISE_SHARE * values[0]):
        return False
    upward = sum(after >= before for before, after in pairwise(values))
    late = values[-1] - values[len(values) // 2]
    return upward >= STEADY_SHARE * (len(values) - 1) and late >= LATE_SHARE * rise


def is_flat(values: Sequence[int]) -> bool:
    """True if the values differ by less than 2 %."""
    return len(values) > 1 and max(values) - min(values) < FLAT_SHARE * max(values)


def _step_facts(series: Sequence[Sequence[Point]]) -> Iterator[Fact]:
    """Slope a step of the series that rises most, 0 if all are flat; flat_before says the same of the last steps."""
    usable = [points for points in map(_by_step, series) if len(points) >= MIN_STEPS + WARM_UP]
    if not usable:
        return
    settled = [points[WARM_UP:][-SLOPE_WINDOW:] for points in usable]
    steep = [points for points in settled if rises([point.size_bytes for point in points])]
    if steep:
        points = max(steep, key=_slope)
        slope = round(_slope(points))
        if slope > MIN_SLOPE_BYTES:
            origin = "median slope over the printed steps"
            yield Fact(name="memory.step_slope_bytes", value=slope, origin=origin, spans=_ends(points), rounded=True)
            yield Fact(name="memory.flat_before", value=False, origin="memory at the printed steps", spans=_ends(points))
    elif all(is_flat([point.size_bytes for point in points[-FLAT_WINDOW:]]) for points in settled):
        yield Fact(name="memory.step_slope_bytes", value=0, origin="memory at the printed steps", spans=_ends(settled[0]))
        yield Fact(name="memory.flat_before", value=True, origin="memory at the printed steps", spans=_ends(settled[0]))


def _micro_step_facts(series: Sequence[Sequence[Point]]) -> Iterator[Fact]:
    """Slope a micro-batch in the last window that is long enough, from its second micro-batch on: the first adds gradients."""
    windows = [points[1:] for points in map(_by_step, series) if len(points) > MIN_STEPS]
    if not windows:
        return
    name, origin = "memory.micro_step_slope_bytes", "median slope over the printed micro-batches"
    steep = [points for points in windows if rises([point.size_bytes for point in points])]
    if steep:
        points = max(steep, key=_slope)
        yield Fact(name=name, value=round(_slope(points)), origin=origin, spans=_ends(points), rounded=True)
    elif all(is_flat([point.size_bytes for point in points]) for points in windows):
        yield Fact(name=name, value=0, origin=origin, spans=_ends(windows[0]))


def _by_step(points: Sequence[Point]) -> list[Point]:
    """The points that carry a step, as long as the steps go up: what begins anew is another phase."""
    kept: list[Point] = []
    for point in points:
        if point.step is None:
            continue
        if kept and point.step <= (kept[-1].step or 0):
            kept = []
        kept.append(point)
    return kept


def _slope(points: Sequence[Point]) -> float:
    """The median of the slopes between all pairs of points."""
    slopes = sorted(
        (later.size_bytes - earlier.size_bytes) / ((later.step or 0) - (earlier.step or 0))
        for earlier, later in combinations(points, 2)
    )
    return slopes[len(slopes) // 2]


def _ends(points: Sequence[Point]) -> tuple[SourceSpan, ...]:
    return (points[0].span, points[-1].span)
