"""Who waits for whom: from the calls that are pending on one rank and were not entered by another."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec

from firstfault.engine.hang.groups import GroupView
from firstfault.model.collective import CollectiveCall, RankRecord


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """`ranks` stand in call `seq` of a group, which `targets` have not entered; `shared` if all came and none left."""

    ranks: tuple[int, ...]
    targets: tuple[int, ...]
    group: GroupView
    seq: int
    op: str
    is_p2p: bool = False
    shared: bool = False


def waits(groups: Sequence[GroupView], records: dict[int, RankRecord], stalled: Collection[int]) -> list[Wait]:
    """All waits of ranks with a record, for ranks with a record. `stalled` are those whose GPU stands still."""
    found: list[Wait] = []
    for group in groups:
        present = [rank for rank in group.members if rank in records]
        if len(present) > 1:
            found += _in_collectives(group, present, stalled)
            found += _in_pairs(group, present)
    return found


def open_ended(groups: Sequence[GroupView], records: dict[int, RankRecord]) -> frozenset[int]:
    """Ranks that may wait for one without a record: it belongs to the group of their open call, or is the other of a pair.

    A record that says nothing of the group is none there.
    """
    found = set()
    for group in groups:
        unread = {rank for rank in group.members if rank not in records}
        if not group.counts_p2p:
            unread |= {rank for rank in group.members if group.enqueued(rank) is None}
        for rank in group.members if unread else ():
            if rank in records and group.completion_known and first_pending(group, rank):
                found.add(rank)
            for call in group.calls.get(rank, ()):
                if call.is_p2p and call.state != "completed" and unread & {*(call.peers or ())}:
                    found.add(rank)
    return frozenset(found)


def first_pending(group: GroupView, rank: int) -> int | None:
    """The collective in which the rank stands: the first that it entered and that is not completed."""
    enqueued = group.enqueued(rank)
    if enqueued is None:
        return None
    if not group.completion_known:
        return enqueued
    completed = group.completed(rank)
    if completed is None:
        open_calls = [call.seq for call in group.calls.get(rank, ()) if not call.is_p2p and call.state != "completed"]
        return min(open_calls, default=None)
    return completed + 1 if enqueued > completed else None


def _in_collectives(group: GroupView, present: Sequence[int], stalled: Collection[int]) -> Iterator[Wait]:
    entered = {rank: at for rank in present if (at := group.enqueued(rank)) is not None}
    standing: dict[int, list[int]] = {}
    for rank in present:
        seq = first_pending(group, rank)
        if seq:
            standing.setdefault(seq, []).append(rank)
    for seq, ranks in sorted(standing.items()):
        op = group.op(ranks[0], seq) or group.any_op(seq)
        # A stalled rank entered the call, and its GPU will not come to it.
        late = {rank for at, those in standing.items() if at < seq for rank in those if rank in stalled}
        absent = tuple(rank for rank, at in entered.items() if at < seq or rank in late)
        if absent:
            yield Wait(ranks=tuple(ranks), targets=absent, group=group, seq=seq, op=op)
        elif group.completion_known and len(ranks) > 1:
            # All came, none left: what holds one of them up holds up all.
            yield Wait(ranks=tuple(ranks), targets=tuple(ranks), group=group, seq=seq, op=op, shared=True)


def _in_pairs(group: GroupView, present: Sequence[int]) -> Iterator[Wait]:
    for rank in present:
        pending = [call for call in group.calls.get(rank, ()) if call.is_p2p and call.state != "completed" and call.peers]
        for peer in {other for call in pending for other in call.peers or () if other != rank}:
            if peer not in present:
                continue
            mine = [call for call in pending if call.peers and peer in call.peers]
            for peers in sorted({call.peers for call in mine if call.peers}):
                one_way = [call for call in mine if call.peers == peers]
                if not _entered(group, peer, one_way):
                    first = one_way[0]
                    yield Wait(ranks=(rank,), targets=(peer,), group=group, seq=first.seq, op=first.op, is_p2p=True)


def _entered(group: GroupView, peer: int, pending: Sequence[CollectiveCall]) -> bool:
    """True if the peer is known to have made the other half of the first of these sends or receives."""
    other = [call for call in group.calls.get(peer, ()) if call.is_p2p and call.peers == pending[0].peers]
    if len([call for call in other if call.state != "completed"]) >= len(pending):
        return True
    if other:
        return max(call.seq for call in other) >= pending[0].seq
    status = group.status.get(peer)
    # Between two ranks both count alike; in a larger group each counts all its partners.
    return len(group.members) == 2 and status is not None and (status.last_enqueued or 0) >= pending[0].seq


def edges_of(found: Sequence[Wait]) -> dict[int, set[int]]:
    """Who waits for whom. A wait of many ranks for many is a node of its own (a negative number) between them."""
    edges: dict[int, set[int]] = {}
    for number, wait in enumerate(found, 1):
        for rank in wait.ranks:
            edges.setdefault(rank, set()).add(-number)
        edges[-number] = set(wait.targets)
    return edges


def components(nodes: Iterable[int], edges: dict[int, set[int]]) -> list[frozenset[int]]:
    """Strongly connected components, each before those that lead to it. Without recursion: 1,024 ranks may form one chain."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[frozenset[int]] = []
    for root in nodes:
        if root in index:
            continue
        work = [(root, iter(sorted(edges.get(root, ()))))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(sorted(edges.get(target, ())))))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    members = set()
                    while True:
                        top = stack.pop()
                        on_stack.discard(top)
                        members.add(top)
                        if top == node:
                            break
                    found.append(frozenset(members))
    return found
