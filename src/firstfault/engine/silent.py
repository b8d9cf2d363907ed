"""Who is suspected where only consequences were seen: ranks that ended without a word, are missing, or are pointed at."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from firstfault.engine.align import Aligned
from firstfault.engine.classes import Fault
from firstfault.engine.clocks import ran_for_s, started
from firstfault.engine.rank_map import MAX_RANKS
from firstfault.engine.streams import FREE
from firstfault.engine.votes import named_rank, never_entered, odd_one_out
from firstfault.engine.wording import listed
from firstfault.model.event import Place

MAX_WAITS = 32

_SAYS_NOTHING = FREE | {"exit_sigterm", "process_exit", "teardown_noise"}


class Suspicion(msgspec.Struct, frozen=True, kw_only=True):
    """The suspected ranks, why in one sentence, and whether they were alive while the others waited.

    `doubt` is a sentence about evidence that names others; empty where there is none.
    """

    ranks: tuple[int, ...] = ()
    reason: str = ""
    alive: bool = False
    doubt: str = ""


def suspect(aligned: Aligned, faults: Sequence[Fault], told_ranks: Collection[int]) -> Suspicion:
    """Ranks without a fatal event of their own while every other rank shows only consequences.

    If every rank speaks, the rank that most of them name, or the one whose pending call differs, is suspected.
    """
    outside = tuple(never_entered(aligned))
    if len(outside) == 1:
        reason = f"rank {outside[0]} had nothing pending when the others gave up waiting"
        return Suspicion(ranks=outside, reason=reason, alive=True)
    speaking = {f.rank for f in faults if f.rank is not None and f.fault_class not in _SAYS_NOTHING}
    silent = silent_ranks(aligned, speaking)
    # A rank that the launcher had to stop was alive: one that it neither stopped nor saw fail is more suspicious.
    silent = tuple(rank for rank in silent if rank not in told_ranks) or silent
    pointed = named_rank(faults, aligned.world_size)
    if pointed is not None and (pointed in silent or not silent):
        return Suspicion(ranks=(pointed,), reason=f"the other ranks name rank {pointed}", alive=pointed in told_ranks)
    if len(silent) == 1:
        return Suspicion(ranks=silent, reason=_why_one(silent[0], aligned, told_ranks), alive=silent[0] in told_ranks)
    busy = _busy_while_waited_for(silent, faults, aligned) if silent else ()
    if len(busy) == 1:
        reason = f"rank {busy[0]} was still at work while the others waited in a collective"
        return Suspicion(ranks=busy, reason=reason, alive=True)
    heard = tuple(rank for rank in silent if rank in aligned.ranks)
    if len(heard) == 1 and not any(found.place.rank is None and found.place.pid is not None for found in aligned.exits):
        # Of the other silent ranks nothing at all is known; this one was not waiting where all that were heard waited.
        return Suspicion(ranks=heard, reason=_why_one(heard[0], aligned, told_ranks), alive=heard[0] in told_ranks)
    if silent:
        return Suspicion(ranks=silent, reason=_why_several(silent, aligned))
    odd = odd_one_out(aligned, faults)
    if odd is not None:
        return Suspicion(ranks=(odd,), reason=f"rank {odd} waited in another call than all the others", alive=True)
    return Suspicion(reason="every rank that printed anything reports only a consequence, and none is named by the others")


def silent_ranks(aligned: Aligned, speaking: Collection[int | None]) -> tuple[int, ...]:
    """Ranks of the world (or of those that printed something) that show no fatal event."""
    ended = {found.place.rank for found in aligned.exits if found.place.rank is not None}
    seen = aligned.ranks | ended
    if aligned.world_size:
        return tuple(sorted(set(range(aligned.world_size)) - set(speaking)))
    # Where there is a rank 7 there are ranks 0 to 6: a few of them that left no trace are missing.
    below = set(range(min(max(seen, default=-1) + 1, MAX_RANKS)))
    return tuple(sorted((below if 2 * len(below - seen) < len(below) else seen) - set(speaking)))


def _busy_while_waited_for(silent: Sequence[int], faults: Sequence[Fault], aligned: Aligned) -> tuple[int, ...]:
    """Silent ranks whose last line was printed after the others' wait had begun."""
    waits = [started(fault.event) for fault in faults if fault.fault_class == "collective_timeout" and ran_for_s(fault.event)]
    busy = set()
    for rank, place in _last_signs(aligned):
        if rank in silent and rank not in busy:
            delays = [aligned.clocks.delay(wait, place) for wait in waits[:MAX_WAITS]]
            if any(delay is not None and delay.seconds > delay.error_s for delay in delays):
                busy.add(rank)
    return tuple(sorted(busy))


def _last_signs(aligned: Aligned) -> Iterator[tuple[int, Place]]:
    ranks = aligned.rank_map
    for report in aligned.bundle.reports:
        source = ranks.source_place(report)
        for place in (*(end.place for end in report.ends), *(event.place for event in report.events)):
            whole = ranks.complete(replace(place, rank=source.rank if place.rank is None else place.rank))
            if whole.rank is not None and whole.time is not None:
                yield whole.rank, whole
        for sample in report.progress:
            rank = source.rank if sample.rank is None else sample.rank
            if rank is not None and sample.last_time is not None:
                yield rank, Place(rank=rank, host=source.host or ranks.hosts.get(rank), time=sample.last_time)


def _why_one(rank: int, aligned: Aligned, told_ranks: Collection[int]) -> str:
    if rank in told_ranks:
        return f"rank {rank} shows no error of its own and was alive until the launcher stopped it: the others waited for it"
    if rank in aligned.ranks:
        return f"the output of rank {rank} ends without an error while every other rank that was heard reports a consequence"
    return f"nothing of rank {rank} was handed over, and every other rank reports a consequence"


def _why_several(silent: Sequence[int], aligned: Aligned) -> str:
    missing = [rank for rank in silent if rank not in aligned.ranks]
    what = "nothing was handed over of" if len(missing) == len(silent) else "no error of their own is known of"
    return f"{what} {listed(silent)}, and the other ranks report only consequences"
