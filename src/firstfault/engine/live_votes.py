"""Who is suspected by what was asked of the processes while they hung: their stacks, and NCCL's RAS service."""

from __future__ import annotations

from firstfault.engine.align import Aligned
from firstfault.engine.ras_votes import vote_of_ras
from firstfault.engine.silent import Suspicion
from firstfault.engine.stack_votes import vote_of_stacks


def live_suspicion(aligned: Aligned) -> Suspicion | None:
    """The ranks that stand elsewhere than those that wait, or that launched fewer operations; None if nothing shows one."""
    reports = aligned.bundle.reports
    if any(report.stacks for report in reports):
        vote = vote_of_stacks(aligned.bundle, aligned.rank_map)
        ranks = tuple(sorted(key[0] for key in vote.elsewhere if key[0] is not None))
        if ranks:
            odd = next(standing for key, standing in vote.elsewhere.items() if key[0] == ranks[0])
            call = vote.call or "a call that waits for the device"
            where = f"{odd.site[2]} ({odd.site[0]}:{odd.site[1]})"
            reason = f"the others wait in {call}, while rank {ranks[0]} stands in {odd.call or where}"
            return Suspicion(ranks=ranks, reason=reason, alive=True)
    if any(report.ras for report in reports):
        found = vote_of_ras(aligned.bundle, aligned.rank_map)
        if found is not None and found.ranks:
            return Suspicion(ranks=found.ranks, reason=found.says, alive=not found.dead)
    return None
