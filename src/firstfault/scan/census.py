"""Counts of a stream: lines, NUL bytes, invalid UTF-8; and the number of the line at any offset still in the buffer."""

from __future__ import annotations

from bisect import bisect_right

from firstfault.scan.stream import Stream

_STEP_BYTES = 64 << 10
_REPLACEMENT = "�".encode()


class Census:
    """Counts each byte of a stream once, and keeps marks from which line numbers are found without counting again."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._counted = 0
        self._newlines = 0
        self._mark_offsets = [0]
        self._mark_newlines = [0]
        self._last = (0, 0)
        self.nul_bytes = 0
        self.invalid_utf8 = 0

    def take(self) -> None:
        """Count what came with the newest block."""
        stream = self._stream
        stop = stream.end if stream.finished else self._character_border(stream.end)
        while self._counted < stop:
            self._count(self._character_border(min(self._counted + _STEP_BYTES, stop)) if stop > self._counted + 4 else stop)
        self._forget()

    def lines(self) -> int:
        """Lines so far; a last one without newline counts."""
        unfinished = self._counted > 0 and not self.ends_with_newline
        return self._newlines + unfinished

    @property
    def ends_with_newline(self) -> bool:
        """Whether the last byte counted is a newline."""
        return self._counted > 0 and self._stream.copy(self._counted - 1, self._counted) == b"\n"

    def line_number(self, offset: int) -> int:
        """Number of the line (from 1) in which the byte at `offset` stands; the byte must still be in the buffer."""
        buffer, base = self._stream.buffer, self._stream.base
        mark = bisect_right(self._mark_offsets, offset) - 1
        start, newlines = self._mark_offsets[mark], self._mark_newlines[mark]
        if start < base:
            # What lies between that mark and the buffer is gone: count back from the next one.
            start, newlines = self._mark_offsets[mark + 1], self._mark_newlines[mark + 1]
            return newlines - buffer.count(b"\n", offset - base, start - base) + 1
        if start < self._last[0] <= offset:
            start, newlines = self._last
        newlines += buffer.count(b"\n", start - base, offset - base)
        self._last = (offset, newlines)
        return newlines + 1

    def _count(self, stop: int) -> None:
        piece = self._stream.copy(self._counted, stop)
        # Before Python 3.13 `count` looks at each byte singly; `replace` finds the newlines with memchr, three times as fast.
        rest = piece.replace(b"\n", b"")
        self._newlines += len(piece) - len(rest)
        if b"\0" in rest:
            self.nul_bytes += rest.count(b"\0")
        if not rest.isascii():
            self.invalid_utf8 += _invalid_sequences(piece)
        self._counted = stop
        self._mark_offsets.append(stop)
        self._mark_newlines.append(self._newlines)

    def _character_border(self, position: int) -> int:
        """`position`, or up to three bytes before it: a place where no UTF-8 character is cut in two."""
        buffer, base = self._stream.buffer, self._stream.base
        for candidate in range(position, max(position - 4, self._counted - 1), -1):
            if candidate < self._stream.end and not 0x80 <= buffer[candidate - base] < 0xC0:
                return candidate
        return position

    def _forget(self) -> None:
        """Drop the marks in front of the buffer, but for the last of them."""
        dropped = bisect_right(self._mark_offsets, self._stream.base) - 1
        if dropped > 0:
            del self._mark_offsets[:dropped]
            del self._mark_newlines[:dropped]


def _invalid_sequences(piece: bytearray) -> int:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return piece.decode("utf-8", "replace").count("�") - piece.count(_REPLACEMENT)
    return 0
