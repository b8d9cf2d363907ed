"""What attribution found, as facts: the class of the initiating event, its rank, and who raised an exception of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.engine.classes import without_unlabelled_copies
from firstfault.engine.recovery import ended_above
from firstfault.model.fact import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.engine.derive.scope import Scope
    from firstfault.model.event import Event
    from firstfault.model.fact import FactSet
    from firstfault.model.span import SourceSpan

PRODUCES = (
    "fault.class",
    "fault.rank",
    "fault.symmetric",
    "fault.own_exceptions",
    "fault.rank_silent",
    "fault.rank_has_log",
    "run.finished",
    "fault.recovered",
    "exit.after_work",
)
_OWN_PRIORS = frozenset({"initiating", "either"})
# Raised in a rank by something outside it: never an exception of its own.
_NEVER_OWN = frozenset(
    {"keyboard_interrupt", "exit_sigterm", "exit_sigkill", "exit_sighup", "launcher_exception", "launcher_report", "nccl_error"}
)


def derive(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """Facts of the attribution, with the lines of the initiating events."""
    attribution = scope.attribution
    spans = tuple(event.span for event in attribution.initiating[:3])
    yield Fact(name="fault.class", value=attribution.fault_class, origin="attribution", spans=spans, basis="derived")
    if attribution.rank is not None and attribution.relation == "one":
        yield Fact(name="fault.rank", value=attribution.rank, origin="attribution", spans=spans, basis="derived")
    if attribution.symmetric is not None:
        yield Fact(name="fault.symmetric", value=attribution.symmetric, origin="attribution", spans=spans, basis="derived")
    own = own_exceptions(scope)
    if own or attribution.fault_class != "none":
        lines: tuple[SourceSpan, ...] = tuple(event.span for event in own.values())[:3]
        yield Fact(name="fault.own_exceptions", value=len(own), origin="tracebacks by rank", spans=lines, basis="derived")
    if attribution.suspects:
        yield Fact(
            name="fault.rank_silent", value=True, origin="a rank without an error of its own", spans=spans, basis="derived"
        )
    world = scope.aligned.world_size
    if world is not None and world > 0 and scope.aligned.ranks:
        complete = len(scope.aligned.ranks) >= world
        origin = f"output of {len(scope.aligned.ranks)} of {world} ranks"
        yield Fact(name="fault.rank_has_log", value=complete, origin=origin, spans=spans, basis="derived")
    if attribution.finished:
        yield Fact(name="run.finished", value=True, origin="an end-of-training line", basis="derived")
    survived = attribution.recovered
    if not attribution.initiating and survived:
        shown = tuple(event.span for event in survived[:3])
        yield Fact(name="fault.recovered", value=True, origin="the run went on", spans=shown, basis="derived")
    if attribution.initiating:
        yield from _after_work(scope)


def _after_work(scope: Scope) -> Iterator[Fact]:
    """True where the run's own end line stands above the failure, in the same source."""
    event = scope.event
    end = ended_above(event, scope.aligned) if event is not None else None
    if event is not None and end is not None:
        spans = (end.span, event.span)
        yield Fact(name="exit.after_work", value=True, origin="the end of training stands above", spans=spans, basis="derived")


def own_exceptions(scope: Scope) -> dict[int | str, Event]:
    """The first own exception of each rank: its chain begins with an error that no peer, launcher or signal caused."""
    recovered = set(map(id, scope.attribution.recovered))
    found: dict[int | str, Event] = {}
    for fault in without_unlabelled_copies(tuple(scope.faults.values())):
        event = fault.event
        if event.traceback is None or id(event) in recovered or not scope.in_attempt(event.place):
            continue
        if fault.fault_class in _NEVER_OWN or fault.prior not in _OWN_PRIORS:
            continue
        traceback = scope.aligned.traceback_of(event)
        if traceback is not None and traceback.blocks and traceback.root.span.line != event.span.line:
            continue
        key = event.place.rank if event.place.rank is not None else event.source_id
        found.setdefault(key, event)
    return found
