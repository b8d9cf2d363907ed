"""Which of several unexplained faults started it: alike on all ranks, earlier, heavier, or named by the others."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Sequence
from typing import Literal

import msgspec

from firstfault.engine.align import Aligned
from firstfault.engine.classes import Fault
from firstfault.engine.clocks import Delay
from firstfault.engine.votes import named_rank, odd_one_out
from firstfault.model.diagnosis import Certainty
from firstfault.model.event import Place

SYMMETRIC_SHARE = 0.9
CLEARLY_EARLIER_S = 5.0
MAX_END_LAG_S = 10.0
_ONE_ACT = frozenset({"keyboard_interrupt", "scheduler_stop"})
_NAMES_ANOTHER = frozenset({"collective_mismatch"})


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The faults that started it, the rank if it is one, how sure that is, and why in one sentence."""

    initiating: tuple[Fault, ...]
    rank: int | None = None
    ranks: tuple[int, ...] = ()
    relation: Literal["one", "symmetric", "several"] = "one"
    certainty: Certainty = "established"
    reason: str = ""


def choose(roots: Sequence[Fault], aligned: Aligned, told_ranks: Collection[int]) -> Choice:
    """The initiating faults among `roots`, which nothing explains and which share the strongest prior."""
    roots = sorted(roots, key=_place_order)
    acts = [fault for fault in roots if fault.fault_class in _ONE_ACT]
    if acts and len(acts) == len(roots):
        return Choice(initiating=tuple(acts[:1]), reason="one act from outside stopped the whole job")
    pointing = [fault for fault in roots if fault.fault_class in _NAMES_ANOTHER]
    if pointing and len(pointing) == len(roots):
        return _pointed_at(roots, aligned)
    if all(fault.fault_class == "non_finite" for fault in roots) and _several_processes(aligned):
        return _spread(roots, aligned)
    if _of_one_process(roots):
        return _one_or_pair(_strongest(roots))
    shapes = {fault.shape for fault in roots}
    early = _clearly_first(roots, aligned)
    if early is not None:
        sure = len(shapes) > 1 and all(fault.event.place.time is not None for fault in roots)
        reason = "it failed before all other ranks that failed by themselves"
        return _one(early, "established" if sure else "likely", reason)
    if len(shapes) == 1:
        return _alike(roots, aligned)
    return _unlike(roots, aligned, told_ranks)


def _of_one_process(faults: Sequence[Fault]) -> bool:
    """True unless the faults are known to be of several ranks, or, of unknown ranks, to lie on several hosts."""
    ranks = {fault.rank for fault in faults}
    hosts = {fault.event.place.host for fault in faults} - {None}
    return len(ranks) == 1 and (None not in ranks or len(hosts) < 2)


def _one(fault: Fault, certainty: Certainty = "established", reason: str = "") -> Choice:
    ranks = () if fault.rank is None else (fault.rank,)
    return Choice(initiating=(fault,), rank=fault.rank, ranks=ranks, certainty=certainty, reason=reason)


def _one_or_pair(fault: Fault) -> Choice:
    """A text such as `rank 1 and rank 0 both on one device` accuses both alike."""
    other = fault.event.captures.get("other_rank")
    if not isinstance(other, int) or fault.rank in (None, other):
        return _one(fault)
    ranks = tuple(sorted({other, fault.rank or 0}))
    reason = f"the text names rank {ranks[0]} and rank {ranks[1]} alike"
    return Choice(initiating=(fault,), ranks=ranks, relation="several", certainty="likely", reason=reason)


def _several_processes(aligned: Aligned) -> bool:
    return (aligned.world_size or max(aligned.ranks, default=0) + 1) > 1


def _spread(faults: Sequence[Fault], aligned: Aligned) -> Choice:
    """A value that is not finite reaches every rank with the next reduction: who prints it first says nothing."""
    ranks = _known(faults)
    alike = len(ranks) > 1 and len(ranks) >= math.ceil(SYMMETRIC_SHARE * len(aligned.ranks))
    return Choice(
        initiating=tuple(faults),
        ranks=ranks if len(ranks) > 1 else (),
        relation="symmetric" if alike else "several" if len(ranks) > 1 else "one",
        certainty="established" if alike else "undetermined",
        reason="a value that is not finite reaches every rank with the next reduction, so the rank it came from is unknown",
    )


def _strongest(faults: Sequence[Fault]) -> Fault:
    return min(faults, key=lambda fault: (-fault.tier, -fault.weight, fault.kernel, *_place_order(fault)))


def _place_order(fault: Fault) -> tuple[int, int, str, str]:
    """The order in which sources were handed over means nothing: ranks, then places in the sources."""
    rank = sys.maxsize if fault.rank is None else fault.rank
    return rank, fault.event.span.offset, fault.event.span.source, fault.fault_class


def _pointed_at(faults: Sequence[Fault], aligned: Aligned) -> Choice:
    complaining = _known(faults)
    if len(complaining) == 1 and max(len(aligned.ranks), aligned.world_size or 0) > 2:
        # All ranks compare; if one of many finds a difference, it is that one that differs.
        return _one(_strongest(faults), "likely", f"of all ranks, only rank {complaining[0]} finds a difference to the others")
    rank = named_rank(faults, aligned.world_size)
    if rank is None:
        rank = odd_one_out(aligned, faults)
    if rank is None:
        return Choice(
            initiating=tuple(faults),
            ranks=complaining,
            relation="several",
            certainty="undetermined",
            reason="the ranks name each other, so the texts alone do not say which of them differs",
        )
    own = [fault for fault in faults if fault.rank == rank]
    return Choice(
        initiating=tuple(own or faults[:1]),
        rank=rank,
        ranks=(rank,),
        reason=f"the call or model of rank {rank} differs from that of the others",
    )


def _clearly_first(faults: Sequence[Fault], aligned: Aligned) -> Fault | None:
    """The fault that precedes all others by more than the clocks' error and what a step or two may take.

    Where its own line has no time, the end of its process stands for it, which follows it within seconds.
    """
    ends = _ends_of_ranks(aligned)
    moments = {fault: fault.event.place if fault.event.place.time else ends.get(fault.rank) for fault in faults}
    slack = CLEARLY_EARLIER_S + (0.0 if all(fault.event.place.time for fault in faults) else MAX_END_LAG_S)
    first, at = faults[0], moments[faults[0]]
    for fault in faults[1:]:
        delay = _delay(moments[fault], at, aligned)
        if delay is None:
            return None
        first, at = (fault, moments[fault]) if delay.seconds > 0 else (first, at)
    for fault in faults:
        delay = _delay(at, moments[fault], aligned)
        if fault is not first and (delay is None or delay.seconds <= delay.error_s + slack):
            return None
    return first


def _delay(a: Place | None, b: Place | None, aligned: Aligned) -> Delay | None:
    return aligned.clocks.delay(a, b) if a is not None and b is not None else None


def _ends_of_ranks(aligned: Aligned) -> dict[int | None, Place]:
    """Where the processes of ranks ended by themselves, at the time that their launcher gives; nothing for several attempts."""
    ends: dict[int | None, Place] = {}
    for found in aligned.exits if len(aligned.attempts) < 2 else ():
        time = found.place.time
        if not found.by_launcher and found.place.rank is not None and time is not None and time.kind == "wall":
            ends.setdefault(found.place.rank, found.place)
    return ends


def _alike(faults: Sequence[Fault], aligned: Aligned) -> Choice:
    ranks = _known(faults)
    if not ranks:
        return Choice(initiating=tuple(faults), relation="several", certainty="undetermined", reason="the lines name no rank")
    whole = max(len(aligned.ranks), len(ranks))
    symmetric = len(ranks) > 1 and len(ranks) >= math.ceil(SYMMETRIC_SHARE * whole)
    if symmetric:
        reason = (
            f"all {len(ranks)} ranks that printed anything failed with the same error"
            if len(ranks) == whole
            else (f"{len(ranks)} of {whole} ranks failed with the same error")
        )
        return Choice(initiating=tuple(faults), ranks=ranks, relation="symmetric", reason=reason)
    return Choice(
        initiating=tuple(faults),
        ranks=ranks,
        relation="several",
        certainty="likely",
        reason=f"{len(ranks)} of {whole} ranks failed with the same error, and their order is unknown",
    )


def _unlike(faults: Sequence[Fault], aligned: Aligned, told_ranks: Collection[int]) -> Choice:
    heaviest = max(fault.weight for fault in faults)
    heavy = [fault for fault in faults if fault.weight == heaviest]
    if len(heavy) == 1:
        return _one(heavy[0], "likely", "its kind of failure starts others more often than what the other ranks report")
    named = named_rank(faults, aligned.world_size)
    pointed = [fault for fault in heavy if fault.rank == named and named is not None]
    if len(pointed) == 1:
        return _one(pointed[0], "likely", f"the other ranks name rank {named}")
    if len({fault.shape for fault in heavy}) == 1:
        return _alike(heavy, aligned)
    own_end = [fault for fault in heavy if fault.rank is not None and fault.rank not in told_ranks]
    if told_ranks and len(own_end) == 1:
        return _one(own_end[0], "likely", "it ended by itself, while the launcher had to stop the other ranks that failed")
    hinted = [fault for fault in heavy if fault.rank in _first_observed(aligned)]
    if len(hinted) == 1:
        return _one(hinted[0], "likely", "the launcher saw it end first")
    return Choice(
        initiating=tuple(heavy),
        ranks=_known(heavy),
        relation="several",
        certainty="undetermined",
        reason="several ranks failed with different errors, and nothing says which came first",
    )


def _first_observed(aligned: Aligned) -> set[int]:
    return {found.place.rank for found in aligned.exits if found.first_observed and found.place.rank is not None}


def _known(faults: Sequence[Fault]) -> tuple[int, ...]:
    return tuple(sorted({fault.rank for fault in faults if fault.rank is not None}))
