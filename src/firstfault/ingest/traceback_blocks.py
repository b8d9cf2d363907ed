"""Building exceptions and their chains: one block under construction, and the order in which blocks make a traceback."""

from __future__ import annotations

from typing import Literal

from firstfault.ingest.traceback_lines import CAUGHT
from firstfault.model.event import ExceptionBlock, Frame, Place, Traceback
from firstfault.model.span import SourceSpan

MAX_FRAMES = 256
MAX_MESSAGE_LINES = 40
MAX_MESSAGE_CHARS = 8192
MAX_BLOCKS = 64

Link = Literal["new", "chain", "nested"]
"""How a block stands to the ones before it: unrelated, raised later, or quoted inside the last message (so raised earlier)."""
Style = Literal["plain", "box", "notebook"]


class Block:
    """One exception while its lines arrive."""

    def __init__(self, *, header: bool, indent: int, style: Style, place: Place, member: bool = False) -> None:
        self.header = header
        self.indent = indent
        self.style: Style = style
        self.place = place
        self.member = member
        self.frames: list[Frame] = []
        self.dropped_frames = 0
        self.type = ""
        self.message: list[str] = []
        self.span: SourceSpan | None = None
        self.end_offset = 0
        self.cut = False

    def add_frame(self, frame: Frame, end_offset: int) -> None:
        """Keep the frame: the outermost and the innermost ones if there are too many."""
        self.frames.append(frame)
        self.end_offset = end_offset
        if len(self.frames) > MAX_FRAMES:
            del self.frames[MAX_FRAMES // 4]
            self.dropped_frames += 1

    def set_code(self, code: str) -> None:
        """The source text of the last frame, unless it has one."""
        if self.frames and not self.frames[-1].code:
            last = self.frames[-1]
            self.frames[-1] = Frame(last.path, last.line, last.function, code[:1000], last.span)

    def end(self, type_: str, message: str, span: SourceSpan, end_offset: int) -> None:
        """The exception line was read."""
        self.type = type_
        self.message = [message]
        self.span = span
        self.end_offset = end_offset

    def add_message(self, text: str, end_offset: int) -> bool:
        """Keep a further line of the message; False if the bound is reached."""
        if len(self.message) >= MAX_MESSAGE_LINES or sum(map(len, self.message)) > MAX_MESSAGE_CHARS:
            return False
        self.message.append(text)
        self.end_offset = end_offset
        return True

    @property
    def message_is_empty(self) -> bool:
        """True while nothing but the type was printed."""
        return not any(part.strip() for part in self.message)

    @property
    def caught(self) -> str | None:
        """The type named by `Caught X in ...`: the exception that was raised again here."""
        found = CAUGHT.match(self.message[0]) if self.message else None
        return found["type"] if found else None

    def finish(self, *, at_end: bool) -> ExceptionBlock | None:
        """The block, or None if it shows no exception (a stack listing, or too little of it)."""
        if not self.type and not (self.frames and (self.header or (self.style == "plain" and (self.cut or at_end)))):
            return None
        span = self.span or self.frames[-1].span
        syntax = self.type in {"SyntaxError", "IndentationError", "TabError"} and len(self.frames) == 1
        complete = self.member or syntax or (self.header and bool(self.frames))
        return ExceptionBlock(
            type=self.type,
            message="\n".join(self.message).strip("\n")[:MAX_MESSAGE_CHARS],
            frames=tuple(self.frames),
            span=span,
            end_offset=self.end_offset,
            whole=bool(self.type) and complete and not self.cut and not self.dropped_frames,
        )


class Chain:
    """Blocks in printed order, nested where one is quoted inside another's message."""

    def __init__(self) -> None:
        self._levels: list[list[Block]] = []
        self._size = 0
        self.place: Place | None = None
        """Set where a launcher's report says whose exception it quotes."""
        self.ignored = False
        """Set where the line above says that nobody gets to see the exception."""

    def __bool__(self) -> bool:
        return bool(self._levels)

    def add(self, block: Block, link: Link) -> None:
        """Put the block where its link says; blocks beyond the bound are left out."""
        self._size += 1
        if self._size > MAX_BLOCKS:
            return
        if not self._levels:
            self._levels = [[block]]
        elif link == "nested":
            self._levels.append([block])
        else:
            self._close_quoted()
            self._levels[-1].append(block)

    def _close_quoted(self) -> None:
        """`Caught X in ...` quotes exceptions up to X: what follows X belongs to the outer chain."""
        if len(self._levels) < 2:
            return
        inner, outer = self._levels[-1], self._levels[-2]
        if outer[-1].caught is not None and outer[-1].caught == inner[-1].type.rpartition(".")[2]:
            self._levels[-2:] = [[*inner, *outer]]

    def finish(self, source_id: str, *, at_end: bool) -> Traceback | None:
        """The traceback, oldest exception first, or None if no block shows one."""
        ordered = [block for level in reversed(self._levels) for block in level]
        finished = [(block, block.finish(at_end=at_end)) for block in ordered]
        blocks = tuple(done for _, done in finished if done is not None)
        if not blocks:
            return None
        place = self.place or next(block.place for block, done in finished if done is not None)
        return Traceback(blocks=blocks, place=place, source_id=source_id, ignored=self.ignored)
