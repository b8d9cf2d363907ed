"""What happened in one attempt: every fault followed to its cause, and what is left without one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from firstfault.engine.align import Aligned
from firstfault.engine.causes import Link, Scene, link_faults
from firstfault.engine.classes import Fault
from firstfault.engine.consequence import Consequence, explain_all, followers
from firstfault.engine.silent import Suspicion, silent_ranks, suspect
from firstfault.engine.streams import Stream, split_streams
from firstfault.engine.tie_break import Choice, choose
from firstfault.engine.votes import accuses
from firstfault.engine.wording import subject
from firstfault.knowledge.schema import CausalTable

_STOPPED = frozenset({"exit_sigterm", "keyboard_interrupt"})
_EVIDENCE = frozenset({"host_oom_kill", "gpu_xid", "machine_check"})
_REPORTS = frozenset({"launcher_sigterm", "launcher_report", "step_teardown"})
_TALK = frozenset(
    {
        "collective_mismatch",
        "collective_timeout",
        "elastic_node_lost",
        "exit_sigterm",
        "nccl_abort_note",
        "nccl_error",
        "peer_lost",
        "rendezvous_error",
        "store_timeout",
        "watchdog_stuck",
    }
)

MAX_LISTED_SUSPECTS = 8


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """`own` is true if a fault that can start failures is left unexplained; otherwise `choice` rests on consequences only.

    `explained` are (effect, root, sentence); `doubt` is what speaks against the suspects, as a sentence.
    """

    choice: Choice
    own: bool
    explained: tuple[tuple[Fault, Fault, str], ...] = ()
    independent: tuple[Fault, ...] = ()
    suspects: tuple[int, ...] = ()
    symmetric: bool | None = None
    doubt: str = ""


def account_for(
    faults: Sequence[Fault], aligned: Aligned, causal: CausalTable, *, before: Account | None, suspicion: Suspicion | None
) -> Account:
    """Explain what can be explained among the faults of one attempt, and choose among the rest."""
    streams, free = split_streams(faults, aligned)
    told = _told_ranks(free, streams)
    heads = [stream.acting for stream in streams]
    nodes = [*heads, *_distinct(free)]
    scene = Scene(
        clocks=aligned.clocks,
        rank_map=aligned.rank_map,
        told_ranks=frozenset(told),
        sole_failing=_sole_failing(heads, told, aligned),
    )
    links = link_faults(nodes, causal, scene)
    roots = [fault for fault in nodes if fault not in links]
    carried = _carried_over(roots, before, causal)
    left = [fault for fault in roots if fault not in {one.effect for one in carried} and not _implied(fault, told, nodes)]
    strong = _seen_rather_than_inferred([fault for fault in left if fault.tier > 1])
    if _wait_for_absent(strong, aligned):
        strong = []
    placed = {fault: _with_rank(fault, links, nodes, aligned) for fault in strong}
    found = [Consequence(link.effect, placed.get(link.cause, link.cause), link) for link in links.values()]
    found += [*carried, *followers(streams)]
    if strong:
        return _own_account(placed, left, nodes, found, aligned, told)
    return _consequences_only(left or roots, nodes, found, aligned, told, suspicion)


def _own_account(
    placed: dict[Fault, Fault],
    left: Sequence[Fault],
    nodes: Sequence[Fault],
    consequences: list[Consequence],
    aligned: Aligned,
    told: Collection[int],
) -> Account:
    top = max(fault.tier for fault in placed)
    roots = [fault for fault in placed.values() if fault.tier == top]
    choice = choose(roots, aligned, told)
    first = choice.initiating[0]
    others = [placed.get(fault, fault) for fault in left]
    others = [fault for fault in others if fault not in choice.initiating]
    same = [fault for fault in others if _same_incident(fault, first)]
    echoes = [f for f in others if f not in same and (f.fault_class in _TALK or f.tier == 1 or f.rank in choice.ranks)]
    independent = [fault for fault in others if fault not in same and fault not in echoes]
    consequences += [Consequence(fault, first) for fault in echoes]
    certainty = choice.certainty
    if certainty == "established" and (any(f.tier > 1 for f in independent) or _unseen(aligned, nodes)):
        certainty = "likely"
    initiating = (*choice.initiating, *same)
    return Account(
        choice=msgspec.structs.replace(choice, initiating=initiating, certainty=certainty, reason=_reason(choice, nodes)),
        own=True,
        explained=explain_all(consequences),
        independent=tuple(independent),
        symmetric=_symmetric(choice, aligned),
    )


def _same_incident(fault: Fault, first: Fault) -> bool:
    """The kernel prints several lines about one kill or one fault of a GPU, and a crash report names no rank."""
    if fault.fault_class != first.fault_class:
        return False
    if fault.fault_class == "native_signal":
        return first.is_exit and fault.rank is None and fault.host == first.host
    if fault.fault_class not in _EVIDENCE:
        return False
    return fault.host == first.host and (fault.rank is None or first.rank is None or fault.rank == first.rank)


def _consequences_only(
    roots: Sequence[Fault],
    nodes: Sequence[Fault],
    consequences: list[Consequence],
    aligned: Aligned,
    told: Collection[int],
    suspicion: Suspicion | None,
) -> Account:
    # Among equals, the report that names the missing rank says more than one that only waited.
    first = max(
        roots, key=lambda fault: (fault.weight, fault.tier, fault.fault_class, accuses(fault), -fault.event.span.offset)
    )
    found = suspicion or suspect(aligned, nodes, told)
    alone = None if suspicion else _only_one_that_ended(roots, told)
    if alone is not None:
        first = alone
        found = Suspicion(
            ranks=(alone.rank or 0,), reason=f"rank {alone.rank} ended with an error code, what it printed is missing"
        )
    rank = found.ranks[0] if len(found.ranks) == 1 else None
    # Whom an analysis of all ranks does not name only waited; without one, that is so of what is always a consequence.
    following = [fault for fault in roots if fault.fault_class in _TALK or suspicion] if found.ranks else []
    waited: set[int | None] = {fault.rank for fault in following if fault.rank not in (None, *found.ranks)}
    waited = waited or {first.rank}
    reports = _REPORTS if alone is not None else frozenset()
    echoes = [fault for fault in roots if fault.rank in waited or fault.fault_class in reports]
    consequences += [Consequence(fault, first) for fault in echoes if fault is not first]
    # Of several suspects whose ends are alike none is shown as the first.
    alike = [fault for fault in roots if fault.rank in found.ranks and fault.shape == first.shape] if rank is None else []
    choice = Choice(
        initiating=tuple(alike) if first in alike else (first,),
        rank=rank,
        ranks=found.ranks if len(found.ranks) <= MAX_LISTED_SUSPECTS else (),
        relation="several" if len(found.ranks) > 1 else "one",
        certainty="likely" if rank is not None else "undetermined",
        reason=found.reason,
    )
    return Account(choice=choice, own=False, explained=explain_all(consequences), suspects=found.ranks, doubt=found.doubt)


def _wait_for_absent(strong: Sequence[Fault], aligned: Aligned) -> bool:
    """True if all that was heard waited for others to join, and either the text says that some did not, or as many ranks as
    did not join left no trace.
    """
    if not strong or any(fault.fault_class != "rendezvous_error" for fault in strong):
        return False
    if all(_says_who_is_short(fault) for fault in strong):
        return True
    joined = {fault.event.captures.get("joined") for fault in strong}
    count = next(iter(joined)) if len(joined) == 1 else None
    if aligned.world_size is None or not isinstance(count, int):
        return False
    heard = aligned.ranks | {fault.rank for fault in strong if fault.rank is not None}
    return 0 < aligned.world_size - len(heard) == aligned.world_size - count


def _says_who_is_short(fault: Fault) -> bool:
    joined, expected = (fault.event.captures.get(name) for name in ("joined", "expected"))
    return isinstance(joined, int) and isinstance(expected, int) and joined < expected


def _only_one_that_ended(roots: Sequence[Fault], told: Collection[int]) -> Fault | None:
    """The end of the one rank that left with an error code, where all that is known of others is that they were stopped."""
    own = [fault for fault in roots if fault.fault_class not in _REPORTS and fault.rank not in told]
    ended = [fault for fault in own if fault.fault_class == "process_exit" and fault.rank is not None]
    return ended[0] if ended and len({fault.rank for fault in own}) == 1 else None


def _told_ranks(free: Iterable[Fault], streams: Sequence[Stream]) -> set[int]:
    """Ranks that the launcher sent a signal: by its own lines, or, where those are missing, by what must have happened.

    A launcher that sees a rank fail ends the others with SIGTERM. If no line about that is in the bundle, a rank that ended by
    SIGTERM while another failed by itself was told to.
    """
    lines = [fault for fault in free if fault.fault_class == "launcher_sigterm"]
    told = {fault.rank for fault in lines if fault.rank is not None and not _stops_all(fault)}
    if lines:
        return told
    ended = {s.rank for s in streams if s.rank is not None and any(f.fault_class == "exit_sigterm" for f in s.faults)}
    failed = {s.rank for s in streams if s.rank is not None and s.head.fault_class not in _STOPPED}
    return ended if failed - ended else set()


def _stops_all(line: Fault) -> bool:
    # DeepSpeed's launcher kills every process of the node in the end, the one that failed included.
    return line.event.captures.get("reporter") == "deepspeed"


def _implied(fault: Fault, told: Collection[int], nodes: Iterable[Fault]) -> bool:
    """True for the SIGTERM of a rank that the launcher must have sent although its line is missing."""
    return fault.fault_class in _STOPPED and fault.rank in told and any(f is not fault and f.rank not in told for f in nodes)


def _seen_rather_than_inferred(faults: Sequence[Fault]) -> list[Fault]:
    """A rank that must have left early counts only if no failure was seen that started by itself."""
    seen = [fault for fault in faults if not fault.event.captures.get("inferred")]
    return seen or list(faults)


def _distinct(faults: Iterable[Fault]) -> list[Fault]:
    seen: set[tuple[object, ...]] = set()
    out = []
    for fault in faults:
        key = (fault.fault_class, fault.rank, fault.host, fault.event.text)
        if key not in seen:
            seen.add(key)
            out.append(fault)
    return out


def _sole_failing(heads: Iterable[Fault], told: Collection[int], aligned: Aligned) -> dict[str | None, int]:
    by_host: dict[str | None, set[int]] = {}
    for fault in heads:
        if fault.rank is not None and fault.tier > 1 and not (fault.fault_class in _STOPPED and fault.rank in told):
            by_host.setdefault(fault.host, set()).add(fault.rank)
            by_host.setdefault(None, set()).add(fault.rank)
    return {host: next(iter(ranks)) for host, ranks in by_host.items() if len(ranks) == 1}


def _carried_over(roots: Sequence[Fault], before: Account | None, causal: CausalTable) -> list[Consequence]:
    """Faults that follow from the failure of the attempt before: its sockets still die, its file is half written."""
    if before is None or not before.choice.initiating:
        return []
    cause = before.choice.initiating[0]
    rows = [row for row in causal.explains if row.scope == "next_attempt" and row.a in cause.labels]
    out = []
    for fault in roots:
        for row in rows:
            path = fault.event.captures.get("path")
            same_path = path is not None and path == cause.event.captures.get("path")
            if row.b in fault.labels and (same_path or "path" not in row.match):
                out.append(Consequence(fault, cause))
                break
    return out


def _with_rank(fault: Fault, links: dict[Fault, Link], nodes: Sequence[Fault], aligned: Aligned) -> Fault:
    """Evidence of a machine belongs to the rank that it directly explains, or to the only silent rank of that host."""
    if fault.rank is not None or fault.fault_class not in _EVIDENCE:
        return fault
    near = [link.effect.rank for link in links.values() if link.cause is fault and link.row.scope in ("host", "gpu", "reports")]
    ranks = {rank for rank in near if rank is not None}
    if not ranks and fault.host is not None:
        here = {rank for rank, host in aligned.rank_map.hosts.items() if host == fault.host}
        ranks = here if len(here) == 1 else here.intersection(silent_ranks(aligned, {n.rank for n in nodes}))
    if len(ranks) != 1:
        return fault
    place = aligned.rank_map.complete(msgspec.structs.replace(fault.event.place, rank=next(iter(ranks))))
    return msgspec.structs.replace(fault, event=msgspec.structs.replace(fault.event, place=place))


def _reason(choice: Choice, nodes: Sequence[Fault]) -> str:
    if choice.reason:
        return choice.reason
    first = choice.initiating[0]
    others = len({fault.rank for fault in nodes if fault.rank not in (None, first.rank)})
    if others:
        return f"{subject(first)}, and nothing explains that; what the other ranks report follows from it"
    return f"{subject(first)}, and nothing explains that"


def _symmetric(choice: Choice, aligned: Aligned) -> bool | None:
    if choice.relation == "symmetric":
        return True
    ranks = max(len(aligned.ranks), aligned.world_size or 0)
    return None if ranks < 2 or choice.certainty == "undetermined" else False


def _unseen(aligned: Aligned, nodes: Iterable[Fault]) -> bool:
    """True if some rank of the world left no trace and no combined log stands for it."""
    seen = {rank for rank in (*aligned.ranks, *(fault.rank for fault in nodes)) if rank is not None}
    world = aligned.world_size or max(seen, default=-1) + 1
    combined = any(
        len(report.ranks) > 1 or report.exits for report in aligned.bundle.reports if report.source.place.rank is None
    )
    return not combined and any(rank not in seen for rank in range(world))
