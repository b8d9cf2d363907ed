"""A snapshot and the log of the process that wrote it tell of one failure: which log that is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from firstfault.ingest.memory_snapshot_state import segment_bytes
from firstfault.model.bundle import SourceReport
from firstfault.model.event import Event
from firstfault.units import RELATIVE_ROUNDING

KIND = "memory_snapshot"


def joined(reports: Sequence[SourceReport]) -> list[SourceReport]:
    """The reports; the failure of a snapshot only repeats the message of the log that names the same request and device.

    The snapshot then belongs to the rank of that log. If several ranks asked for the same, its figures belong to nobody.
    """
    return [_joined(report, reports) if report.source.kind == KIND and report.events else report for report in reports]


def _joined(report: SourceReport, reports: Sequence[SourceReport]) -> SourceReport:
    event = report.events[0]
    places = [place for other in reports if other.source.kind != KIND for place in _same(event, other)]
    if not places:
        return report
    ranks = set(places)
    rank = next(iter(ranks)) if len(ranks) == 1 else None
    own = replace(event.place, rank=rank) if event.place.rank is None else event.place
    known = own.rank is not None or ranks == {None}
    return replace(
        report,
        source=replace(report.source, place=own),
        events=(replace(event, quoted=True, place=own),),
        tracebacks=tuple(replace(traceback, place=own) for traceback in report.tracebacks),
        facts=report.facts if known else (),
        ranks=() if own.rank is None else (own.rank,),
    )


def _same(event: Event, other: SourceReport) -> Iterator[int | None]:
    """The ranks of a report's messages that may be of the same failure."""
    requested = event.captures["requested"]
    for found in other.events:
        size, device = found.captures.get("requested"), found.captures.get("device")
        if found.name != event.name or found.quoted or not isinstance(size, int) or not isinstance(requested, int):
            continue
        rank = other.source.place.rank if found.place.rank is None else found.place.rank
        asked = (requested, segment_bytes(requested))
        near = any(abs(size - one) <= RELATIVE_ROUNDING * max(size, one) for one in asked)
        if (
            near
            and device in (None, event.captures["device"])
            and (event.place.rank is None or rank in (None, event.place.rank))
        ):
            yield rank
