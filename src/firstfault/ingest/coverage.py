"""Which time a kernel log covers, so that what it does not hold did not happen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from firstfault.ingest.context import Context
from firstfault.ingest.lines import Line
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.bundle import Coverage

MIN_LINES = 5
MIN_SUBSYSTEMS = 3
"""A log that was filtered (`dmesg -T | grep Xid`) holds the lines of one or two subsystems and proves nothing else."""

_WALL_KINDS = frozenset({"wall", "yearless"})
_LOST = lazy_pattern(r"\d messages? dropped|[Mm]issed \d+ kernel messages?|Suppressed \d+ messages")
_SUBSYSTEM = lazy_pattern(r"(?:kernel: )?(?P<name>[A-Za-z][A-Za-z_-]*)")
_WORD = lazy_pattern(r"[A-Za-z]{3,}")


def coverage_of(lines: Sequence[Line], ctx: Context) -> Coverage | None:
    """From when to when a kernel log of one host speaks; None without wall-clock times, with gaps, or if it was filtered."""
    timed = [line for line in lines if line.place.time is not None and line.place.time.kind in _WALL_KINDS]
    hosts = {line.place.host or ctx.place.host for line in timed}
    if len(timed) < MIN_LINES or len(hosts) != 1 or _is_filtered(timed) or any(_LOST.search(line.text) for line in lines):
        return None
    first, last = timed[0].place.time, timed[-1].place.time
    if first is None or last is None or first.kind != last.kind or first.seconds > last.seconds:
        return None
    return Coverage(host=hosts.pop(), first=first, last=last, spans=(ctx.span(timed[0]), ctx.span(timed[-1])))


def _is_filtered(lines: Iterable[Line]) -> bool:
    """True if one word stands in all lines, or few subsystems speak."""
    common: set[str] | None = None
    subsystems: set[str] = set()
    for line in lines:
        words = {word.casefold() for word in _WORD.findall(line.text.removeprefix("kernel: "))}
        common = words if common is None else common & words
        if found := _SUBSYSTEM.match(line.text):
            subsystems.add(found["name"].casefold())
    return bool(common) or len(subsystems) < MIN_SUBSYSTEMS
