"""What one scan of a byte stream gives."""

from __future__ import annotations

import msgspec

from firstfault.knowledge.schema import Signal
from firstfault.model.event import CaptureValue


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    r"""A signal confirmed in the stream.

    `text` is the line (ANSI stripped, invalid UTF-8 replaced, at most 8,192 bytes of it; a `\r` ends it); `offset` is the byte
    at which that text begins and `line` its number, from 1. `start` is the character of `text` at which the match begins: two
    messages glued together on one line are two hits with one text. `tail` is the text below the line, kept for signals that
    read on.
    """

    signal: Signal
    offset: int
    line: int
    text: str
    start: int = 0
    captures: dict[str, CaptureValue] = {}
    tail: str = ""


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """Raw bytes kept around what matters; `line` is the number of the line in which the window begins."""

    offset: int
    line: int
    data: bytes


class ProgressSample(msgspec.Struct, frozen=True, kw_only=True):
    """A series of progress lines of one rank key, those of one signal with one total: the first that was read, and the last.

    `count` is of occurrences of progress literals of that rank key, all series together. It is complete in a stream in which
    several ranks print the same lines; in any other most are passed by, and it is a lower bound.
    """

    key: int | None
    count: int
    first: Hit
    last: Hit


class ScanResult(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is kept of a stream.

    `hits` and `windows` are sorted by offset and bounded: what had to go is counted in `dropped_hits` and
    `dropped_window_bytes`. A message repeated thousands of times is not even read each time; then `dropped_hits` counts the
    occurrences of its literal. `invalid_utf8` counts the sequences that are no UTF-8.
    """

    hits: tuple[Hit, ...] = ()
    progress: tuple[ProgressSample, ...] = ()
    windows: tuple[Window, ...] = ()
    size_bytes: int = 0
    lines: int = 0
    invalid_utf8: int = 0
    nul_bytes: int = 0
    dropped_hits: int = 0
    dropped_window_bytes: int = 0
    ends_with_newline: bool = False
