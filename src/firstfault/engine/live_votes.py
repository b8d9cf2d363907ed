"""Who is suspected by what the processes showed while they hung: stacks, NCCL's RAS service, the watchdogs' counters."""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.engine.align import Aligned
from firstfault.engine.silent import Suspicion
from firstfault.engine.votes import never_entered

# The votes are imported where they are needed: most logs hold nothing to vote on.


def with_records(aligned: Aligned) -> Aligned:
    """`aligned` with what the flight-recorder dumps of the ranks say; the same without dumps."""
    if not any(report.records for report in aligned.bundle.reports):
        return aligned
    # Only dumps need it: a cold start does without.
    from firstfault.engine.hang.evidence import with_hang

    return with_hang(aligned)


def live_suspicion(aligned: Aligned) -> Suspicion | None:
    """The ranks that stand elsewhere than those that wait, or that are behind them; None if nothing shows one.

    Dumps, stacks and NCCL's RAS service each have a vote: where they agree the ranks are those that all of them name, where
    they contradict each other all are named and nobody is accused.
    """
    votes = [vote for vote in (_dumps(aligned), _stacks(aligned), _ras(aligned)) if vote is not None]
    naming = [vote for vote in votes if vote.ranks]
    if len(naming) > 1:
        return _together(naming)
    if votes:
        return naming[0] if naming else votes[0]
    if any(event.name == "collective.counters" for event in aligned.events) and not never_entered(aligned):
        from firstfault.engine.watchdog_records import counter_suspicion

        return counter_suspicion(aligned)
    return None


def _together(votes: Sequence[Suspicion]) -> Suspicion:
    first, *others = votes
    common = set(first.ranks).intersection(*(vote.ranks for vote in others))
    ranks = sorted(common or {rank for vote in votes for rank in vote.ranks})
    reason = ("; and " if common else "; but ").join(vote.reason for vote in votes)
    doubt = "" if common else f"What was taken of the ranks does not agree on whom they wait for: {reason}."
    return Suspicion(ranks=tuple(ranks), reason=reason, alive=all(vote.alive for vote in votes), doubt=doubt)


def _dumps(aligned: Aligned) -> Suspicion | None:
    if aligned.hang is None:
        return None
    from firstfault.engine.hang.evidence import suspicion_of

    return suspicion_of(aligned)


def _stacks(aligned: Aligned) -> Suspicion | None:
    if not any(report.stacks for report in aligned.bundle.reports):
        return None
    from firstfault.engine.stack_votes import odd_call_site, vote_of_stacks

    vote = vote_of_stacks(aligned.bundle, aligned.rank_map)
    ranks = tuple(sorted(key[0] for key in vote.elsewhere if key[0] is not None))
    if vote.elsewhere:
        odd = next(standing for key, standing in vote.elsewhere.items() if not ranks or key[0] == ranks[0])
        call = vote.call or "a call that waits for the device"
        where = f"{odd.site[2]} ({odd.site[0]}:{odd.site[1]})"
        who = f"rank {ranks[0]}" if ranks else f"process {odd.stack.place.pid or 'of an unknown rank'}"
        reason = f"the others wait in {call}, while {who} stands in {odd.call or where}"
        return Suspicion(ranks=ranks, reason=reason, alive=True)
    site = odd_call_site(aligned.bundle, aligned.rank_map)
    return Suspicion(ranks=(site.rank,), reason=site.says, alive=True) if site is not None else None


def _ras(aligned: Aligned) -> Suspicion | None:
    if not any(report.ras for report in aligned.bundle.reports):
        return None
    from firstfault.engine.ras_votes import vote_of_ras

    counted = vote_of_ras(aligned.bundle, aligned.rank_map)
    return Suspicion(ranks=counted.ranks, reason=counted.says, alive=not counted.dead) if counted and counted.ranks else None
