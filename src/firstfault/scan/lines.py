"""Text of raw log bytes: what a person would see of a line, and the lines of a window."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.lazy_pattern import lazy_pattern
from firstfault.scan.result import Window

_ANSI = lazy_pattern(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # colours and cursor movement
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)"  # window titles and hyperlinks
    r"|[@-Z\\-_])"
)
_LINE = lazy_pattern(rb"[^\r\n]*[\r\n]?")


def strip_ansi(text: str) -> str:
    """The text without terminal control sequences and without NUL characters."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return text.replace("\0", "") if "\0" in text else text


def decode_line(data: bytes | bytearray) -> str:
    """What a person would read: invalid UTF-8 becomes U+FFFD, control sequences and NULs are gone."""
    return strip_ansi(data.decode("utf-8", "replace"))


def iter_lines(window: Window) -> Iterator[tuple[int, int, bytes]]:
    r"""Absolute offset, line number and bytes of each line segment of a window, without its terminator.

    A `\r` ends a segment (a progress bar draws over it) but not a line: what follows has the same number. Of `\r\n` only the
    `\n` counts.
    """
    line = window.line
    for found in _LINE.finditer(window.data):
        segment = found[0]
        if segment.endswith(b"\n"):
            if segment != b"\n" or found.start() == 0 or window.data[found.start() - 1 : found.start()] != b"\r":
                yield window.offset + found.start(), line, segment[:-1]
            line += 1
        elif segment.endswith(b"\r"):
            yield window.offset + found.start(), line, segment[:-1]
        elif segment:
            yield window.offset + found.start(), line, segment
