"""Calls of one sequence number that do not agree: which ranks made another call than the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from firstfault.engine.hang.groups import GroupView
from firstfault.model.collective import Signature

_TOTALS = frozenset({"all_to_all", "alltoall", "all_to_all_single", "alltoall_base"})


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """At call `seq` of a group the ranks disagree. `odd` are the few; all of them where neither side is smaller."""

    group: GroupView
    seq: int
    odd: tuple[int, ...]
    others: tuple[int, ...]
    own: str
    common: str
    tie: bool = False


def divergence(group: GroupView) -> Divergence | None:
    """The first open call of the group at which the ranks disagree; completed calls agreed well enough."""
    if len(group.trails) < 2:
        return None
    done = [at for rank in group.trails if (at := group.completed(rank)) is not None]
    start = min(done) + 1 if done else min(trail.first for trail in group.trails.values())
    first = next(iter(group.trails.values()))
    for seq in _recorded(group, start):
        common = _at(first.first, first.signatures, seq)
        for trail in group.trails.values():
            one = _at(trail.first, trail.signatures, seq)
            if one is not common and one is not None and (common is None or one != common):
                if common is not None:
                    return _disagreement(group, seq)
                common = one
    return _wrong_total(group, start)


def _recorded(group: GroupView, start: int) -> Iterator[int]:
    """The numbers from `start` on that any rank recorded, ascending: a damaged one may be beyond measure."""
    reached = start
    for first, stop in sorted((trail.first, trail.first + len(trail.signatures)) for trail in group.trails.values()):
        yield from range(max(first, reached), stop)
        reached = max(reached, stop)


def _at(first: int, signatures: tuple[Signature | None, ...], seq: int) -> Signature | None:
    return signatures[seq - first] if 0 <= seq - first < len(signatures) else None


def _disagreement(group: GroupView, seq: int) -> Divergence:
    shown = {rank: one for rank, trail in group.trails.items() if (one := _at(trail.first, trail.signatures, seq))}
    ranked = Counter(shown.values()).most_common()
    common, times = ranked[0]
    tie = len(ranked) > 1 and ranked[1][1] == times
    odd = tuple(sorted(rank for rank, one in shown.items() if tie or one != common))
    others = tuple(sorted(rank for rank, one in shown.items() if rank not in odd))
    mine = next(one for rank, one in shown.items() if rank == odd[0])
    other = common if not tie else next(one for one in shown.values() if one != mine)
    return Divergence(group=group, seq=seq, odd=odd, others=others, own=words_of(mine), common=words_of(other), tie=tie)


def _wrong_total(group: GroupView, start: int) -> Divergence | None:
    """An all-to-all whose ranks send more in all than they receive, or less: it is not seen whose share is wrong."""
    for seq in sorted(
        {call.seq for found in group.calls.values() for call in found if call.op in _TOTALS and call.seq >= start}
    ):
        calls = {rank: call for rank in group.members if (call := group.call(rank, seq)) is not None}
        if len(calls) < len(group.members) or any(call.op not in _TOTALS for call in calls.values()):
            continue
        sent = sum(_elements(call.input_sizes) for call in calls.values())
        received = sum(_elements(call.output_sizes) for call in calls.values())
        if sent != received:
            ranks = tuple(sorted(calls))
            said = (f"all_to_all of {sent} elements sent", f"{received} received")
            return Divergence(group=group, seq=seq, odd=ranks, others=(), own=said[0], common=said[1], tie=True)
    return None


def _elements(sizes: tuple[tuple[int, ...], ...]) -> int:
    total = 0
    for row in sizes:
        product = 1
        for size in row:
            product *= size
        total += product
    return total


def words_of(signature: Signature) -> str:
    """`all_reduce of [4] Float`."""
    sizes = ", ".join(str(list(row)) for row in signature.input_sizes[:3])
    types = signature.dtypes[0] if signature.dtypes else ""
    return f"{signature.op} of {sizes} {types}".strip() if sizes else signature.op
