"""The marks of the timeline: last progress, what failed first, what followed, who was stopped, who fell silent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from firstfault.engine.classes import seen_waiting, words_of
from firstfault.engine.series import latest
from firstfault.model.diagnosis import TimelineEntry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.engine.align import Aligned
    from firstfault.engine.attribute import Attribution
    from firstfault.engine.evidence import EvidenceBook
    from firstfault.knowledge.schema import CausalTable
    from firstfault.model.event import Event, Place
    from firstfault.model.span import SourceSpan

MAX_MARKS = 16_384
_MAX_TEXT = 200
Kind = Literal["progress", "initiating", "collateral", "stopped", "silent", "kernel", "scheduler"]
_SOURCE_KINDS: dict[str, Kind] = {"kernel": "kernel", "slurm": "scheduler", "kubernetes": "scheduler"}


def timeline(aligned: Aligned, attribution: Attribution, book: EvidenceBook, causal: CausalTable) -> tuple[TimelineEntry, ...]:
    """All marks, each pointing at its line where that line is among the evidence."""
    marks = _marks(aligned, attribution, book, causal)
    return tuple(mark for mark, _ in zip(marks, range(MAX_MARKS), strict=False))


def _marks(aligned: Aligned, attribution: Attribution, book: EvidenceBook, causal: CausalTable) -> Iterator[TimelineEntry]:
    kinds = {report.source.id: report.source.kind for report in aligned.bundle.reports}
    followed = {(one.event.place.rank, one.event.fault_class) for one in attribution.collateral}
    for event in attribution.initiating:
        if (event.place.rank, event.fault_class) in followed and event.place.rank not in attribution.ranks:
            # Of those that wait none was first: it stands below, with the others.
            continue
        if attribution.suspects and seen_waiting(event):
            yield _mark("collateral", event, book, causal)
            continue
        yield _mark(_SOURCE_KINDS.get(kinds.get(event.source_id, ""), "initiating"), event, book, causal)
    ranks = _ranks_of_sources(aligned)
    for sample in latest(aligned.progress):
        if sample.last_span is not None:
            yield TimelineEntry(
                rank=ranks.get(sample.last_span.source) if sample.rank is None else sample.rank,
                time=sample.last_time.text or None if sample.last_time else None,
                kind="progress",
                text=_short(sample.last_text),
                evidence=_cited(sample.last_span, book),
            )
    for rank in attribution.suspects:
        yield TimelineEntry(rank=rank, kind="silent", text="no error of its own")
    seen: set[tuple[int | None, str | None]] = set()
    for explained in attribution.collateral:
        event = explained.event
        key = (event.place.rank, event.fault_class)
        if key not in seen:
            seen.add(key)
            yield _mark(_SOURCE_KINDS.get(kinds.get(event.source_id, ""), "collateral"), event, book, causal)
    for exit_ in aligned.exits:
        if exit_.by_launcher:
            yield TimelineEntry(
                rank=exit_.place.rank,
                host=exit_.place.host,
                time=_time(exit_.place),
                kind="stopped",
                text=_short(exit_.text),
                evidence=_cited(exit_.span, book),
            )


def _ranks_of_sources(aligned: Aligned) -> dict[str, int | None]:
    """The rank whose output a source is, by its path."""
    complete, place = aligned.rank_map.complete, aligned.rank_map.source_place
    return {report.source.path: complete(place(report)).rank for report in aligned.bundle.reports if report.progress}


def _mark(kind: Kind, event: Event, book: EvidenceBook, causal: CausalTable) -> TimelineEntry:
    what = words_of(event, causal)
    # The line that shows an end that nobody printed is about another rank.
    text = what if event.captures.get("inferred") else event.text
    return TimelineEntry(
        rank=event.place.rank,
        host=event.place.host,
        time=_time(event.place),
        kind=kind,
        what=what,
        text=_short(text),
        evidence=_cited(event.span, book),
    )


def _cited(span: SourceSpan, book: EvidenceBook) -> str | None:
    ids = book.cite((span,))
    return ids[0] if ids else None


def _time(place: Place) -> str | None:
    return place.time.text or None if place.time else None


def _short(text: str) -> str:
    line = text.strip().split("\n", 1)[0]
    return line if len(line) <= _MAX_TEXT else f"{line[: _MAX_TEXT - 1]}…"
