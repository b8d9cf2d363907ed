"""One clock, one rank map: every event, exit and traceback of a bundle at its completed place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from firstfault.engine.attempts import AttemptGuide, known_attempts
from firstfault.engine.clocks import Clocks
from firstfault.engine.endings import end_events
from firstfault.engine.host_names import with_one_name_per_host
from firstfault.engine.rank_map import RankMap, exit_place, read_rank_map
from firstfault.engine.restarts import restart_marks
from firstfault.engine.simultaneous import estimate_clocks
from firstfault.model.bundle import Bundle, SourceReport
from firstfault.model.event import Event, ExceptionBlock, Place, ProcessExit, Progress, Traceback

if TYPE_CHECKING:
    from firstfault.engine.hang.analysis import HangAnalysis

EXCEPTION_EVENT = "python.exception"
NAMED_WITHIN_LINES = 2
"""The source text of the last frame, then the message."""
_NAMED_BY_PID = frozenset({"host_oom_kill", "gpu_xid", "gpu_xid_application", "gpu_xid_cleanup", "native_signal"})
_NAMED_BY_BUS = frozenset({"gpu_xid", "gpu_xid_application", "gpu_xid_cleanup"})

_Seen = TypeVar("_Seen", Event, ProcessExit)


class Aligned(msgspec.Struct, frozen=True, kw_only=True):
    """All that was seen, with ranks, hosts and attempts completed and process exits turned into events.

    `ranks` are the ranks that printed something. `tracebacks` are keyed by source id and index. `attempts` is empty if the run
    was not restarted as far as one can see.
    """

    bundle: Bundle
    events: tuple[Event, ...] = ()
    tracebacks: dict[tuple[str, int], Traceback] = {}
    exits: tuple[ProcessExit, ...] = ()
    progress: tuple[Progress, ...] = ()
    ranks: frozenset[int] = frozenset()
    world_size: int | None = None
    attempts: tuple[int, ...] = ()
    clocks: Clocks = Clocks()
    rank_map: RankMap = RankMap()
    hang: HangAnalysis | None = None
    """What the records of collectives say, if any were handed over."""

    def traceback_of(self, event: Event) -> Traceback | None:
        """The traceback that `event` ends or stands in."""
        return None if event.traceback is None else self.tracebacks.get((event.source_id, event.traceback))


def align(bundle: Bundle) -> Aligned:
    """Complete the place of everything in `bundle` and say how the hosts' clocks stand to each other."""
    bundle = with_one_name_per_host(bundle)
    ranks = read_rank_map(bundle)
    events = [_placed(event, report, ranks) for report in bundle.reports for event in report.events]
    exits = [_placed_exit(found, report, ranks) for report in bundle.reports for found in report.exits]
    tracebacks = dict(_placed_tracebacks(bundle, ranks))
    events += list(_cut_exceptions(bundle, events, tracebacks))
    if any(report.stacks for report in bundle.reports):
        from firstfault.engine.stack_votes import wait_events

        events += list(wait_events(bundle, ranks))
    if any(report.ras for report in bundle.reports):
        from firstfault.engine.ras_votes import behind_events

        events += list(behind_events(bundle, ranks))
    progress = [(report.source.id, sample) for report in bundle.reports for sample in report.progress]
    restarts = restart_marks(bundle)
    attempts = known_attempts(
        [*(e.place for e in events), *(x.place for x in exits), *(r.source.place for r in bundle.reports)], restarts
    )
    if len(attempts) > 1:
        guide = AttemptGuide(attempts, events, restarts)
        events = [_at_attempt(event, guide.attempt_at(event.source_id, event.span)) for event in events]
        exits = [_at_attempt(found, guide.attempt_at(found.source_id, found.span)) for found in exits]
        progress = [(source_id, _sample_at(sample, source_id, guide)) for source_id, sample in progress]
    elif attempts:
        events = [_at_attempt(event, attempts[0]) for event in events]
        exits = [_at_attempt(found, attempts[0]) for found in exits]
    whole = {r.source.id for r in bundle.reports if r.source.begins and r.source.ends}
    for attempt in attempts or (None,):
        events += end_events([found for found in exits if found.place.attempt == attempt], ranks, whole)
    return Aligned(
        bundle=bundle,
        events=tuple(events),
        tracebacks=tracebacks,
        exits=tuple(exits),
        progress=tuple(sample for _, sample in progress),
        ranks=frozenset(_printing_ranks(bundle, ranks)),
        world_size=ranks.world_size,
        attempts=attempts,
        clocks=estimate_clocks(events, _with_hosts(progress, bundle, ranks), exits),
        rank_map=ranks,
    )


def _merged(place: Place, source: Place) -> Place:
    """`place` with what the name of its source says where the line itself says nothing."""
    return Place(
        rank=source.rank if place.rank is None and place.local_rank is None else place.rank,
        local_rank=source.local_rank if place.rank is None and place.local_rank is None else place.local_rank,
        host=place.host or source.host,
        pid=place.pid,
        attempt=source.attempt if place.attempt is None else place.attempt,
        time=place.time,
    )


def _placed(event: Event, report: SourceReport, ranks: RankMap) -> Event:
    place = ranks.complete(_merged(event.place, ranks.source_place(report)))
    if place.rank is None:
        place = _place_of_evidence(event, place, ranks)
    return event if place == event.place else msgspec.structs.replace(event, place=place)


def _place_of_evidence(event: Event, place: Place, ranks: RankMap) -> Place:
    """A kernel line names its victim by pid or by bus id."""
    pid, bus = event.captures.get("pid"), event.captures.get("bus")
    rank = None
    if event.fault_class in _NAMED_BY_PID and isinstance(pid, int):
        rank = ranks.rank_of_pid(pid, place.host)
    if rank is None and event.fault_class in _NAMED_BY_BUS and bus is not None:
        rank = ranks.rank_of_bus(bus, place.host)
    return place if rank is None else ranks.complete(msgspec.structs.replace(place, rank=rank))


def _placed_exit(found: ProcessExit, report: SourceReport, ranks: RankMap) -> ProcessExit:
    source = msgspec.structs.replace(report.source.place, rank=None, local_rank=None)
    return msgspec.structs.replace(found, place=ranks.complete(_merged(exit_place(found), source)))


def _placed_tracebacks(bundle: Bundle, ranks: RankMap) -> Iterator[tuple[tuple[str, int], Traceback]]:
    for report in bundle.reports:
        for index, traceback in enumerate(report.tracebacks):
            place = ranks.complete(_merged(traceback.place, ranks.source_place(report)))
            yield (report.source.id, index), msgspec.structs.replace(traceback, place=place)


def _cut_exceptions(bundle: Bundle, events: Sequence[Event], tracebacks: dict[tuple[str, int], Traceback]) -> Iterator[Event]:
    """An event for each traceback that was cut above its exception line: something was raised, it is unknown what."""
    known = {(event.source_id, event.traceback) for event in events}
    told = {report.source.id for report in bundle.reports if report.source.kind == "prose"}
    for (source_id, index), traceback in tracebacks.items():
        if (source_id, index) in known or traceback.ignored or _is_named_below(traceback, source_id, events):
            continue
        if traceback.blocks and not any(block.type for block in traceback.blocks):
            yield Event(
                name=EXCEPTION_EVENT,
                signal="",
                role="initiating",
                fault_class="python_exception",
                span=traceback.root.span,
                text=_last_frame(traceback.root),
                place=traceback.place,
                source_id=source_id,
                traceback=index,
                quoted=source_id in told,
            )


def _is_named_below(traceback: Traceback, source_id: str, events: Iterable[Event]) -> bool:
    """True if a message of no traceback stands right below the frames: its line has a prefix that nobody explained."""
    below = traceback.root.frames[-1].span.line if traceback.root.frames else traceback.root.span.line
    return any(
        event.source_id == source_id
        and event.traceback is None
        and event.role == "initiating"
        and not event.quoted
        and 0 < event.span.line - below <= NAMED_WITHIN_LINES
        for event in events
    )


def _last_frame(block: ExceptionBlock) -> str:
    if not block.frames:
        return ""
    frame = block.frames[-1]
    return f'File "{frame.path}", line {frame.line}, in {frame.function}'


def _at_attempt(seen: _Seen, attempt: int | None) -> _Seen:
    if seen.place.attempt is not None or attempt is None:
        return seen
    return msgspec.structs.replace(seen, place=msgspec.structs.replace(seen.place, attempt=attempt))


def _with_hosts(
    progress: Iterable[tuple[str, Progress]], bundle: Bundle, ranks: RankMap
) -> Iterator[tuple[str | None, Progress]]:
    hosts = {report.source.id: report.source.place.host for report in bundle.reports}
    for source_id, sample in progress:
        yield hosts[source_id] or (ranks.hosts.get(sample.rank) if sample.rank is not None else None), sample


def _sample_at(sample: Progress, source_id: str, guide: AttemptGuide) -> Progress:
    """A series that runs through several attempts belongs to the one in which its last line stands."""
    if sample.attempt is not None or sample.last_span is None:
        return sample
    return msgspec.structs.replace(sample, attempt=guide.attempt_at(source_id, sample.last_span))


def _printing_ranks(bundle: Bundle, ranks: RankMap) -> Iterator[int]:
    for report in bundle.reports:
        yield from report.ranks
        places = [ranks.source_place(report), *(event.place for event in report.events), *(end.place for end in report.ends)]
        places += [traceback.place for traceback in report.tracebacks]
        places += [stack.place for stack in report.stacks]
        for place in places:
            rank = ranks.complete(place).rank
            if rank is not None:
                yield rank
        yield from (sample.rank for sample in report.progress if sample.rank is not None)
