"""The rules that name a rank: it never came, its GPU stopped, it is behind, it called something else, nobody can be named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from firstfault.engine.hang.divergence import Divergence
from firstfault.engine.hang.groups import GroupView
from firstfault.engine.hang.wait_for import Wait, components, edges_of, first_pending
from firstfault.model.collective import Confidence, HangSuspect, RankRecord, SuspectKind
from firstfault.model.span import SourceSpan

# The root of such a call may run ahead of the others.
_ROOTED = frozenset({"broadcast", "reduce", "scatter", "gather", "_broadcast_oop", "_reduce_oop"})
_GPU_LAG = 2
_MAX_SPANS = 4


class Stall(msgspec.Struct, frozen=True):
    """A rank on which calls stay open that others of the group have completed: how many, where, in how many groups."""

    lag: int
    group: GroupView
    completed: int
    groups: int


def idle_ranks(records: dict[int, RankRecord], groups: Sequence[GroupView]) -> frozenset[int]:
    """Ranks with nothing pending in any group, by records that can tell."""
    blind = {rank for group in groups if not group.completion_known for rank in group.status}
    return frozenset(
        rank
        for rank, record in records.items()
        if rank not in blind
        and record.groups
        and not any(status.pending for status in record.groups)
        and not any(call.state != "completed" for call in record.calls)
    )


def stalls(groups: Sequence[GroupView]) -> dict[int, Stall]:
    """Ranks whose GPU stands still: a collective that is over on one member cannot stay open for long on another."""
    lags: dict[int, list[tuple[int, GroupView, int]]] = {}
    for group in groups:
        done = {rank: at for rank in group.members if (at := group.completed(rank)) is not None}
        if len(done) < 2:
            continue
        furthest = max(done.values())
        late = [rank for rank, at in done.items() if at < furthest and (group.enqueued(rank) or 0) > at]
        if 2 * len(late) > len(done):
            # Most are late: the dumps were not written at one time, or one rank merely ran ahead.
            continue
        for rank in late:
            if not _only_rooted(group, rank, done[rank], furthest):
                lags.setdefault(rank, []).append((furthest - done[rank], group, done[rank]))
    return {
        rank: Stall(*max(found, key=lambda one: one[0]), groups=len(found))
        for rank, found in lags.items()
        if max(lag for lag, _, _ in found) >= _GPU_LAG or len(found) > 1
    }


def _only_rooted(group: GroupView, rank: int, completed: int, furthest: int) -> bool:
    ops = {group.op(rank, seq) for seq in range(completed + 1, min(furthest, completed + 64) + 1)}
    ops.discard("")
    return bool(ops) and ops <= _ROOTED


class Sink(msgspec.Struct, frozen=True):
    """Ranks that wait for nobody outside: `ranks`; the waits of others for them, and those among themselves."""

    ranks: tuple[int, ...]
    incoming: tuple[Wait, ...]
    inner: tuple[Wait, ...]


def sinks(found: Sequence[Wait]) -> list[Sink]:
    """The ends of the chains of waiting."""
    edges = edges_of(found)
    out = []
    for component in components(sorted(edges, reverse=True), edges):
        ranks = {node for node in component if node >= 0}
        if not ranks or any(target not in component for node in component for target in edges.get(node, ())):
            continue
        incoming = tuple(wait for wait in found if ranks & set(wait.targets) and not ranks.issuperset(wait.ranks))
        inner = tuple(wait for number, wait in enumerate(found, 1) if -number in component)
        out.append(Sink(tuple(sorted(ranks)), incoming, inner))
    return out


def suspects_of_sink(
    sink: Sink, idle: frozenset[int], stalled: dict[int, Stall], unsure: frozenset[int]
) -> Iterator[HangSuspect]:
    """Who of a sink is to be named; nobody if one of them may wait for a rank that was not read (`unsure`)."""
    if unsure.intersection(sink.ranks):
        return
    if len(sink.ranks) == 1:
        rank = sink.ranks[0]
        if rank not in stalled:
            yield _waited_for(rank, sink.incoming, idle)
        return
    hard = [wait for wait in sink.inner if not wait.shared]
    if hard:
        yield from _inversion(hard)
        return
    wait = max(sink.inner, key=lambda one: len(one.ranks))
    yield HangSuspect(
        rank=None,
        kind="fabric-or-library",
        confidence="low",
        group=wait.group.key,
        description=wait.group.title,
        seq=wait.seq,
        op=wait.op,
        others=sink.ranks,
        evidence=_spans(wait, wait.ranks[:_MAX_SPANS]),
        says=f"all {len(wait.ranks)} ranks of {wait.group.title} that were read entered {call_words(wait.op, wait.seq)} "
        "and none left it",
    )


def _waited_for(rank: int, incoming: Sequence[Wait], idle: frozenset[int]) -> HangSuspect:
    wait = next((one for one in incoming if not one.is_p2p), incoming[0])
    others = tuple(sorted({other for one in incoming for other in one.ranks}))
    collective = [one for one in incoming if not one.is_p2p]
    at = wait.group.enqueued(rank)
    lag = None if wait.is_p2p or at is None else max((wait.group.enqueued(other) or 0) for other in wait.ranks) - at
    kind: SuspectKind = "never-entered" if rank in idle else "behind"
    had = "had nothing pending" if rank in idle else "had not come to it"
    confidence: Confidence = "low" if not collective else "medium"
    if collective and (rank in idle or len({one.group.key for one in collective}) > 1):
        confidence = "high"
    return HangSuspect(
        rank=rank,
        kind=kind,
        confidence=confidence,
        group=wait.group.key,
        description=wait.group.title,
        seq=wait.seq,
        op=wait.op,
        lag=lag,
        others=others,
        evidence=_spans(wait, (rank, wait.ranks[0])),
        reached=wait.group.call(rank, at) if at else None,
        not_reached=wait.group.call(wait.ranks[0], wait.seq),
        says=f"rank {rank} {had} while {_ranks(wait.ranks)} waited for it in {call_words(wait.op, wait.seq)} "
        f"of {wait.group.title}",
    )


def _inversion(hard: Sequence[Wait]) -> Iterator[HangSuspect]:
    """Each waits for the other in another group: the groups' calls were made in another order."""
    for wait in hard:
        for rank in wait.ranks:
            targets = [other for other in wait.targets if other != rank]
            yield HangSuspect(
                rank=rank,
                kind="order-inversion",
                confidence="medium",
                group=wait.group.key,
                description=wait.group.title,
                seq=wait.seq,
                op=wait.op,
                others=tuple(targets),
                evidence=_spans(wait, (rank,)),
                not_reached=wait.group.call(rank, wait.seq),
                says=f"rank {rank} waits for {_ranks(targets)} in {call_words(wait.op, wait.seq)} of {wait.group.title}, "
                "and they wait for it in another call",
            )


def stalled_suspect(rank: int, stall: Stall, waited_for: Sequence[Wait]) -> HangSuspect:
    """The rank whose GPU stands still."""
    group, seq = stall.group, stall.completed + 1
    ahead = max(group.members, key=lambda other: group.completed(other) or -1)
    both = stall.lag >= _GPU_LAG and (stall.groups > 1 or any(rank in wait.targets for wait in waited_for))
    return HangSuspect(
        rank=rank,
        kind="gpu-stalled",
        confidence="high" if both else "medium",
        group=group.key,
        description=group.title,
        seq=seq,
        op=group.op(rank, seq) or group.any_op(seq),
        lag=stall.lag,
        others=tuple(sorted({one for wait in waited_for if rank in wait.targets for one in wait.ranks})),
        evidence=_status_spans(group, (rank, ahead)),
        reached=group.call(rank, stall.completed),
        not_reached=group.call(ahead, seq) or group.call(rank, seq),
        says=f"rank {rank} had entered {call_words(group.op(rank, seq), seq)} of {group.title} and not completed it, "
        f"while rank {ahead} had completed {stall.lag} more",
    )


def divergent_suspects(found: Divergence) -> Iterator[HangSuspect]:
    """Those that called something else; all of them, at low confidence, where neither side is smaller."""
    group = found.group
    for rank in found.odd:
        other = (found.others or tuple(one for one in found.odd if one != rank))[:1]
        yield HangSuspect(
            rank=rank,
            kind="divergent-call",
            confidence="low" if found.tie else "medium" if len(found.others) < 3 else "high",
            group=group.key,
            description=group.title,
            seq=found.seq,
            op=group.op(rank, found.seq),
            others=found.others,
            evidence=tuple(
                call.span
                for one in (rank, *other)
                if (call := group.call(one, found.seq)) is not None and call.span is not None
            )
            or _status_spans(group, (rank, *other)),
            not_reached=group.call(other[0], found.seq) if other else None,
            says=f"at call {found.seq} of {group.title} rank {rank} made another call than others: "
            f"{found.own} against {found.common}",
        )


def missing_suspects(
    absent: Sequence[int], groups: Sequence[GroupView], records: dict[int, RankRecord]
) -> Iterator[HangSuspect]:
    """Ranks without a record in whose groups all that were read stand in one call."""
    for group in groups:
        gone = [rank for rank in absent if rank in group.members]
        standing = [(rank, seq) for rank in group.members if rank in records and (seq := first_pending(group, rank))]
        if not gone or not standing or len({seq for _, seq in standing}) > 1 or group.counts_p2p:
            continue
        first, seq = standing[0]
        op = group.op(first, seq) or group.any_op(seq)
        for rank in gone:
            yield HangSuspect(
                rank=rank,
                kind="no-record",
                confidence="low",
                group=group.key,
                description=group.title,
                seq=seq,
                op=op,
                others=tuple(one for one, _ in standing),
                evidence=_status_spans(group, (first,)),
                not_reached=group.call(first, seq),
                says=f"nothing is known of rank {rank}, and all others of {group.title} stand in {call_words(op, seq)}",
            )


def call_words(op: str, seq: int) -> str:
    """`all_reduce #7504`."""
    return f"{op or 'call'} #{seq}"


def _ranks(ranks: Sequence[int]) -> str:
    shown = ", ".join(str(rank) for rank in ranks[:8])
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}" + (f" and {len(ranks) - 8} more" if len(ranks) > 8 else "")


def _spans(wait: Wait, ranks: Sequence[int]) -> tuple[SourceSpan, ...]:
    """The entry of the call on the ranks that stand in it, else their counters."""
    found = []
    for rank in ranks:
        call = wait.group.call(rank, wait.seq)
        if call is None and wait.is_p2p:
            call = next((one for one in wait.group.calls.get(rank, ()) if one.is_p2p and one.seq == wait.seq), None)
        status = wait.group.status.get(rank)
        span = call.span if call is not None and rank in wait.ranks else status.span if status else None
        if span is not None:
            found.append(span)
    return tuple(found)


def _status_spans(group: GroupView, ranks: Sequence[int]) -> tuple[SourceSpan, ...]:
    spans = (group.status[rank].span for rank in ranks if rank in group.status)
    return tuple(span for span in spans if span is not None)
