"""To which attempt of an elastic run a line of a combined log belongs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from firstfault.engine.restarts import Marks, attempt_of
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.event import Event, Place
from firstfault.model.span import SourceSpan

_NO_MARKS: Marks = {}
_NUMBERS = lazy_pattern(r"0x[0-9a-fA-F]+|\d+")


def shape_of_text(text: str) -> str:
    """`text` with numbers removed and blanks folded: what two sightings of one kind of failure share."""
    return " ".join(_NUMBERS.sub("#", text).split())


def known_attempts(places: Iterable[Place], restarts: Marks = _NO_MARKS) -> tuple[int, ...]:
    """The attempts that folders, environment or prefixes name, else those that a launcher's account shows."""
    named = {place.attempt for place in places if place.attempt is not None}
    shown = max((len(marks) for marks in restarts.values()), default=0)
    return tuple(sorted(named)) if len(named) > 1 or not shown else tuple(range(shown + 1))


class AttemptGuide:
    """Finds the attempt of a line that carries none: the n-th sighting of a text belongs to the n-th attempt that printed it.

    A line that stands in no attempt's own file belongs to the attempt that was running at that place of its source. The
    launcher's own account of its restarts (`restarts`) decides where it knows of as many attempts as the files do.
    """

    def __init__(self, attempts: Sequence[int], events: Iterable[Event], restarts: Marks = _NO_MARKS) -> None:
        self._first = attempts[0] if attempts else None
        self._twins: dict[tuple[int | None, str], list[int]] = {}
        marks: dict[str, list[tuple[int, int]]] = {}
        seen: dict[tuple[str, int | None, str], int] = {}
        loose: list[Event] = []
        for event in events:
            if event.place.attempt is None:
                loose.append(event)
            else:
                self._twins.setdefault(_key(event), []).append(event.place.attempt)
        self._restarts = {
            source: marks for source, marks in restarts.items() if not self._twins or len(marks) + 1 == len(attempts)
        }
        for event in sorted(loose, key=lambda e: e.span.offset):
            key = _key(event)
            turn = seen.get((event.source_id, *key), 0)
            seen[(event.source_id, *key)] = turn + 1
            twins = sorted(set(self._twins.get(key, ())))
            if twins:
                marks.setdefault(event.source_id, []).append((event.span.offset, twins[min(turn, len(twins) - 1)]))
        self._marks = marks

    def attempt_at(self, source_id: str, span: SourceSpan) -> int | None:
        """The attempt that runs at `span` of a source without attempts of its own."""
        restarts = self._restarts.get(source_id)
        if restarts:
            return (self._first or 0) + attempt_of(span.offset, restarts)
        current = self._first
        for offset, attempt in self._marks.get(source_id, ()):
            if offset > span.offset:
                break
            current = attempt
        return current


def _key(event: Event) -> tuple[int | None, str]:
    return event.place.rank, event.text.strip()[-200:]
