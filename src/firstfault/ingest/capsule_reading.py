"""A capsule as a bundle: what was kept of the sources, read as if the sources were there."""

from __future__ import annotations

import io
import time
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from firstfault.errors import UnreadableInputError
from firstfault.ingest.bundle import bundle_of_handed
from firstfault.ingest.capsule import Capsule, CapsuleLine, CapsuleSource
from firstfault.ingest.filename import places_of
from firstfault.ingest.handed import Handed
from firstfault.ingest.open import open_handed
from firstfault.ingest.read import read_scanned
from firstfault.ingest.redact import without_marks
from firstfault.ingest.sniff import sniff
from firstfault.knowledge.schema import Pack
from firstfault.model.bundle import Bundle, Note, SourceReport
from firstfault.model.event import Place
from firstfault.scan.result import Hit, ScanResult, Window
from firstfault.scan.scanner import Scanner

Offsets = Mapping[tuple[str, int], int]
"""The byte offset of a line, by the path of its source and its number."""


def bundle_of(capsule: Capsule, pack: Pack) -> Bundle:
    """The sources of a capsule, ready for the engine; UnreadableInputError if there is nothing to read."""
    begin = time.perf_counter()
    notes = [Note("", text) for text in capsule.notes]
    read = [source for source in capsule.sources if source.stretches]
    placed = list(zip(read, places_of([source.path for source in read]), strict=True))
    whole = [_handed(source, place) for source, place in placed if source.whole]
    reports: list[SourceReport] = []
    if whole:
        found = bundle_of_handed(whole, [], pack, begin)
        reports += found.reports
        notes += found.notes
    scanner = Scanner(pack.signals)
    for source, place in placed:
        if not source.whole:
            reports += _read_excerpt(source, place, scanner, pack)
    if not reports:
        raise UnreadableInputError("the capsule holds no lines", hint="hand over a log, a configuration or a launch command")
    order = {source.path: number for number, source in enumerate(capsule.sources)}
    reports.sort(key=lambda report: order.get(report.source.path, len(order)))
    return Bundle(reports=tuple(reports), notes=tuple(notes), elapsed_s=time.perf_counter() - begin)


def offsets_of(capsule: Capsule) -> Offsets:
    """Where the lines stand in the sources: text that was masked is longer or shorter than what it stands for."""
    offsets: dict[tuple[str, int], int] = {}
    for source in capsule.sources:
        for stretch in source.stretches:
            for line in stretch:
                offsets.setdefault((source.path, line.number), line.offset)
    return offsets


def _handed(source: CapsuleSource, place: Place) -> Handed:
    data = _data(source.stretches[0]) + (b"\n" if source.ended else b"")
    return Handed(path=source.path, data=data, size_bytes=len(data), place=place)


def _data(stretch: Sequence[CapsuleLine]) -> bytes:
    parts: list[str] = []
    for before, line in zip((None, *stretch), stretch, strict=False):
        if before is not None:
            parts.append("\r" if line.number == before.number else "\n")
        # Readers of prefixes know hosts and pods by the form of their names.
        parts.append(without_marks(line.text))
    return "".join(parts).encode("utf-8", "replace")


def _read_excerpt(source: CapsuleSource, place: Place, scanner: Scanner, pack: Pack) -> list[SourceReport]:
    windows: list[Window] = []
    hits: list[Hit] = []
    for stretch in source.stretches:
        if not stretch:
            continue
        # Masked text may be longer than what it stands for: windows must not overlap for that.
        at = max(stretch[0].offset, windows[-1].offset + len(windows[-1].data) if windows else 0)
        is_end = source.ended and stretch[-1].number == source.lines
        window = Window(offset=at, line=stretch[0].number, data=_data(stretch) + (b"\n" if is_end else b""))
        windows.append(window)
        found = scanner.scan(io.BytesIO(window.data))
        hits += [replace(hit, offset=hit.offset + window.offset, line=hit.line + window.line - 1) for hit in found.hits]
    last = windows[-1]
    scan = ScanResult(
        hits=tuple(hits),
        progress=(),
        windows=tuple(windows),
        size_bytes=max(source.bytes, last.offset + len(last.data)),
        lines=source.lines,
        invalid_utf8=0,
        nul_bytes=0,
        dropped_hits=0,
        ends_with_newline=source.ended,
    )
    handed = Handed(path=source.path, data=windows[0].data, size_bytes=source.bytes, place=place)
    with open_handed(handed) as opened:
        return read_scanned(handed, opened, scan, pack, sniff(source.path, opened.head))
