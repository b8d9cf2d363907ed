"""Which collective each rank stood in: whether the ranks' operations or sizes differ, and whose does.

Ranks are compared at one sequence number of one group, or, where only stacks are known, if every rank of the world shows its
call. What a rank may do ahead of the others without a fault, or with other sizes than theirs, is not held against it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firstfault.engine.derive.frames import is_library
from firstfault.engine.votes import collective_call, minority
from firstfault.engine.watchdog_records import GROUP, counters_of
from firstfault.model.fact import Fact

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from firstfault.engine.classes import Fault
    from firstfault.engine.derive.scope import Scope
    from firstfault.model.event import Event
    from firstfault.model.fact import FactSet, FactValue
    from firstfault.model.span import SourceSpan

PRODUCES = (
    "collective.op_differs",
    "collective.shape_differs",
    "collective.minority_rank",
    "collective.all_equal",
    "collective.is_first",
    "peer.same_address_votes",
)
WAITS = frozenset({"collective_timeout", "peer_lost"})
_BETWEEN_TWO = frozenset({"SEND", "RECV", "COALESCED", "UNKNOWN"})
# Every rank may pass another size to these.
_SIZES_MAY_DIFFER = frozenset({"ALLTOALL", "ALLTOALL_BASE", "GATHER", "SCATTER"})
_NOT_FOR_ALL = frozenset({"send", "recv", "isend", "irecv", "batch_isend_irecv", "monitored_barrier"})
# One rank leaves such a call before the others have entered it.
_ROOTED = frozenset({"broadcast", "reduce", "gather", "scatter"})


class Call(NamedTuple):
    """One rank's pending operation as the watchdog prints it."""

    op: str
    sizes: tuple[object, ...]
    span: SourceSpan


def derive(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """Facts of the calls that were pending when the ranks gave up waiting."""
    waits = waits_of(scope)
    yield from _first(scope)
    yield from _votes(waits)
    if not _by_sequence(scope, waits):
        yield from _of_stacks(scope, waits)
    else:
        yield from _of_watchdogs(scope, waits)


def waits_of(scope: Scope) -> list[Fault]:
    """The waits of known ranks that failed in the attempt."""
    return [
        fault
        for fault in scope.faults.values()
        if fault.fault_class in WAITS and fault.rank is not None and scope.in_attempt(fault.event.place)
    ]


def group_of(text: str) -> str | None:
    """The process group that a line of the watchdog names: its name is the same on all ranks, its number need not be."""
    found = GROUP.search(text)
    return found[1] if found else None


def _by_sequence(scope: Scope, waits: list[Fault]) -> dict[tuple[str | None, int], dict[int, Call]]:
    """The calls at each sequence number of each group; without a group's name only if the whole world stands there."""
    groups = {
        (event.place.rank, event.captures["work"]): group_of(event.text)
        for event in scope.events()
        if event.name == "collective.counters" and "work" in event.captures
    }
    found: dict[tuple[str | None, int], dict[int, Call]] = {}
    for fault in waits:
        seq, op = fault.event.captures.get("seq"), fault.event.captures.get("op")
        if isinstance(seq, int) and isinstance(op, str) and fault.rank is not None and op not in _BETWEEN_TWO:
            sizes = tuple(fault.event.captures.get(key) for key in ("numel_in", "numel_out"))
            group = groups.get((fault.rank, seq)) or group_of(fault.event.text)
            found.setdefault((group, seq), {}).setdefault(fault.rank, Call(op, sizes, fault.event.span))
    return {
        key: calls for key, calls in found.items() if len(calls) > 1 and (key[0] is not None or _is_world(scope, calls.keys()))
    }


def _is_world(scope: Scope, ranks: Collection[int]) -> bool:
    world = scope.aligned.world_size
    return world is not None and world > 1 and len(ranks) == world and max(ranks) < world


def _of_watchdogs(scope: Scope, waits: list[Fault]) -> Iterator[Fact]:
    places = _by_sequence(scope, waits)
    for calls in places.values():
        ops = {rank: call.op for rank, call in calls.items()}
        if len(set(ops.values())) > 1:
            yield from _differ("collective.op_differs", ops, {rank: call.span for rank, call in calls.items()})
            return
    for calls in places.values():
        op = next(iter(calls.values())).op
        sizes = {rank: repr(call.sizes) for rank, call in calls.items() if None not in call.sizes}
        if op not in _SIZES_MAY_DIFFER and len(set(sizes.values())) > 1:
            yield from _differ("collective.shape_differs", sizes, {rank: calls[rank].span for rank in sizes})
            spans = tuple(call.span for call in calls.values())[:2]
            yield _fact("collective.op_differs", False, "one operation at that sequence number", spans)
            return
    if len(places) == 1:
        calls = next(iter(places.values()))
        if _is_world(scope, calls.keys()):
            yield from _all_the_same(scope, calls, next(iter(places))[1])


def _all_the_same(scope: Scope, calls: Mapping[int, Call], seq: int) -> Iterator[Fact]:
    spans = tuple(call.span for call in calls.values())[:4]
    yield _fact("collective.op_differs", False, "all ranks wait in one operation", spans)
    if len({call.sizes for call in calls.values()}) == 1 and None not in next(iter(calls.values())).sizes:
        yield _fact("collective.shape_differs", False, "all ranks wait with one size", spans)
    done = {
        event.captures.get("completed")
        for event in scope.events()
        if event.name == "collective.counters" and event.captures.get("work") == seq
    }
    if len(done) <= 1:
        origin = f"all {len(calls)} ranks wait in the same operation"
        yield _fact("collective.all_equal", True, origin, spans)


def _of_stacks(scope: Scope, waits: list[Fault]) -> Iterator[Fact]:
    """Compare the innermost function of torch.distributed on every rank of the world."""
    calls: dict[int, str] = {}
    spans: dict[int, SourceSpan] = {}
    gave_up: dict[int, bool] = {}
    for fault in waits:
        name = collective_call(scope.aligned.traceback_of(fault.event))
        if name and fault.rank is not None:
            calls.setdefault(fault.rank, name)
            spans.setdefault(fault.rank, _call_site(scope, fault.event))
            gave_up[fault.rank] = gave_up.get(fault.rank, False) or fault.fault_class == "collective_timeout"
    if not _is_world(scope, calls.keys()) or _NOT_FOR_ALL & set(calls.values()):
        return
    if len(set(calls.values())) == 1:
        origin = f"all ranks wait in {next(iter(calls.values()))}"
        yield _fact("collective.op_differs", False, origin, tuple(spans.values())[:2])
    elif _no_one_ran_ahead(calls, gave_up):
        yield from _differ("collective.op_differs", calls, spans)


def _no_one_ran_ahead(calls: Mapping[int, str], gave_up: Mapping[int, bool]) -> bool:
    """True if in each of the calls a rank waited out its limit, and in those with a root every rank did.

    A rank that found the others gone may only have come late: the others had left the rooted call without it.
    """
    waited = {name for rank, name in calls.items() if gave_up[rank]}
    return waited == set(calls.values()) and all(gave_up[rank] for rank, name in calls.items() if name in _ROOTED)


def _call_site(scope: Scope, event: Event) -> SourceSpan:
    traceback = scope.aligned.traceback_of(event)
    own = [frame.span for frame in traceback.root.frames if not is_library(frame.path)] if traceback else []
    return own[-1] if own else event.span


def _differ(name: str, signatures: Mapping[int, str], spans: Mapping[int, SourceSpan]) -> Iterator[Fact]:
    alone = minority(signatures)
    shown = sorted(signatures, key=lambda rank: (rank != alone, rank))
    first = shown[0]
    other = next(rank for rank in shown if signatures[rank] != signatures[first])
    pair = (spans[first], spans[other])
    origin = f"rank {first} and rank {other}: {signatures[first]} and {signatures[other]}"
    yield _fact(name, True, origin, pair)
    if alone is not None:
        yield _fact("collective.minority_rank", alone, f"all others: {signatures[other]}", pair)
    yield _fact("collective.all_equal", False, origin, pair)


def _first(scope: Scope) -> Iterator[Fact]:
    for event in scope.events():
        counters = counters_of(event) if event.name == "collective.counters" and scope.on_rank(event) else None
        if counters is not None and counters.completed:
            yield _fact("collective.is_first", False, f"{counters.completed} collectives had completed", (event.span,))
            return


def _votes(waits: list[Fault]) -> Iterator[Fact]:
    voters: dict[object, dict[int, SourceSpan]] = {}
    for fault in waits:
        peer = fault.event.captures.get("peer")
        if peer is not None and fault.event.name == "peer.gloo" and fault.rank is not None:
            voters.setdefault(peer, {}).setdefault(fault.rank, fault.event.span)
    if voters:
        most = max(voters.values(), key=len)
        yield _fact("peer.same_address_votes", len(most), "ranks that name one closed address", tuple(most.values())[:4])


def _fact(name: str, value: FactValue, origin: str, spans: tuple[SourceSpan, ...]) -> Fact:
    return Fact(name=name, value=value, origin=origin, spans=spans, basis="derived")
