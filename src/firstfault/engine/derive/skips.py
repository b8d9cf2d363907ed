"""How many optimizer steps in a row were skipped because of the loss scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.fact import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.engine.derive.scope import Scope
    from firstfault.model.event import Event, Progress
    from firstfault.model.fact import FactSet

PRODUCES = ("num.consecutive_skips",)

_SKIPPED = "num.step_skipped"


def derive(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """Steps between two progress lines with as many skips between them.

    The line of a skip names no step: where fewer were skipped than done, no one can tell which followed which.
    """
    found: list[tuple[int, Progress, list[Event]]] = []
    for report in scope.aligned.bundle.reports:
        skips = [event for event in report.events if event.name == _SKIPPED and not event.quoted]
        for series in report.progress if skips else ():
            between = _between(series, skips)
            steps = (series.last_step or 0) - (series.first_step or 0)
            if between and series.first_step is not None and len(between) == steps:
                found.append((steps, series, between))
    if found:
        steps, series, between = max(found, key=lambda one: one[0])
        origin = f"each step from {series.first_step} to {series.last_step} was skipped"
        spans = (between[0].span, between[-1].span)
        yield Fact(name="num.consecutive_skips", value=steps, origin=origin, spans=spans, basis="derived")


def _between(series: Progress, skips: list[Event]) -> list[Event]:
    first, last = series.first_span, series.last_span
    if first is None or last is None:
        return []
    mine = (event for event in skips if event.place.rank in (None, series.rank))
    return [event for event in mine if first.offset < event.span.offset < last.offset]
