"""The lines that an answer rests on: each once, the deciding ones first, no more than a reader will look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.diagnosis import MAX_EVIDENCE, Evidence
from firstfault.model.event import Place
from firstfault.model.span import SourceSpan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from firstfault.engine.align import Aligned
    from firstfault.model.bundle import SourceReport
    from firstfault.model.event import Event, Frame

MAX_TEXT = 2000
_MAX_MESSAGE_LINES = 12
_Seen = tuple[str, Place, "str | None"]


class EvidenceBook:
    """Collects evidence. A line that does not fit any more is left out: `cite` then gives nothing for it."""

    def __init__(self, aligned: Aligned, limit: int = MAX_EVIDENCE) -> None:
        self._limit = limit
        self._texts = _texts(aligned)
        self._kept = [report for report in aligned.bundle.reports if report.text is not None]
        self._cited = {
            (report.source.path, line): text for report in aligned.bundle.reports for line, text in report.cited.items()
        }
        self._entries: dict[tuple[str, int, str], Evidence] = {}

    def cite(self, spans: Iterable[SourceSpan]) -> tuple[str, ...]:
        """The ids under which the lines are shown."""
        ids = (self._id(span) for span in spans)
        return tuple(dict.fromkeys(key for key in ids if key is not None))

    def entries(self) -> tuple[Evidence, ...]:
        """All evidence, in the order in which it was cited first."""
        return tuple(self._entries.values())

    def _id(self, span: SourceSpan) -> str | None:
        key = (span.source, span.line, span.part)
        found = self._entries.get(key)
        if found is not None:
            return found.id
        if len(self._entries) >= self._limit:
            return None
        text, place, signal = self._texts.get(key) or (self._line_of_text(span), Place(), None)
        made = Evidence(
            id=f"e{len(self._entries) + 1}",
            source=span.source,
            line=span.line,
            offset=span.offset,
            rank=place.rank,
            host=place.host,
            time=place.time.text or None if place.time else None,
            signal=signal,
            text=text[:MAX_TEXT],
            part=span.part or None,
        )
        self._entries[key] = made
        return made.id

    def _line_of_text(self, span: SourceSpan) -> str:
        """The line in a source whose whole text was kept, or to which a fact points."""
        for report in self._kept:
            index = span.line - report.source.first_line
            if report.source.path == span.source and report.text is not None and 0 <= index < report.source.lines:
                lines = report.text.split("\n", index + 1)
                return lines[index].rstrip("\r") if index < len(lines) else ""
        return self._cited.get((span.source, span.line), "")


def _texts(aligned: Aligned) -> dict[tuple[str, int, str], _Seen]:
    """Every line that was kept, by its place; what an event says of a line counts before all others."""
    texts: dict[tuple[str, int, str], _Seen] = {}

    def keep(span: SourceSpan | None, text: str, place: Place, signal: str | None = None) -> None:
        if span is not None and text:
            texts.setdefault((span.source, span.line, span.part), (text.strip("\n"), place, signal))

    for event in sorted(aligned.events, key=lambda event: event.role == "context"):
        keep(event.span, _with_message(event, aligned), event.place, event.signal or None)
    for exit_ in aligned.exits:
        keep(exit_.span, exit_.text, exit_.place)
    for traceback in aligned.tracebacks.values():
        for block in traceback.blocks:
            for frame in block.frames:
                keep(frame.span, frame_text(frame), traceback.place)
            message = block.message.strip().split("\n", 1)[0]
            keep(block.span, f"{block.type}: {message}" if message else block.type, traceback.place)
    for report in aligned.bundle.reports:
        for span, text in _of_dumps(report):
            keep(span, text, report.source.place)
        for setting in report.settings:
            keep(setting.span, setting.text, report.source.place)
        for frame, place in _frames_of_stacks(report):
            keep(frame.span, frame_text(frame), place)
        for line in (line for end in report.ends for line in (end, *end.work)):
            keep(SourceSpan(report.source.path, line.line, line.offset), line.text, line.place)
    for sample in aligned.progress:
        keep(sample.last_span, sample.last_text, Place(rank=sample.rank, attempt=sample.attempt, time=sample.last_time))
    return texts


def _of_dumps(report: SourceReport) -> Iterator[tuple[SourceSpan | None, str]]:
    """What is said of a dump that is cited as a whole."""
    for record in report.records:
        if record.origin == "dump":
            of = f" of {record.backend}" if record.backend else ""
            yield record.span, f"flight-recorder dump{of}, version {record.version or 'unknown'}"


def _frames_of_stacks(report: SourceReport) -> Iterator[tuple[Frame, Place]]:
    """The frames of the main threads of live processes."""
    for stack in report.stacks:
        for frame in stack.main.frames if stack.main is not None else ():
            yield frame, stack.place


def _with_message(event: Event, aligned: Aligned) -> str:
    """The event's line, and the further lines of its message if it is the end of a traceback."""
    traceback = aligned.traceback_of(event)
    for block in traceback.blocks if traceback else ():
        if block.span.line == event.span.line:
            rest = [line.rstrip() for line in block.message.split("\n")[1:_MAX_MESSAGE_LINES] if line.strip()]
            return "\n".join([event.text, *rest])
    return event.text


def frame_text(frame: Frame) -> str:
    """A frame as Python prints it: its File line, and its source line if that was printed."""
    line = f'File "{frame.path}", line {frame.line}, in {frame.function}'
    return f"{line}\n    {frame.code.strip()}" if frame.code.strip() else line
