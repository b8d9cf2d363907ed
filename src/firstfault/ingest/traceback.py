"""Python tracebacks of a source, also when several ranks print at once: chained, quoted by launchers, cut, decorated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from firstfault.ingest import traceback_lines as lines_of
from firstfault.ingest.context import Context
from firstfault.ingest.lines import Line
from firstfault.ingest.record_time import with_record_times
from firstfault.ingest.traceback_blocks import Block, Chain, Link, Style
from firstfault.ingest.traceback_lines import begins_record, exception_of, indentation
from firstfault.model.event import Frame, Place, Traceback

MAX_TRACEBACKS = 2000
"""Of a source; beyond it the first and the last halves are kept."""
MAX_LINE_CHARS = 8192
MAX_ESCAPED_LINES = 400
MAX_NOISE = 30
"""Foreign lines between a header and its exception before the traceback is given up."""
MAX_BELOW_IGNORED = 3
"""Lines between `Exception ignored in` and the header that it speaks of: what it names may be printed over several lines."""

_GONE = "failed (exitcode: "

StreamKey = tuple[int | None, int | None, int | None, str | None]


def stream_key(place: Place) -> StreamKey:
    """What tells processes apart that print into one source."""
    return (place.rank, place.local_rank, place.pid, place.host)


def read_tracebacks(lines: Sequence[Line], ctx: Context) -> tuple[Traceback, ...]:
    """All tracebacks of the lines, in the order of their first exception lines."""
    streams: dict[StreamKey, _Stream] = {}
    bare = stream_key(ctx.place)
    last: _Stream | None = None
    adopting: _Stream | None = None
    for line in lines:
        if _GONE in line.text:
            for one in streams.values():
                one.end_message()
        key = stream_key(line.place)
        stream = streams.get(key)
        if stream is None:
            stream = streams[key] = _Stream(ctx)
        if last is not None and last is not stream and key == bare:
            # A logger prefixes the header only, and torch's excepthook leaves blank lines bare.
            if not line.text.strip():
                last.feed(line)
            elif last.waits_for_frames:
                adopting = last
        if key == bare and adopting is not None and adopting.is_open:
            stream = adopting
        stream.feed(line)
        last = stream
    found = [traceback for stream in streams.values() for traceback in stream.finish()]
    found.sort(key=lambda traceback: traceback.last.span.offset)
    if len(found) > MAX_TRACEBACKS:
        found = found[: MAX_TRACEBACKS // 2] + found[-MAX_TRACEBACKS // 2 :]
    return with_record_times(found, lines)


class _Stream:
    """The tracebacks of one process, built line by line."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._done: list[Traceback] = []
        self._chain = Chain()
        self._block: Block | None = None
        self._mode: Literal["idle", "frames", "message", "after", "listing"] = "idle"
        self._link: Link = "new"
        self._prefix = ""
        self._in_group = False
        self._group_depth = 0
        self._expected = False
        self._noise = 0
        self._pending = ""
        self._process: int | None = None
        self._reported: Place | None = None
        self._ignored = 0
        self._below_ignored = 0

    @property
    def is_open(self) -> bool:
        """True while frames or message lines may follow."""
        return self._mode in ("frames", "message") or self._link != "new"

    @property
    def waits_for_frames(self) -> bool:
        """True right behind a header."""
        return self._mode == "frames" and self._block is not None and not self._block.frames

    def end_message(self) -> None:
        """What the process printed next is no part of its message: its launcher saw it end."""
        if self._mode == "message":
            self._mode = "after"

    def finish(self) -> list[Traceback]:
        """The tracebacks read; a last one may be cut by the end of the source."""
        self._flush(at_end=self._mode == "frames" and not self._noise)
        return self._done

    def feed(self, line: Line) -> None:
        """Read one more line of this process."""
        text = line.text[:MAX_LINE_CHARS]
        self._count_ignored(text)
        if self._mode == "idle" and self._link == "new" and not lines_of.TRIGGER.search(text):
            return
        stripped = bool(self._prefix) and text.startswith(self._prefix)
        if stripped:
            text = text[len(self._prefix) :]
        if self._in_group:
            if self._group_rule(text, line):
                return
            margin = lines_of.GROUP_MARGIN.match(text)
            text = text[margin.end() :] if margin else text
        header = lines_of.HEADER.search(text)
        if header and (escaped := lines_of.ESCAPED.match(text, header.end())):
            self._read_escaped(escaped[0], line)
        elif header and lines_of.TAIL.match(text, header.end()):
            head = text[: header.start()]
            if not stripped:
                self._prefix = head if head.strip() else ""
            self._read_header(head, text[header.end() :], line)
        elif not text.strip():
            self._read_blank(line)
        elif lines_of.CHAIN.search(text):
            self._mode, self._link = ("after" if self._chain else "idle"), ("chain" if self._chain else "new")
        elif process := lines_of.PROCESS.search(text):
            self._mode, self._link, self._process = "after", "nested", int(process["process"])
        else:
            self._read_body(text, line)

    def _count_ignored(self, text: str) -> None:
        """Remember how many of the next tracebacks are announced as ignored; those of several processes may be interleaved."""
        if lines_of.IGNORED.search(text):
            self._ignored, self._below_ignored = self._ignored + 1, 0
        elif self._ignored:
            self._below_ignored += 1
            if self._below_ignored > MAX_BELOW_IGNORED:
                self._ignored = 0

    def _read_body(self, text: str, line: Line) -> None:
        self._read_report(text, line)
        if self._mode == "frames" and self._block is not None:
            if self._block.style == "box":
                self._read_box(text, line, self._block)
            elif self._block.style == "notebook":
                self._read_notebook(text, line, self._block)
            else:
                self._read_frames(text, line, self._block)
        elif self._mode == "message" and self._block is not None:
            self._read_message(text, line, self._block)
        else:
            self._read_outside(text, line)

    # --- beginnings

    def _read_header(self, head: str, tail: str, line: Line) -> None:
        place, link = line.place, self._link
        style: Style = "plain"
        if head.rstrip().endswith("Original"):
            link = "nested" if self._chain else "new"
            head = head.rstrip()[: -len("Original")]
        elif not head.strip():
            pass
        elif lines_of.GROUP_HEAD.match(head):
            self._in_group = True
        elif lines_of.REPORT_HEAD.match(head):
            place = self._reported or place
        elif lines_of.BOX_HEAD.search(head):
            style = "box"
        elif lines_of.NOTEBOOK_HEAD.match(head):
            style = "notebook"
        elif self._mode != "idle":
            self._read_body(head, line)
        if self._block is not None and self._block.member and self._mode == "frames" and not self._block.frames:
            self._block.header = True
        else:
            self._open(header=True, indent=indentation(head), style=style, place=place, link=link)
        if tail.strip() and style == "plain":
            self._read_body(tail, line)

    def _read_escaped(self, escaped: str, line: Line) -> None:
        """Read a whole traceback that a structured log keeps in one string."""
        self._open(header=True, indent=0, style="plain", place=line.place, link="new")
        for part in escaped.split("\\n")[:MAX_ESCAPED_LINES]:
            text = part.replace('\\"', '"')
            if text.strip():
                self._read_body(text, line)
            elif self._mode == "message":
                self._mode = "after"
        self._flush(at_end=False)

    def _open(self, *, header: bool, indent: int, style: Style, place: Place, link: Link, member: bool = False) -> Block:
        if self._process is not None and link == "nested":
            place = Place(local_rank=self._process, host=place.host, attempt=place.attempt, time=place.time)
            self._chain.place = place
        if link == "new":
            self._flush(at_end=False)
            if self._ignored:
                self._chain.ignored = True
                self._ignored, self._below_ignored = self._ignored - 1, 0
        self._process, self._link = None, "new"
        block = Block(header=header, indent=indent, style=style, place=place, member=member)
        self._chain.add(block, link)
        self._block, self._mode = block, "frames"
        self._expected, self._noise, self._pending = False, 0, ""
        return block

    def _flush(self, *, at_end: bool) -> None:
        traceback = self._chain.finish(self._ctx.source_id, at_end=at_end)
        if traceback is not None:
            self._done.append(traceback)
            if len(self._done) >= 2 * MAX_TRACEBACKS:
                # A loop that fails ten thousand times: its beginning and its end say all.
                del self._done[MAX_TRACEBACKS // 2 : -MAX_TRACEBACKS // 2]
        self._chain, self._block, self._mode = Chain(), None, "idle"

    def _group_rule(self, text: str, line: Line) -> bool:
        """Read the rules of an exception group; the bare one at the end closes it."""
        rule = lines_of.GROUP_RULE.match(text)
        if rule:
            self._mode = "after"
            self._group_depth += bool(rule["deeper"])
            if rule["member"]:
                link: Link = "nested" if rule["deeper"] and self._chain else "chain"
                self._open(header=False, indent=0, style="plain", place=line.place, link=link, member=True)
                self._expected = True
            else:
                self._group_depth -= 1
            self._in_group = self._group_depth > 0
        return rule is not None

    # --- inside

    def _read_frames(self, text: str, line: Line, block: Block) -> None:
        frames = list(lines_of.FRAME.finditer(text))
        if frames:
            lead = text[: frames[0].start()].strip(" >|")
            if lead:
                block.set_code(lead)
            block.indent = max(block.indent, indentation(text) - 2)
            for found in frames:
                frame = Frame(found["path"], int(found["line"]), found["function"] or "", "", self._ctx.span(line))
                block.add_frame(frame, _end(line))
            self._expected = True
        elif lines_of.CUT.match(text):
            block.cut = True
        elif lines_of.REPEATED.match(text) or lines_of.MARKS.match(text):
            self._expected = True
        elif block.frames and indentation(text) > block.indent + 1:
            block.set_code(text.strip())
            self._expected = True
        else:
            self._read_exception(text, line, block)

    def _read_exception(self, text: str, line: Line, block: Block) -> None:
        found = exception_of(text.strip(), expected=self._expected or block.style != "plain")
        if found:
            block.end(*found, self._ctx.span(line), _end(line))
            self._mode = "message"
            return
        self._expected = False
        self._noise += 1
        if self._noise > MAX_NOISE:
            self._mode = "after"
            if block.header:
                block.cut = True
            else:
                block.frames.clear()

    def _read_box(self, text: str, line: Line, block: Block) -> None:
        content_of = lines_of.BOX_LINE.match(text)
        if lines_of.BOX_END.match(text):
            self._expected = True
            return
        if not content_of:
            self._read_exception(text, line, block)
            return
        content = content_of["content"].rstrip()
        code = lines_of.BOX_CODE.match(content)
        if code:
            if code["mark"]:
                block.set_code(code["code"].strip())
        elif lines_of.CUT.match(content) and content.strip():
            block.cut = True
        elif not lines_of.BOX_LOCALS.match(content):
            # A long path is wrapped inside the box, so its place may need two lines.
            self._pending = (self._pending + content.strip())[-2048:] if content.strip() else ""
            found = lines_of.BOX_FRAME.match(self._pending)
            if found:
                frame = Frame(found["path"], int(found["line"]), found["function"], "", self._ctx.span(line))
                block.add_frame(frame, _end(line))
                self._pending = ""

    def _read_notebook(self, text: str, line: Line, block: Block) -> None:
        place = lines_of.NOTEBOOK_FRAME.match(text)
        code = lines_of.NOTEBOOK_CODE.match(text)
        if place:
            path = place["path"] or place["old_path"] or f"<cell {place['cell']}>"
            number = int(place["line"] or place["cell_line"] or 0)
            function = place["function"] or place["old_function"] or place["cell_function"] or "<module>"
            block.add_frame(Frame(path, number, function, "", self._ctx.span(line)), _end(line))
        elif code:
            if code["mark"] and block.frames:
                last = block.frames[-1]
                block.frames[-1] = Frame(last.path, int(code["line"]), last.function, code["code"].strip(), last.span)
        else:
            self._read_exception(text, line, block)

    def _read_message(self, text: str, line: Line, block: Block) -> None:
        timed = line.place.time is not None and block.place.time is None
        repeated = text.strip() == f"{block.type}: {block.message[0]}".strip()
        if lines_of.LISTING.search(text):
            self._mode = "listing"
        elif lines_of.FRAME.search(text):
            self._read_outside(text, line)
        elif timed or repeated or begins_record(text) or not block.add_message(text.rstrip(), _end(line)):
            self._mode = "after"

    # --- outside

    def _read_blank(self, line: Line) -> None:
        if self._mode == "message" and self._block is not None:
            if self._block.message_is_empty and len(self._block.message) < 3:
                self._block.add_message("", _end(line))
            else:
                self._mode = "after"
        elif self._mode == "listing":
            self._mode = "after"

    def _read_report(self, text: str, line: Line) -> None:
        """Remember whose failure a launcher's report describes."""
        host = lines_of.REPORT_HOST.match(text)
        rank = lines_of.REPORT_RANK.match(text)
        if host:
            self._reported = msgspec.structs.replace(line.place, host=host["host"], pid=None)
        elif rank:
            known = self._reported or line.place
            local = int(rank["local"]) if rank["local"] else None
            self._reported = msgspec.structs.replace(known, rank=int(rank["rank"]), local_rank=local, pid=None)

    def _read_outside(self, text: str, line: Line) -> None:
        self._noise += 1
        if self._noise > MAX_NOISE:
            self._link = "new"
        if lines_of.LISTING.search(text):
            self._mode = "listing"
        elif self._mode == "listing":
            if not lines_of.FRAME.search(text) and indentation(text) < 2:
                self._mode = "after" if self._chain else "idle"
        elif frame := lines_of.FRAME.search(text):
            indent = max(indentation(text[: frame.start()]) - 2, 0)
            block = self._open(header=False, indent=indent, style="plain", place=line.place, link=self._link)
            self._read_frames(text, line, block)
        elif self._mode == "idle" and lines_of.NOTEBOOK_FRAME.match(text):
            block = self._open(header=False, indent=0, style="notebook", place=line.place, link=self._link)
            self._read_notebook(text, line, block)


def _end(line: Line) -> int:
    return line.offset + len(line.raw.encode("utf-8", "surrogateescape")) + 1
