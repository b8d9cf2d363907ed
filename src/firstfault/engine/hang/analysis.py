"""Which rank the others wait for, and how it differs from them: the whole analysis of collectives, or why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from firstfault.engine.hang.divergence import divergence
from firstfault.engine.hang.groups import GroupView, group_views, one_record_a_rank, with_members
from firstfault.engine.hang.suspects import (
    Stall,
    divergent_suspects,
    idle_ranks,
    missing_suspects,
    sinks,
    stalled_suspect,
    stalls,
    suspects_of_sink,
)
from firstfault.engine.hang.wait_for import Wait, first_pending, open_ended, waits
from firstfault.engine.wording import listed
from firstfault.model.collective import HangSuspect, RankRecord
from firstfault.model.event import Place
from firstfault.model.span import SourceSpan

_MAX_SAID = 3
_ORDER = {"high": 0, "medium": 1, "low": 2}


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A rank that waits: in which call of which group, since when, and where its record shows it."""

    rank: int
    group: str
    seq: int
    op: str
    place: Place
    span: SourceSpan
    timeout_ms: int | None = None


class HangAnalysis(msgspec.Struct, frozen=True, kw_only=True):
    """What came out. `verdict`: `named` (suspects with a rank), `path` (all came, none left), `undetermined` (ranks wait, it
    cannot be said for whom), `quiet` (nobody waits as far as the records can tell), `none` (no records).

    `all_equal` is True if the waiting ranks stand in one call with equal counters, None where that cannot be told. `partial` is
    True if the records of some ranks are missing, or may be.
    """

    verdict: Literal["named", "path", "undetermined", "quiet", "none"]
    suspects: tuple[HangSuspect, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    notes: tuple[str, ...] = ()
    reason: str = ""
    all_equal: bool | None = None
    world: tuple[int, ...] = ()
    absent: tuple[int, ...] = ()
    partial: bool = False

    @property
    def ranks(self) -> tuple[int, ...]:
        """The suspected ranks, ascending."""
        return tuple(sorted({one.rank for one in self.suspects if one.rank is not None}))


def analyse(records: Iterable[RankRecord], world_size: int | None = None) -> HangAnalysis:
    """What the records say; ranks without one are judged only by what the others show."""
    all_dumps, several = one_record_a_rank(records)
    if not all_dumps:
        return HangAnalysis(verdict="none")
    # A dump without calls and counters says no more of its rank than none would.
    dumps = {rank: one for rank, one in all_dumps.items() if one.calls or one.trails or one.groups} or all_dumps
    dumps = with_members(dumps)
    groups = group_views(dumps)
    world = tuple(sorted({*all_dumps, *(rank for one in all_dumps.values() for rank in one.world), *range(world_size or 0)}))
    absent = tuple(rank for rank in world if rank not in dumps)
    notes = _notes(dumps, several, absent, [rank for rank in absent if rank in all_dumps], groups)
    waiting = tuple(_waiting(dumps, groups))
    stalled = stalls(groups)
    found = waits(groups, dumps, stalled) if len(dumps) > 1 else []
    suspects = _suspects(dumps, groups, found, stalled) if len(dumps) > 1 else ()
    if absent and all(one.rank is None for one in suspects):
        # Where a record is missing, those that were read may all have come and wait for its rank.
        suspects = _of_missing(absent, groups, dumps) if len(dumps) > 1 else ()
    named = [one for one in suspects if one.rank is not None]
    if named:
        verdict: Literal["named", "path", "undetermined", "quiet"] = "named"
    elif suspects:
        verdict = "path"
    else:
        verdict = "undetermined" if waiting else "quiet"
    waiting = waiting or tuple(_shown_by_others(named, groups))
    chosen = tuple(sorted(named, key=lambda one: (_ORDER[one.confidence], one.rank or 0))) if named else tuple(suspects)
    return HangAnalysis(
        verdict=verdict,
        suspects=chosen,
        waiting=waiting if verdict != "quiet" else (),
        notes=notes,
        reason=_reason(verdict, chosen, dumps, absent),
        all_equal=_all_equal(verdict, found, absent, chosen),
        world=world,
        absent=absent,
        partial=bool(absent) or (len(dumps) == 1 and not any(one.world for one in dumps.values())),
    )


def _suspects(
    dumps: dict[int, RankRecord], groups: Sequence[GroupView], found: Sequence[Wait], stalled: dict[int, Stall]
) -> tuple[HangSuspect, ...]:
    """The rules in the order of what they leave open; a rank is named once, by the first that fits."""
    named: dict[int | None, HangSuspect] = {}
    for group in groups:
        one = divergence(group)
        for suspect in divergent_suspects(one) if one is not None else ():
            named.setdefault(suspect.rank, suspect)
    diverged = bool(named)
    for rank, stall in stalled.items():
        named.setdefault(rank, stalled_suspect(rank, stall, found))
    if diverged:
        return tuple(named.values())
    idle, unsure = idle_ranks(dumps, groups), open_ended(groups, dumps)
    ends = [suspect for sink in sinks(found) for suspect in suspects_of_sink(sink, idle, stalled, unsure)]
    for suspect in ends:
        if suspect.rank is not None:
            named.setdefault(suspect.rank, suspect)
    return tuple(named.values() or ends)


def _of_missing(absent: Sequence[int], groups: Sequence[GroupView], dumps: dict[int, RankRecord]) -> tuple[HangSuspect, ...]:
    """Ranks without a dump, where most of the others have one: a few missing records point at their ranks, many at nobody."""
    gone: dict[int | None, HangSuspect] = {}
    for suspect in missing_suspects(absent, groups, dumps) if len(absent) < len(dumps) else ():
        gone.setdefault(suspect.rank, suspect)
    return tuple(gone.values())


def _waiting(dumps: dict[int, RankRecord], groups: Sequence[GroupView]) -> Iterable[Waiting]:
    """The call in which each rank stands: the oldest open one."""
    for rank, record in dumps.items():
        place = Place(rank=rank, host=record.host, attempt=record.attempt)
        open_calls = [call for call in record.calls if call.state in ("scheduled", "started")]
        if record.backend == "gloo":
            behind = {g.key for g in groups if (at := g.enqueued(rank)) and any((g.enqueued(o) or at) < at for o in g.status)}
            open_calls = [call for call in open_calls if call.group in behind][-1:]
        titles = {group.key: group.title for group in groups}
        if open_calls:
            call = min(open_calls, key=lambda one: one.created_ns or 0)
            if call.span is not None:
                title = titles[call.group] if call.group is not None else ""
                yield Waiting(
                    rank=rank, group=title, seq=call.seq, op=call.op, place=place, span=call.span, timeout_ms=call.timeout_ms
                )
            continue
        for group in groups:
            status, seq = group.status.get(rank), first_pending(group, rank) if group.completion_known else None
            if seq and status is not None and status.span is not None:
                yield Waiting(rank=rank, group=group.title, seq=seq, op=group.any_op(seq), place=place, span=status.span)
                break


def _shown_by_others(named: Sequence[HangSuspect], groups: Sequence[GroupView]) -> Iterable[Waiting]:
    """Where no record says what is pending: the calls in which ranks stood that a suspect kept waiting."""
    by_key = {group.key: group for group in groups}
    for suspect in named:
        group, seq = by_key.get(suspect.group) if suspect.group is not None else None, suspect.seq
        if group is None or seq is None:
            continue
        for rank in suspect.others or ((suspect.rank,) if suspect.rank is not None else ()):
            call, status = group.call(rank, seq), group.status.get(rank)
            span = call.span if call else status.span if status else None
            if span is not None:
                place = Place(rank=rank)
                yield Waiting(rank=rank, group=group.title, seq=seq, op=group.op(rank, seq), place=place, span=span)


def _notes(
    dumps: dict[int, RankRecord],
    several: Sequence[int],
    absent: Sequence[int],
    empty: Sequence[int],
    groups: Sequence[GroupView],
) -> tuple[str, ...]:
    notes = []
    if several:
        notes.append(f"of {listed(several)} there are several dumps: the newest of the last run is used")
    versions = sorted({record.version for record in dumps.values()})
    if len(versions) > 1:
        notes.append(f"the dumps are of versions {', '.join(versions)}: the ranks ran different builds of torch")
    if empty:
        notes.append(f"the dump of {listed(empty)} holds neither calls nor counters: it says nothing")
    if unread := [rank for rank in absent if rank not in empty]:
        notes.append(f"no readable flight-recorder dump of {listed(unread)} was handed over")
    elif not empty and not any(record.world for record in dumps.values()):
        notes.append("the dumps do not say how many ranks there were")
    if any(not group.completion_known for group in groups):
        notes.append("dumps of gloo do not say which calls were completed: only how far each rank had come is compared")
    if not any(record.calls for record in dumps.values()):
        notes.append("the dumps hold counters only: operations, sizes and call sites are not known")
    elif all(group.counts_p2p or not group.trails for group in groups):
        notes.append("the dumps hold sends and receives only: they are compared pair by pair")
    lost = [group for group in groups if _lost(group)]
    if lost:
        notes.append(f"the call in which ranks stand in {lost[0].title} was overwritten in a ring: only the counters are known")
    if len(dumps) == 1:
        notes.append("a single dump shows where its rank waits, not for whom: the dumps of the other ranks are missing")
    return tuple(notes)


def _lost(group: GroupView) -> bool:
    for rank, trail in group.trails.items():
        seq = first_pending(group, rank) if group.completion_known else None
        if seq and seq < trail.first:
            return True
    return False


def _reason(verdict: str, suspects: Sequence[HangSuspect], dumps: dict[int, RankRecord], absent: Sequence[int]) -> str:
    if suspects:
        shown = dict.fromkeys(one.says for one in suspects)
        more = f"; and {len(shown) - _MAX_SAID} more" if len(shown) > _MAX_SAID else ""
        return "; ".join(list(shown)[:_MAX_SAID]) + more
    if verdict == "undetermined":
        if len(dumps) == 1:
            return "one dump shows where its rank waits, not for whom"
        return "ranks wait, and the dumps that were read do not show for whom" + (
            f": those of {listed(absent)} are missing" if absent else ""
        )
    return ""


def _all_equal(verdict: str, found: Sequence[Wait], absent: Sequence[int], suspects: Sequence[HangSuspect]) -> bool | None:
    if verdict == "path" and not absent and all(wait.shared for wait in found) and len(suspects) == 1:
        return True
    return False if verdict == "named" else None
