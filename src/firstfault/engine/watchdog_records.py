"""What the watchdogs of torch print of each rank's collectives, as records like those of dumps: one analysis serves both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from firstfault.engine.votes import MIN_VOTERS
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.collective import GroupKey, GroupStatus, HangSuspect, RankRecord, Signature, Trail

if TYPE_CHECKING:
    from firstfault.engine.align import Aligned
    from firstfault.engine.silent import Suspicion
    from firstfault.model.event import Event

GROUP = lazy_pattern(r"\[PG (?:ID \S+ PG GUID |ID )?([^\s\]]+)[^\]]{0,200}Rank \d+\]")
COUNTERS = "collective.counters"
_KINDS = frozenset({"never-entered", "gpu-stalled", "behind"})


class Counters(NamedTuple):
    """How far a rank's watchdog saw one group: the last call enqueued, the last one completed (0: none yet)."""

    enqueued: int
    completed: int
    event: Event


def counters_of(event: Event) -> Counters | None:
    """The counters of a line; a count of none is printed as -1, and by older torch as a large unsigned number."""
    enqueued, completed = event.captures.get("enqueued"), event.captures.get("completed")
    if not isinstance(enqueued, int) or not isinstance(completed, int):
        return None
    enqueued = max(enqueued, 0)
    return Counters(enqueued, completed if 0 < completed <= enqueued else 0, event)


def suspects_by_counters(aligned: Aligned, attempt: int | None) -> tuple[HangSuspect, ...]:
    """Who came late, or whose GPU stands still, by the counters alone; they show nothing of a rank that printed none."""
    records = list(watchdog_records(aligned, attempt))
    if len(records) < 2:
        return ()
    # Most logs hold no counters: a cold start does without the analysis.
    from firstfault.engine.hang.analysis import analyse

    found = analyse(records)
    return tuple(one for one in found.suspects if one.rank is not None and one.kind in _KINDS)


def counter_suspicion(aligned: Aligned) -> Suspicion | None:
    """The one rank that the counters of three or more single out."""
    from firstfault.engine.silent import Suspicion

    last = aligned.attempts[-1] if aligned.attempts else None
    found = suspects_by_counters(aligned, last)
    seen = {event.place.rank for event in _lines(aligned, last)}
    if len({one.rank for one in found}) != 1 or len(seen) < MIN_VOTERS:
        return None
    (rank,) = {one.rank for one in found if one.rank is not None}
    return Suspicion(ranks=(rank,), reason=found[0].says, alive=True)


def watchdog_records(aligned: Aligned, attempt: int | None) -> Iterator[RankRecord]:
    """A record for each rank whose watchdog printed counters, by their first line of each group in that attempt."""
    status: dict[int, dict[str, GroupStatus]] = {}
    trails: dict[int, dict[str, Trail]] = {}
    ops = _ops(aligned)
    for event in _lines(aligned, attempt):
        named, counters, rank = GROUP.search(event.text), counters_of(event), event.place.rank
        if named is None or counters is None or rank is None or named[1] in status.get(rank, ()):
            continue
        key = GroupKey(named[1])
        status.setdefault(rank, {})[named[1]] = GroupStatus(
            group=key,
            description=_title(named[1]),
            last_enqueued=counters.enqueued,
            last_completed=counters.completed,
            span=event.span,
        )
        work = event.captures.get("work")
        op = ops.get((rank, work))
        if isinstance(work, int) and work > 0 and op:
            trails.setdefault(rank, {})[named[1]] = Trail(group=key, first=work, signatures=(Signature(op=op),))
    for rank, groups in status.items():
        yield RankRecord(
            rank=rank,
            origin="watchdog",
            groups=tuple(groups.values()),
            trails=tuple(trails.get(rank, {}).values()),
            own_watchdog_fired=True,
        )


def _lines(aligned: Aligned, attempt: int | None) -> Iterator[Event]:
    for event in aligned.events:
        own = attempt is None or event.place.attempt in (None, attempt)
        if event.name == COUNTERS and not event.quoted and own:
            yield event


def _ops(aligned: Aligned) -> dict[tuple[int | None, object], str]:
    """The operation of each rank's call, by its number, as the line of the time-out names it."""
    return {
        (event.place.rank, event.captures["seq"]): str(event.captures["op"]).lower()
        for event in aligned.events
        if "seq" in event.captures and "op" in event.captures and not event.quoted
    }


def _title(name: str) -> str:
    """`0(default_pg)` is called default_pg."""
    return name.partition("(")[2].rstrip(")")
