"""Which lines of a source may leave the machine: small sources whole; of large ones what a diagnosis reads.

The browser follows the same rules (`server/web/static/js/scan/excerpt.js`): what is said here is the contract of both.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from firstfault.scan.lines import decode_line, iter_lines
from firstfault.scan.result import Hit, ScanResult

WHOLE_BYTES = 256 << 10
"""A source of at most so many bytes is kept whole, fewer where many sources are handed over: see `whole_limit`."""
SMALLEST_WHOLE_BYTES = 8 << 10
ALL_WHOLE_BYTES = 4 << 20
EDGE_LINES = 200
"""First and last lines of a large source, fewer where many sources are handed over: see `edge_lines`."""
FEWEST_EDGE_LINES = 20
ALL_EDGE_LINES = 3_200
EDGE_BYTES = 32 << 10
LINES_AROUND = 60
BYTES_AROUND = 16 << 10
"""Around a message that can start a failure, and around the head of a traceback: whichever is reached first."""
LINES_BEFORE_OTHERS, LINES_AFTER_OTHERS = 2, 4
SIGHTINGS = 40
"""Of one message the first and the last so many sightings count."""
MAX_LINE_BYTES = 8_192
HEAD_OF_TRACEBACK = b"Traceback (most recent call last)"
_Item = TypeVar("_Item")
_STARTING = frozenset({"initiating", "either"})


class KeptLine(msgspec.Struct, frozen=True):
    r"""A line as a person would see it: its number from 1, and its byte offset. Parts that a `\r` ends have one number."""

    number: int
    offset: int
    text: str


Stretch = tuple[KeptLine, ...]
"""Lines that follow each other in the source."""


def whole_limit(sources: int) -> int:
    """Up to how many bytes a source is kept whole if so many are handed over."""
    return min(WHOLE_BYTES, max(SMALLEST_WHOLE_BYTES, ALL_WHOLE_BYTES // max(sources, 1)))


def edge_lines(sources: int) -> int:
    """How many first and last lines of a large source are kept if so many sources are handed over."""
    return min(EDGE_LINES, max(FEWEST_EDGE_LINES, ALL_EDGE_LINES // max(sources, 1)))


def is_text(head: bytes) -> bool:
    """False for dumps, archives and other files that are no text, by their first 64 KiB."""
    if head[:1] == b"\x80" or head[:4] == b"PK\x03\x04":
        return False
    odd = sum(head.count(byte) for byte in range(32) if byte not in b"\t\n\r\x1b\x08\x0c\x07\x00")
    return odd * 20 <= len(head)


def stretches(scan: ScanResult, *, whole_bytes: int, edge: int) -> tuple[Stretch, ...]:
    """The lines of a scanned source that are kept, in order; all of them if it has at most `whole_bytes`."""
    is_whole = scan.size_bytes <= whole_bytes
    cut = whole_bytes if is_whole else MAX_LINE_BYTES
    lines = [line for window in scan.windows for line in _lines(iter_lines(window), cut)]
    if is_whole:
        return (tuple(line for line, _ in lines),) if lines else ()
    chosen = _chosen(scan, lines, edge)
    loose = [KeptLine(hit.line, hit.offset, hit.text) for hit in _counting(scan.hits) if not _is_held(hit, lines)]
    kept = sorted({*(lines[index][0] for index in chosen), *loose}, key=lambda line: (line.offset, line.number))
    follows = {lines[index][0].offset for index in chosen if index - 1 in chosen and _is_next(lines, index)}
    made: list[list[KeptLine]] = []
    for line in kept:
        if made and line.offset in follows:
            made[-1].append(line)
        else:
            made.append([line])
    return tuple(tuple(stretch) for stretch in made)


_Measured = tuple[KeptLine, int]
"""A line, and its length in bytes in the source."""


def _lines(found: Iterable[tuple[int, int, bytes]], cut: int) -> Iterator[_Measured]:
    for offset, number, data in found:
        yield KeptLine(number, offset, decode_line(data[:cut])), len(data)


def _chosen(scan: ScanResult, lines: list[_Measured], edge: int) -> set[int]:
    """The indices of the lines that are kept."""
    offsets = [line.offset for line, _ in lines]
    chosen = set(_reach(lines, 0, 0, edge - 1, EDGE_BYTES)) if lines else set()
    if lines:
        chosen |= set(_reach(lines, len(lines) - 1, edge - 1, 0, EDGE_BYTES))
    for hit in _counting(scan.hits):
        index = bisect_left(offsets, hit.offset)
        if index < len(lines) and offsets[index] == hit.offset:
            starting = hit.signal.role in _STARTING
            before = LINES_AROUND if starting else LINES_BEFORE_OTHERS
            after = LINES_AROUND if starting else LINES_AFTER_OTHERS
            chosen |= set(_reach(lines, index, before, after, BYTES_AROUND))
    heads = [index for index, (line, _) in enumerate(lines) if HEAD_OF_TRACEBACK.decode() in line.text]
    for index in _outermost(heads):
        chosen |= set(_reach(lines, index, LINES_AROUND, LINES_AROUND, BYTES_AROUND))
    return chosen


def _reach(lines: list[_Measured], index: int, before: int, after: int, size_bytes: int) -> range:
    """The lines around one of them, as far as they follow each other and as the bytes on each side reach."""
    first = last = index
    room = size_bytes
    while first > 0 and index - first < before and _is_next(lines, first):
        room -= lines[first - 1][1] + 1
        if room < 0:
            break
        first -= 1
    room = size_bytes
    while last + 1 < len(lines) and last - index < after and _is_next(lines, last + 1):
        room -= lines[last + 1][1] + 1
        if room < 0:
            break
        last += 1
    return range(first, last + 1)


def _is_next(lines: list[_Measured], index: int) -> bool:
    """Whether the line stands right behind the one before it: at most a `\\r\\n` lies between them."""
    line, length = lines[index - 1]
    return lines[index][0].offset - (line.offset + length) in (1, 2) and lines[index][0].number - line.number <= 1


def _counting(hits: Iterable[Hit]) -> list[Hit]:
    """The sightings that count, by offset; what is printed all the time is evidence a few times."""
    by_signal: dict[str, list[Hit]] = {}
    for hit in hits:
        by_signal.setdefault(hit.signal.id, []).append(hit)
    kept = [hit for group in by_signal.values() for hit in _outermost(group)]
    return sorted(kept, key=lambda hit: (hit.offset, hit.start))


def _outermost(items: list[_Item]) -> list[_Item]:
    return items if len(items) <= 2 * SIGHTINGS else [*items[:SIGHTINGS], *items[-SIGHTINGS:]]


def _is_held(hit: Hit, lines: list[_Measured]) -> bool:
    """Whether the hit's text begins a line of the windows: it may lie outside of them, or far into a long line."""
    index = bisect_left(lines, hit.offset, key=lambda one: one[0].offset)
    return index < len(lines) and lines[index][0].offset == hit.offset
