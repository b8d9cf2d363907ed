"""One input to its sources: scanned once, split if it is a paste, each part read for what its kind can hold."""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence

from msgspec.structs import replace

from firstfault.ingest.appended import ends_with_a_fall
from firstfault.ingest.context import Context
from firstfault.ingest.coverage import coverage_of
from firstfault.ingest.echo import echo_offsets
from firstfault.ingest.events import events_of
from firstfault.ingest.handed import Handed
from firstfault.ingest.label import rank_reader
from firstfault.ingest.last_lines import ends_of
from firstfault.ingest.line_template import LineTemplate
from firstfault.ingest.lines import Line
from firstfault.ingest.open import Opened, open_handed
from firstfault.ingest.part import ECHO_KINDS, Part
from firstfault.ingest.paste import is_log_name, split
from firstfault.ingest.prefix import Label, parse_prefix
from firstfault.ingest.progress import progress_of
from firstfault.ingest.quotation import alone_of, doubtful_lines, is_marked, is_repeated, without_rivals
from firstfault.ingest.ray import ranks_of_processes, with_rank_of_process
from firstfault.ingest.reading import Reading
from firstfault.ingest.sniff import sniff
from firstfault.ingest.stretch import agreed_place, label_of, lines_of, ranks_by_local, with_rank
from firstfault.ingest.structure import Structure, read_structure
from firstfault.ingest.told import told_facts
from firstfault.knowledge.schema import Pack
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.bundle import Coverage, Note, Source, SourceKind, SourceReport
from firstfault.model.event import Place
from firstfault.model.fact import Fact
from firstfault.scan.result import Hit, ProgressSample, ScanResult, Window
from firstfault.scan.scanner import Scanner

KEPT_TEXT_BYTES = 64 << 10
"""A configuration or command up to this size is kept as text, so that a fix can edit it."""
MAX_CITED = 3
"""Of the places that show a fact, so many are cited."""
_STARTS_INSIDE = lazy_pattern(rb"\s*(?:\[rank\d+\]: +)?(?:File \"[^\"\n]+\", line \d|\.\.\.|\xe2\x80\xa6|\[\.\.\.)")
_SHOWS_TAIL = lazy_pattern(rb"(?:^|[|;&$] *)tail\b", needs=b"tail")
_QUIET_KINDS = frozenset({"environment", "nvidia_smi"})


def read_source(handed: Handed, pack: Pack, scanner: Scanner, template: LineTemplate | None = None) -> list[SourceReport]:
    """The sources that one input holds. Never raises for what stands in it: what cannot be read is a note.

    `template` is the prefix that torchrun was told to put before the lines of its workers.
    """
    try:
        opened = open_handed(handed)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return [_unread(handed, "unknown", f"cannot be read: {reason}")]
    with opened:
        kind = sniff(handed.path, opened.head)
        if kind in ("empty", "binary"):
            return [_without_text(handed, opened, kind)]
        if kind == "flight_recorder":
            from firstfault.ingest.flight_recorder import read_flight_recorder

            return [read_flight_recorder(handed, opened)]
        if kind == "memory_snapshot":
            from firstfault.ingest.memory_snapshot import read_memory_snapshot

            return [read_memory_snapshot(handed, opened)]
        if kind == "error_file":
            return [_read_error_file(handed, opened, pack, scanner)]
        try:
            rank_of = rank_reader(label_of([Window(offset=0, line=1, data=opened.head)], template))
            scan = scanner.scan(opened, rank_of=rank_of)  # type: ignore[arg-type]  # a raw stream reads like a binary one
        except OSError as error:
            return [_unread(handed, kind, f"cannot be read: {error.strerror or error}")]
    if scan.nul_bytes and scan.nul_bytes == scan.size_bytes:
        return [_unread(handed, "empty", "holds nothing but zeros")]
    return read_scanned(handed, opened, scan, pack, kind, template)


def read_scanned(
    handed: Handed, opened: Opened, scan: ScanResult, pack: Pack, kind: SourceKind, template: LineTemplate | None = None
) -> list[SourceReport]:
    """The sources of a text of which all that matters was kept."""
    return _Input(handed, opened, scan, pack, template).reports(kind)


def _unread(handed: Handed, kind: SourceKind, what: str) -> SourceReport:
    source = Source(id=handed.path, path=handed.path, kind=kind, place=handed.place, size_bytes=handed.size_bytes)
    return SourceReport(source=source, notes=(Note(handed.path, what, fatal=True),))


def _without_text(handed: Handed, opened: Opened, kind: SourceKind) -> SourceReport:
    if any(note.fatal for note in opened.notes):
        return replace(_unread(handed, kind, ""), notes=tuple(opened.notes))
    return _unread(handed, kind, "is empty" if kind == "empty" else "is not text: not read")


class _Input:
    """One scanned input, on its way to reports."""

    def __init__(self, handed: Handed, opened: Opened, scan: ScanResult, pack: Pack, template: LineTemplate | None) -> None:
        self._handed = handed
        self._opened = opened
        self._scan = scan
        self._pack = pack
        self._template = template
        self._is_post = self._is_spoken = False
        self._place, self._place_note = agreed_place(handed.path, handed.place, scan.windows)

    def reports(self, kind: SourceKind) -> list[SourceReport]:
        """A report for each part; the notes on the whole stand in the first one."""
        windows = self._scan.windows
        whole = len(windows) == 1 and len(windows[0].data) == self._scan.size_bytes
        if whole:
            data = windows[0].data
            parts: Sequence[Part] = split(data, self._handed.path, emitted=self._emitted())
        else:
            data = b""
            parts = (Part(kind=kind, start=0, stop=self._scan.size_bytes, echo=kind in ECHO_KINDS),)
        self._is_spoken = any(part.kind == "prose" for part in parts)
        self._is_post = self._is_spoken or (whole and not is_log_name(self._handed.path) and self._says_more(data))
        reports = [self._report(part, index, len(parts), data) for index, part in enumerate(parts)]
        reports = without_rivals(_without_beginnings(reports, data))
        reports[0] = replace(reports[0], notes=(*self._notes(), *reports[0].notes))
        return reports

    def _says_more(self, data: bytes) -> bool:
        """True if anything stands beside the known messages: a file of nothing else holds what was printed."""
        return sum(1 for row in data.splitlines() if row.strip()) > len({hit.line for hit in self._scan.hits})

    def _emitted(self) -> frozenset[int]:
        """Offsets of the lines that begin with a known message: a program printed them, whatever stands around."""
        return frozenset(
            hit.offset
            for hit in self._scan.hits
            if hit.start <= parse_prefix(hit.text).rest_start and hit.signal.role != "context"
        )

    def _notes(self) -> list[Note]:
        path, scan = self._handed.path, self._scan
        notes = list(self._opened.notes)
        if scan.invalid_utf8:
            notes.append(Note(path, f"{scan.invalid_utf8} places are not UTF-8: replaced"))
        if scan.nul_bytes:
            notes.append(Note(path, f"{scan.nul_bytes} NUL bytes: ignored"))
        if self._place_note:
            notes.append(self._place_note)
        if scan.dropped_hits:
            notes.append(Note(path, f"{scan.dropped_hits} further matches of known messages were counted, not kept"))
        return notes

    def _report(self, part: Part, index: int, count: int, data: bytes) -> SourceReport:
        source = self._source(part, index, count, data)
        label = self._label(part)
        stretches = self._stretches(part, label)
        if processes := ranks_of_processes(line for stretch in stretches for line in stretch):
            stretches = [[_placed(line, with_rank_of_process(line.place, processes)) for line in one] for one in stretches]
        if ranks := ranks_by_local(line for stretch in stretches for line in stretch):
            source = replace(source, place=with_rank(source.place, ranks))
            stretches = [[_placed(line, with_rank(line.place, ranks)) for line in stretch] for stretch in stretches]
        ctx = Context(source=source)
        text = self._text(part, data)
        structure = _shown_as(part.name, read_structure(stretches, text or "", ctx))
        if structure.stacks and part.start:
            structure = _below_title(structure, data[: part.start])
        lines = [line for stretch in stretches for line in stretch]
        hits = [hit for hit in self._scan.hits if part.start <= hit.offset < part.stop]
        report = self._judged(ctx, lines, hits, structure, part, label)
        notes = list(structure.notes)
        if label == "node":
            notes.append(
                Note(source.path, "the number before each line is taken for a node: the text behind it names the ranks")
            )
        if part.echo and part.stop - part.start > len(data):
            notes.append(Note(source.path, "is too large for a configuration or a command: not read"))
        kept = text if part.stop - part.start <= KEPT_TEXT_BYTES and self._is_as_it_lies() else None
        return replace(report, text=kept, notes=tuple(notes))

    def _label(self, part: Part) -> Label:
        # Lines behind a prefix that only the template explains may look like no log.
        is_log = part.kind == "log" or (part.kind == "unknown" and self._template is not None)
        return label_of(self._scan.windows, self._template) if is_log else "none"

    def _judged(
        self, ctx: Context, lines: list[Line], hits: Sequence[Hit], structure: Structure, part: Part, label: Label
    ) -> SourceReport:
        allowed = _allowed(hits, part, post=self._is_post)
        told_at = {span.line for made in structure.facts for span in made.spans} | {one.span.line for one in structure.exits}
        doubtful = doubtful_lines(told_at, lines, spoken=self._is_spoken) if part.kind in ("log", "unknown") else frozenset()
        reading = Reading(
            ctx=ctx,
            label=label,
            lines=lines,
            tracebacks=structure.tracebacks,
            echoes=echo_offsets(lines),
            told=part.kind == "prose",
            alone=alone_of(allowed, lines, spoken=self._is_spoken) if self._is_post else frozenset(),
        )
        events, facts = events_of(allowed, reading, self._pack.causal)
        samples = [sample for sample in self._scan.progress if _is_in(sample, part)] if part.kind in ("log", "unknown") else []
        progress = progress_of(samples, reading)
        told = told_facts(lines, ctx) if part.kind == "prose" else ()
        stated = (*_as_told(structure.facts, part, doubtful), *facts, *told)
        ranks = {line.place.rank for line in lines} | {event.place.rank for event in events} | {one.rank for one in progress}
        return SourceReport(
            source=ctx.source,
            events=events,
            tracebacks=structure.tracebacks,
            exits=tuple(one for one in structure.exits if one.span.line not in doubtful),
            progress=progress,
            settings=structure.settings,
            stacks=structure.stacks,
            ras=structure.ras,
            facts=stated,
            cited=_cited(stated, lines),
            appended_after=ends_with_a_fall(events, samples, lines),
            ends=ends_of(lines, events, structure.tracebacks) if part.kind in ("log", "unknown") else (),
            ranks=tuple(sorted(rank for rank in ranks if rank is not None)),
            covers=self._coverage(lines, ctx, part),
        )

    def _coverage(self, lines: Sequence[Line], ctx: Context, part: Part) -> Coverage | None:
        # What was pasted is an excerpt, and a large log is kept in windows only.
        whole = part.start == 0 and part.stop == self._scan.size_bytes and len(self._scan.windows) == 1
        return coverage_of(lines, ctx) if part.kind == "kernel" and whole and self._opened.whole else None

    def _source(self, part: Part, index: int, count: int, data: bytes) -> Source:
        handed = self._handed
        return Source(
            id=handed.path if count == 1 else f"{handed.path}#{index + 1}",
            path=handed.path,
            kind=part.kind,
            place=self._place,
            size_bytes=part.stop - part.start,
            lines=self._scan.lines if count == 1 else len(data[part.start : part.stop].splitlines()),
            first_line=1 + data.count(b"\n", 0, part.start),
            first_offset=part.start,
            ends=part.stop < self._scan.size_bytes or self._is_ended(),
        )

    def _is_ended(self) -> bool:
        """A file that stops in the middle of a line was cut or is still written; pasted text seldom ends with a newline."""
        return self._opened.whole and (self._scan.ends_with_newline or self._handed.location is None)

    def _stretches(self, part: Part, label: Label) -> list[list[Line]]:
        stretches = []
        for window in self._scan.windows:
            chosen = _cut(window, part.start, part.stop)
            if chosen is not None:
                stretches.append(lines_of(chosen, self._place, label))
        return stretches

    def _is_as_it_lies(self) -> bool:
        """False if the file holds other bytes than were read: no change of the text would fit it."""
        return not self._opened.converted and not self._scan.invalid_utf8 and not self._scan.nul_bytes

    def _text(self, part: Part, data: bytes) -> str | None:
        if not part.echo and part.kind not in _QUIET_KINDS:
            return None
        return data[part.start : part.stop].decode("utf-8", errors="replace").removeprefix("\ufeff")


def _read_error_file(handed: Handed, opened: Opened, pack: Pack, scanner: Scanner) -> SourceReport:
    """A worker's error file: its text stands escaped in JSON and is scanned as the lines it means."""
    from firstfault.ingest.elastic import MAX_ERROR_FILE_BYTES, read_error_file

    data = opened.read(MAX_ERROR_FILE_BYTES + 1) or b""
    source = Source(
        id=handed.path,
        path=handed.path,
        kind="error_file",
        place=handed.place,
        size_bytes=len(data),
        lines=data.count(b"\n") + (not data.endswith(b"\n")),
        ends=opened.whole,
    )
    file = read_error_file(data, Context(source=source))
    ctx = Context(source=replace(source, place=file.place))
    scan = scanner.scan(io.BytesIO("\n".join(line.text for line in file.lines).encode("utf-8", "replace")))
    lines = file.lines
    hits = [
        replace(hit, offset=lines[hit.line - 1].offset, line=lines[hit.line - 1].number)
        for hit in scan.hits
        if hit.line <= len(lines)
    ]
    reading = Reading(ctx=ctx, lines=lines, tracebacks=file.tracebacks, echoes=echo_offsets(lines))
    events, facts = events_of(hits, reading, pack.causal)
    return SourceReport(
        source=ctx.source,
        events=events,
        tracebacks=file.tracebacks,
        facts=facts,
        ranks=() if file.place.rank is None else (file.place.rank,),
        notes=(*opened.notes, *file.notes),
    )


def _without_beginnings(reports: list[SourceReport], data: bytes) -> list[SourceReport]:
    """The reports, with `begins` false for output that starts in the middle: behind `tail`, or with a cut traceback."""
    for index, report in enumerate(reports):
        source = report.source
        start = source.first_offset
        command = reports[index - 1].source if index and source.kind == "log" else None
        typed = data[command.first_offset : start] if command is not None and command.kind == "command" else b""
        if source.kind in ("log", "unknown") and (_STARTS_INSIDE.match(data, start) or _SHOWS_TAIL.search(typed)):
            reports[index] = replace(report, source=replace(source, begins=False))
    return reports


def _placed(line: Line, place: Place) -> Line:
    return line if place is line.place else replace(line, place=place)


def _below_title(structure: Structure, above: bytes) -> Structure:
    from firstfault.ingest.stacks import titled

    return replace(structure, stacks=titled(structure.stacks, above[-1_000:].decode("utf-8", errors="replace")))


def _shown_as(name: str, structure: Structure) -> Structure:
    """The same with the name of the file whose content was printed, as a setting beside those of the file."""
    if not name or not structure.settings:
        return structure
    first = structure.settings[0]
    return replace(structure, settings=(*structure.settings, replace(first, family="file", key="name", value=name)))


def _allowed(hits: Sequence[Hit], part: Part, *, post: bool) -> list[Hit]:
    """Hits that can be events there: none in configurations, commands and code, only context in tables of the machine."""
    if part.echo:
        return []
    if part.kind in _QUIET_KINDS:
        return [hit for hit in hits if hit.signal.role == "context"]
    # Prose repeats whatever it says: its facts are told, its events never start a failure.
    if part.kind == "prose":
        return list(hits)
    return [hit for hit in hits if not is_repeated(hit) and not (post and is_marked(hit))]


def _as_told(facts: Sequence[Fact], part: Part, doubtful: Collection[int]) -> list[Fact]:
    """Facts of prose, and those that only lines show which may be quotations, are told."""

    def is_told(fact: Fact) -> bool:
        return part.kind == "prose" or (bool(fact.spans) and all(span.line in doubtful for span in fact.spans))

    return [replace(fact, basis="told") if is_told(fact) else fact for fact in facts]


def _cited(facts: Sequence[Fact], lines: Sequence[Line]) -> dict[int, str]:
    """The lines to which the facts point, by number: what is shown as their evidence."""
    numbers = {span.line for fact in facts for span in fact.spans[:MAX_CITED]}
    return {line.number: line.raw for line in lines if line.number in numbers} if numbers else {}


def _is_in(sample: ProgressSample, part: Part) -> bool:
    last = sample.last or sample.first
    return last is not None and part.start <= last.offset < part.stop


def _cut(window: Window, start: int, stop: int) -> Window | None:
    """The part of a window between two offsets."""
    first, last = max(window.offset, start), min(window.offset + len(window.data), stop)
    if first >= last:
        return None
    if first == window.offset and last == window.offset + len(window.data):
        return window
    skipped = window.data[: first - window.offset]
    return Window(offset=first, line=window.line + skipped.count(b"\n"), data=window.data[len(skipped) : last - window.offset])
