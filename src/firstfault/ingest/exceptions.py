"""What the tracebacks of a source add to its hits: exceptions that no signal names, and which events are copies."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence

from msgspec.structs import replace

from firstfault.ingest.reading import MAX_TEXT_CHARS, Reading
from firstfault.ingest.traceback_lines import exception_of
from firstfault.knowledge.schema import CausalTable
from firstfault.model.event import Event, Place, Traceback

TRACEBACK_SIGNAL = "python.traceback"
ERROR_LINE = "python.error_line"
MAX_LAST_LINES = 20
"""Lines from the end among which a bare exception counts as the last word."""
_WORKERS_GONE = frozenset({"launcher.worker_failed", "launcher.restarts_workers"})


class Blocks:
    """Which traceback's exception line or message stands at an offset."""

    def __init__(self, tracebacks: Sequence[Traceback]) -> None:
        self._ranges = sorted(
            (block.span.offset, block.end_offset, index)
            for index, traceback in enumerate(tracebacks)
            for block in traceback.blocks
            if block.type
        )
        self._places = [traceback.place for traceback in tracebacks]

    def at(self, offset: int, place: Place) -> int | None:
        """The index of the traceback, if the line there can be its rank's."""
        index = bisect_right(self._ranges, (offset, 1 << 62, 0)) - 1
        # Messages of several ranks may overlap: a few ranges back may still reach to here.
        for start, stop, traceback in reversed(self._ranges[max(0, index - 16) : index + 1]):
            known = self._places[traceback]
            if start <= offset < stop and _agree(place, known) and not _is_own_record(place, known):
                return traceback
        return None


def _agree(one: Place, other: Place) -> bool:
    """True unless the two are known to be different processes."""
    pairs = ((one.rank, other.rank), (one.local_rank, other.local_rank))
    return all(left is None or right is None or left == right for left, right in pairs)


def _is_own_record(place: Place, traceback: Place) -> bool:
    """True for a dated line without a rank between the lines of a rank's message: the launcher printed it."""
    return traceback.rank is not None and place.rank is None and place.time is not None and place.time != traceback.time


def exceptions_of(events: Sequence[Event], reading: Reading, causal: CausalTable) -> list[Event]:
    """An event for each traceback whose first exception no signal names."""
    named: dict[int, list[int]] = defaultdict(list)
    for event in events:
        if event.traceback is not None:
            named[event.traceback].append(event.span.offset)
    classes = {row.name: row.fault_class for row in causal.exception_types}
    priors = {row.id: row.prior for row in causal.classes}
    made: list[Event] = []
    for index, traceback in enumerate(reading.tracebacks):
        root = traceback.root
        if not root.type or any(root.span.offset <= offset < root.end_offset for offset in named.get(index, ())):
            continue
        fault_class = classes.get(root.type.rpartition(".")[2], "python_exception")
        message = root.message.split("\n", 1)[0]
        made.append(
            Event(
                name="python.exception",
                signal=TRACEBACK_SIGNAL,
                role=priors.get(fault_class, "initiating"),
                fault_class=fault_class,
                span=root.span,
                text=f"{root.type}: {message}"[:MAX_TEXT_CHARS] if message else root.type,
                place=traceback.place,
                captures={"exc_type": root.type, "message": root.message[:MAX_TEXT_CHARS]},
                source_id=reading.ctx.source_id,
                traceback=index,
                quoted=reading.told or traceback.ignored,
            )
        )
    return made


def last_word(events: Sequence[Event], reading: Reading) -> list[Event]:
    """The exception that the output ends with, if nothing else in it tells of a failure: a line without its traceback."""
    if reading.told or reading.tracebacks or any(event.fault_class for event in events):
        return []
    for line in reversed(reading.lines[-MAX_LAST_LINES:]):
        named = exception_of(line.text, expected=False)
        if named and named[0].endswith(("Error", "Exception")) and not line.text[:1].isspace():
            return [
                Event(
                    name=ERROR_LINE,
                    signal="",
                    role="context",
                    fault_class=ERROR_LINE.rpartition(".")[2],
                    span=reading.ctx.span(line),
                    text=line.text[:MAX_TEXT_CHARS],
                    place=line.place,
                    source_id=reading.ctx.source_id,
                )
            ]
    return []


def without_copies(events: Sequence[Event], tracebacks: Sequence[Traceback]) -> list[Event]:
    """One event for an exception that a rank prints twice (plain, and again with its prefix), at the earliest place.

    Where the launcher says in between that its workers are gone, a new process printed the second one.
    """
    gone = sorted(event.span.offset for event in events if event.name in _WORKERS_GONE)
    kept: list[Event] = []
    seen: dict[tuple[object, ...], list[int]] = {}
    for event in events:
        if event.traceback is None:
            kept.append(event)
            continue
        traceback = tracebacks[event.traceback]
        block = next((b for b in traceback.blocks if b.span.offset <= event.span.offset < b.end_offset), traceback.root)
        inner = (block.frames[-1].path, block.frames[-1].line) if block.frames else None
        key = (event.name, block.type, block.message[:300], inner)
        earlier = seen.setdefault(key, [])
        lives = bisect_right(gone, event.span.offset)
        alike = (at for at in earlier if bisect_right(gone, kept[at].span.offset) == lives)
        copied = next((at for at in alike if _is_copy(kept[at], event, tracebacks)), None)
        if copied is None:
            earlier.append(len(kept))
            kept.append(event)
        elif event.place.rank is not None and kept[copied].place.rank is None:
            # The copy names the rank that the first printing lacked.
            place = kept[copied].place
            kept[copied] = replace(
                kept[copied], place=replace(place, rank=event.place.rank, time=place.time or event.place.time)
            )
    return kept


def _is_copy(first: Event, second: Event, tracebacks: Sequence[Traceback]) -> bool:
    if first.traceback == second.traceback:
        return first.span == second.span
    if first.quoted != second.quoted or not _agree(first.place, second.place) or first.place.attempt != second.place.attempt:
        return False
    # Without any rank, two tracebacks that are alike may be two processes that failed alike.
    named = [place.rank is not None or place.local_rank is not None for place in (first.place, second.place)]
    return any(named)
