"""What the watchdogs' counters say of a rank: how much less it had completed than the others of its group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from firstfault.engine.align import Aligned
from firstfault.engine.silent import Suspicion
from firstfault.engine.votes import never_entered
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.event import Event

GROUP = lazy_pattern(r"\[PG (?:ID \S+ PG GUID |ID )?([^\s\]]+)[^\]]{0,200}Rank \d+\]")
_LAG = 2
# One rank may leave such a call before the others have entered it.
_ROOTED = frozenset({"BROADCAST", "_BROADCAST_OOP", "REDUCE", "_REDUCE_OOP", "GATHER", "SCATTER"})


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


def counter_suspicion(aligned: Aligned) -> Suspicion | None:
    """The rank on which calls stayed open that most others of its group had completed: its device stands still."""
    if never_entered(aligned):
        return None
    late: dict[int, Counters] = {}
    furthest = 0
    for counters in _by_group(aligned).values():
        if len(counters) < _LAG + 1:
            continue
        most = max(one.completed for one in counters.values())
        behind = {rank: one for rank, one in counters.items() if most - one.completed >= _LAG and one.enqueued > one.completed}
        if 2 * len(behind) < len(counters):
            late.update(behind)
            furthest = max(furthest, most)
    if len(late) != 1:
        return None
    ((rank, one),) = late.items()
    if any(event.place.rank == rank and event.captures.get("op") in _ROOTED for event in aligned.events):
        return None
    reason = f"rank {rank} had completed {one.completed} collectives of its group, another {furthest}"
    return Suspicion(ranks=(rank,), reason=reason, alive=True)


def _by_group(aligned: Aligned) -> dict[str, dict[int, Counters]]:
    found: dict[str, dict[int, Counters]] = {}
    for event, group in _grouped(aligned):
        counters = counters_of(event)
        if counters is not None and event.place.rank is not None:
            found.setdefault(group, {}).setdefault(event.place.rank, counters)
    return found


def _grouped(aligned: Aligned) -> Iterator[tuple[Event, str]]:
    last = aligned.attempts[-1] if aligned.attempts else None
    for event in aligned.events:
        if event.name == "collective.counters" and not event.quoted and event.place.attempt in (None, last):
            named = GROUP.search(event.text)
            if named:
                yield event, named[1]
