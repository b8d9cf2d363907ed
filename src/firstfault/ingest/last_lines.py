"""How the output of each process ends: its last line, and what it printed before it began to complain of others."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from firstfault.ingest.lines import Line
from firstfault.model.bundle import RankEnd
from firstfault.model.event import Event, Traceback

MAX_END_CHARS = 500
KEPT_LINES = 4
_WAITS = frozenset({"collective_timeout", "peer_lost", "store_timeout", "nccl_abort_note", "watchdog_stuck"})
_NO_WORK = ("context", "progress")

_Key = tuple[int | str | None, ...]


def ends_of(lines: Sequence[Line], events: Iterable[Event] = (), tracebacks: Iterable[Traceback] = ()) -> tuple[RankEnd, ...]:
    """The last line with text of each process, with the last lines of its work.

    A process works until it reports a wait that failed: what follows is about that. Lines of errors are no work.
    """
    errors = {event.span.line: event for event in events if event.fault_class is not None and event.role not in _NO_WORK}
    inside = {number for traceback in tracebacks for number in _numbers(traceback)}
    last: dict[_Key, Line] = {}
    work: dict[_Key, deque[Line]] = {}
    waited: set[_Key] = set()
    for line in lines:
        if not line.text.strip():
            continue
        key = _process(line)
        last[key] = line
        error = errors.get(line.number)
        if error is not None and error.fault_class in _WAITS:
            waited.add(key)
        if error is None and key not in waited and line.number not in inside:
            work.setdefault(key, deque(maxlen=KEPT_LINES)).append(line)
    return tuple(_end(line, tuple(_as_printed(one) for one in work.get(key, ()))) for key, line in last.items())


def _process(line: Line) -> _Key:
    place = line.place
    ranks = (place.rank, place.local_rank)
    return (*ranks, place.attempt, place.host if ranks == (None, None) else None)


def _end(line: Line, work: tuple[RankEnd, ...]) -> RankEnd:
    return RankEnd(place=line.place, text=line.text[:MAX_END_CHARS], line=line.number, offset=line.offset, work=work)


def _as_printed(line: Line) -> RankEnd:
    # The name of the logger says as much as the message: `ckpt.writer - INFO - written 3 of 8 GiB`.
    return RankEnd(place=line.place, text=line.raw.strip()[:MAX_END_CHARS], line=line.number, offset=line.offset)


def _numbers(traceback: Traceback) -> range:
    """From the header of the first exception to the last line that ends one."""
    first = min((frame.span.line for block in traceback.blocks for frame in block.frames), default=traceback.root.span.line)
    return range(first - 1, traceback.last.span.line + 1)
