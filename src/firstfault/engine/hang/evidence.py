"""The analysis of collectives as part of a bundle: what waits becomes events, what it says of ranks a suspicion."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from firstfault.engine.align import Aligned
from firstfault.engine.hang.analysis import HangAnalysis, analyse
from firstfault.engine.silent import Suspicion
from firstfault.model.bundle import Note
from firstfault.model.collective import CollectiveCall, GroupStatus, HangSuspect
from firstfault.model.event import Event, Place
from firstfault.model.span import SourceSpan

PENDING_EVENT = "collective.pending"
STATUS_EVENT = "collective.status"
_ALIVE = frozenset({"never-entered", "behind", "gpu-stalled", "host-blocked"})


def with_hang(aligned: Aligned) -> Aligned:
    """`aligned` with the analysis of its records; the same if it has none."""
    records = [record for report in aligned.bundle.reports for record in report.records]
    if not records:
        return aligned
    found = analyse(records, aligned.world_size)
    if found.verdict == "none":
        return aligned
    status = {one.span: one for record in records for one in record.groups if one.span is not None}
    events = [*_waits(found), *_suspects(found, status)]
    notes = tuple(Note("", said) for said in found.notes)
    return replace(
        aligned,
        events=(*aligned.events, *events),
        bundle=replace(aligned.bundle, notes=(*aligned.bundle.notes, *notes)),
        world_size=max(aligned.world_size or 0, len(found.world)) or None,
        hang=found,
    )


def suspicion_of(aligned: Aligned) -> Suspicion | None:
    """Whom the records of collectives make suspect; None leaves it to what the logs show."""
    found = aligned.hang
    if found is None or found.verdict in ("quiet", "none"):
        return None
    if found.verdict == "named":
        alive = all(one.kind in _ALIVE for one in found.suspects)
        return Suspicion(ranks=found.ranks, reason=found.reason, alive=alive)
    told = any(event.fault_class is not None and event.name != PENDING_EVENT for event in aligned.events)
    return None if told else Suspicion(reason=found.reason)


def _waits(found: HangAnalysis) -> Iterator[Event]:
    for one in found.waiting:
        yield Event(
            name=PENDING_EVENT,
            signal="",
            role="collateral",
            fault_class="collective_timeout",
            span=one.span,
            text=f"{one.op or 'call'} #{one.seq} of {one.group} is pending",
            place=one.place,
            source_id=one.span.source,
        )


def _suspects(found: HangAnalysis, status: dict[SourceSpan, GroupStatus]) -> Iterator[Event]:
    """What the counters of suspects and of those beside them say, so that an answer can cite it."""
    seen = {one.span for one in found.waiting}
    for suspect in found.suspects:
        for call in (suspect.reached, suspect.not_reached):
            if call is not None and call.span is not None and call.span not in seen and call.span not in suspect.evidence:
                seen.add(call.span)
                yield _call(call, suspect)
        for span in suspect.evidence:
            if span in seen:
                continue
            seen.add(span)
            yield Event(
                name=STATUS_EVENT,
                signal="",
                role="context",
                fault_class=None,
                span=span,
                text=_counters(status.get(span), suspect),
                place=Place(rank=suspect.rank if span == suspect.evidence[0] else None),
                source_id=span.source,
            )


def _call(call: CollectiveCall, suspect: HangSuspect) -> Event:
    span = call.span or suspect.evidence[0]
    # What is not over here may be over for a backend that does not record it.
    state = ", completed" if call.state == "completed" else ""
    return Event(
        name=STATUS_EVENT,
        signal="",
        role="context",
        fault_class=None,
        span=span,
        text=f"{call.op or 'call'} #{call.seq} of {suspect.description}{state}",
        place=Place(),
        source_id=span.source,
    )


def _counters(status: GroupStatus | None, suspect: HangSuspect) -> str:
    if status is None:
        return f"{suspect.op or 'call'} #{suspect.seq} of {suspect.description}"
    said = [f"last enqueued {status.last_enqueued}"]
    if status.completion_known:
        said.append(f"last completed {status.last_completed}")
    return f"{', '.join(said)} in {status.description or suspect.description}"
