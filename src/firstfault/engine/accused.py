"""What is shown of the ranks for which others wait: how each differs, the line that it did not reach, its last lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from firstfault.engine.derive.frames import is_library
from firstfault.engine.last_lines import work_of
from firstfault.model.span import SourceSpan

if TYPE_CHECKING:
    from firstfault.engine.align import Aligned
    from firstfault.engine.attribute import Attribution
    from firstfault.model.collective import CallFrame, CollectiveCall, HangSuspect
    from firstfault.model.event import Frame

MAX_ACCUSED = 4
MAX_LAST_LINES = 3
_WAITS = frozenset({"collective_timeout", "peer_lost", "store_timeout"})


class Shown(NamedTuple):
    """A sentence, and the places that show it."""

    text: str
    spans: tuple[SourceSpan, ...]


class _Site(NamedTuple):
    where: str
    span: SourceSpan


def shown_of_suspects(aligned: Aligned, attribution: Attribution) -> list[Shown]:
    """What is shown of the suspected ranks, each with its own evidence; nothing of more than four of them."""
    ranks = attribution.ranks or ((attribution.rank,) if attribution.rank is not None else ())
    if not 0 < len(ranks) <= MAX_ACCUSED:
        return []
    suspects = suspects_of(aligned, ranks)
    found = [Shown(f"{one.says[:1].upper()}{one.says[1:]}", one.evidence[:2]) for one in suspects if len(ranks) > 1]
    for one in suspects:
        found += sites_of(one)
    if not any(one.not_reached is not None and _own(one.not_reached.frames) for one in suspects):
        found += not_reached(aligned, attribution, ranks)
    for rank in ranks:
        found += last_lines(aligned, rank, attribution.attempt)
    return found


def suspects_of(aligned: Aligned, ranks: Iterable[int]) -> list[HangSuspect]:
    """What the records of collectives hold against these ranks."""
    wanted = set(ranks)
    return [one for one in (aligned.hang.suspects if aligned.hang else ()) if one.rank in wanted]


def sites_of(suspect: HangSuspect) -> list[Shown]:
    """Where a rank made its last completed call, and the line at which the others wait, as its dump's stacks say."""
    found = []
    done, late = suspect.reached, suspect.not_reached
    if done is not None and (frame := _own(done.frames)) is not None and done.span is not None:
        did = "completed" if done.state == "completed" else "made"
        text = f"The last call that rank {suspect.rank} {did} there, {_call(done)}, stands at {_where(frame)}"
        found.append(Shown(text, (done.span,)))
    if late is not None and (frame := _own(late.frames)) is not None and late.span is not None:
        said = {
            "gpu-stalled": f"The call that rank {suspect.rank} has open, {_call(late)}, stands at {_where(frame)}",
            "divergent-call": f"The others made theirs, {_call(late)}, at {_where(frame)}",
            "order-inversion": f"Rank {suspect.rank} waits in {_call(late)} at {_where(frame)}",
        }
        reached = f"The line that rank {suspect.rank} did not reach: {_where(frame)}, where others wait in {_call(late)}"
        found.append(Shown(said.get(suspect.kind, reached), (late.span,)))
    return found


def not_reached(aligned: Aligned, attribution: Attribution, ranks: Iterable[int]) -> list[Shown]:
    """The line of the script at which most of the other ranks wait, by their stacks or by the exceptions they raised there."""
    suspected = set(ranks)
    sites = [*_of_stacks(aligned, suspected), *_of_exceptions(aligned, attribution, suspected)]
    if not sites:
        return []
    where, _ = Counter(site.where for site in sites).most_common(1)[0]
    spans = tuple(site.span for site in sites if site.where == where)[:1]
    return [Shown(f"The line that it did not reach: {where}, where others wait", spans)]


def last_lines(aligned: Aligned, rank: int, attempt: int | None) -> list[Shown]:
    """The last three lines of a rank before the stall, whatever they say."""
    work = list(work_of(aligned, rank, attempt))[-MAX_LAST_LINES:]
    spans = tuple(SourceSpan(path, line.line, line.offset) for path, line in work)
    return [Shown(f"What rank {rank} printed last before that", spans)] if spans else []


def _of_stacks(aligned: Aligned, suspected: set[int]) -> Iterator[_Site]:
    if not any(report.stacks for report in aligned.bundle.reports):
        return
    from firstfault.engine.stack_votes import waiting_sites

    for rank, where, span in waiting_sites(aligned.bundle, aligned.rank_map):
        if rank not in suspected:
            yield _Site(where, span)


def _of_exceptions(aligned: Aligned, attribution: Attribution, suspected: set[int]) -> Iterator[_Site]:
    events = (*attribution.initiating, *(one.event for one in attribution.collateral))
    for event in events:
        traceback = aligned.traceback_of(event) if event.fault_class in _WAITS else None
        if traceback is None or not traceback.blocks or event.place.rank in suspected:
            continue
        own: list[Frame] = [frame for frame in traceback.root.frames if not is_library(frame.path)]
        if own:
            frame = own[-1]
            yield _Site(f"{frame.path.rpartition('/')[2]}:{frame.line} in {frame.function}", frame.span)


def _own(frames: Iterable[CallFrame]) -> CallFrame | None:
    """The innermost frame of the script; frames begin with the innermost."""
    return next((frame for frame in frames if not is_library(frame.path)), None)


def _where(frame: CallFrame) -> str:
    return f"{frame.path.rpartition('/')[2]}:{frame.line} in {frame.function}"


def _call(call: CollectiveCall) -> str:
    return f"{call.op or 'call'} #{call.seq}"
