"""When a traceback was printed: a logger gives the time on the line above it, of the record that the traceback belongs to."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from firstfault.ingest.lines import Line
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.event import Clock, Place, Traceback

MAX_ABOVE = 64
"""Lines of other processes between a record's first line and its traceback."""
_HEAD_CHARS = 200
_HEADER = "Traceback (most recent call last)"
_LEVEL = lazy_pattern(r"\b(?:ERROR|CRITICAL|FATAL|EXCEPTION|Error|Exception)\b|\b[EF]\d{4} \d\d:")


def with_record_times(tracebacks: Sequence[Traceback], lines: Sequence[Line]) -> tuple[Traceback, ...]:
    """The tracebacks, those without a time of their own at that of the error record right above them on their process."""
    if all(one.place.time is not None for one in tracebacks):
        return tuple(tracebacks)
    numbers = [line.number for line in lines]
    return tuple(one if one.place.time is not None else _timed(one, lines, numbers) for one in tracebacks)


def _timed(traceback: Traceback, lines: Sequence[Line], numbers: Sequence[int]) -> Traceback:
    root = traceback.root
    first = root.frames[0].span if root.frames else root.span
    time = _time_above(traceback.place, lines, bisect_left(numbers, first.line))
    return traceback if time is None else replace(traceback, place=replace(traceback.place, time=time))


def _time_above(place: Place, lines: Sequence[Line], index: int) -> Clock | None:
    for line in _above(place, lines, index):
        if _HEADER in line.text or not line.text.strip():
            continue
        return line.place.time if _LEVEL.search(line.raw[:_HEAD_CHARS]) else None
    return None


def _above(place: Place, lines: Sequence[Line], index: int) -> Iterator[Line]:
    """The lines of one process above a place, the nearest first."""
    for line in reversed(lines[max(0, index - MAX_ABOVE) : index]):
        if (line.place.rank, line.place.local_rank) == (place.rank, place.local_rank):
            yield line
