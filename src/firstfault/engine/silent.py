"""Who is suspected where only consequences were seen: ranks that ended without a word, are missing, or are pointed at."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from firstfault.engine.align import Aligned
from firstfault.engine.classes import Fault
from firstfault.engine.votes import named_rank, odd_one_out

_SAYS_NOTHING = frozenset({"exit_sigterm", "launcher_sigterm", "process_exit", "teardown_noise", "launcher_report"})


class Suspicion(msgspec.Struct, frozen=True, kw_only=True):
    """The suspected ranks, why in one sentence, and whether they were alive while the others waited."""

    ranks: tuple[int, ...] = ()
    reason: str = ""
    alive: bool = False


def suspect(aligned: Aligned, faults: Sequence[Fault], told_ranks: Collection[int]) -> Suspicion:
    """Ranks without a fatal event of their own while every other rank shows only consequences.

    If every rank speaks, the rank that most of them name, or the one whose pending call differs, is suspected.
    """
    speaking = {f.rank for f in faults if f.rank is not None and f.fault_class not in _SAYS_NOTHING}
    silent = silent_ranks(aligned, speaking)
    pointed = named_rank(faults, aligned.world_size)
    if pointed is not None and (pointed in silent or not silent):
        return Suspicion(ranks=(pointed,), reason=f"the other ranks name rank {pointed}", alive=pointed in told_ranks)
    if len(silent) == 1:
        return Suspicion(ranks=silent, reason=_why_one(silent[0], aligned, told_ranks), alive=silent[0] in told_ranks)
    if silent:
        return Suspicion(ranks=silent, reason=_why_several(silent, aligned))
    odd = odd_one_out(aligned, faults)
    if odd is not None:
        return Suspicion(ranks=(odd,), reason=f"rank {odd} waited in another call than all the others", alive=True)
    return Suspicion(reason="every rank that printed anything reports only a consequence, and none is named by the others")


def silent_ranks(aligned: Aligned, speaking: Collection[int | None]) -> tuple[int, ...]:
    """Ranks of the world (or of those that printed something) that show no fatal event."""
    world = range(aligned.world_size) if aligned.world_size else aligned.ranks
    return tuple(sorted(set(world) - set(speaking)))


def _why_one(rank: int, aligned: Aligned, told_ranks: Collection[int]) -> str:
    if rank in told_ranks:
        return f"rank {rank} shows no error of its own and was alive until the launcher stopped it: the others waited for it"
    if rank in aligned.ranks:
        return f"the output of rank {rank} ends without an error while every other rank reports a consequence"
    return f"nothing of rank {rank} was handed over, and every other rank reports a consequence"


def _why_several(silent: Sequence[int], aligned: Aligned) -> str:
    missing = [rank for rank in silent if rank not in aligned.ranks]
    what = "nothing was handed over of" if len(missing) == len(silent) else "no error of their own is known of"
    return f"{what} {_ranks(silent)}, and the other ranks report only consequences"


def _ranks(ranks: Sequence[int]) -> str:
    shown = ", ".join(str(rank) for rank in ranks[:8])
    return f"ranks {shown}" + (f" and {len(ranks) - 8} more" if len(ranks) > 8 else "")
