r"""A byte stream seen through a sliding buffer: blocks, line segments, pieces of long lines, the text below a line.

Everything is addressed by absolute byte offsets and answered from the bytes alone, so no answer depends on where a block ends:
a question about an occurrence is asked only when `LOOK_AHEAD` bytes behind it (or the end of the stream) are in the buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple

PIECE_BYTES = 8192
"""A line segment up to this length is read whole; a longer one in pieces of this length."""
STRIDE_BYTES = PIECE_BYTES // 2
TAIL_BYTES = 4096
NEAR_BYTES = 512
LOOK_AHEAD = PIECE_BYTES + TAIL_BYTES + 64
CELL_BYTES = 512 << 10
"""The stream is searched in cells of this size, whatever the size of a read, so that sampling does not depend on reads."""
KEPT_BYTES = CELL_BYTES + LOOK_AHEAD + (64 << 10)
"""What stays in the buffer when the next block is read: a cell that is not searched yet, what is needed to read an occurrence,
and enough before it for windows and for the end of the stream."""


class Piece(NamedTuple):
    """A line segment, or a part of a long one. A match belongs to the piece if it begins in its first `owned` bytes."""

    start: int
    stop: int
    owned: int


def make_buffer(block_bytes: int) -> bytearray:
    """A buffer to begin with for a stream that is read in blocks of this size: no larger than a small file needs."""
    return bytearray(KEPT_BYTES + min(block_bytes, CELL_BYTES))


class Stream:
    """The newest block of a byte stream and what came shortly before; reads of any size are accepted."""

    def __init__(self, source: BinaryIO, buffer: bytearray, block_bytes: int) -> None:
        self._source = source
        self.buffer = buffer
        """The bytes from `base` to `end`, and room for more."""
        self._most = KEPT_BYTES + block_bytes
        self._view = memoryview(buffer)
        self._step = min(block_bytes, CELL_BYTES)
        self.base = 0
        """Offset of the first byte in the buffer."""
        self.end = 0
        """Offset behind the last byte read."""
        self.finished = False
        self._line_start_at_base = 0
        self._line_start = (0, 0)

    @property
    def full(self) -> bool:
        """Whether the next `advance` drops bytes from the buffer."""
        return self.end - self.base + self._step > self._most

    def advance(self) -> None:
        """Read the next bytes, a cell at most; `finished` is set when there is nothing behind them."""
        if self.full:
            # Moved as seldom as the buffer allows, and read in small steps: what was just read is still near the processor.
            keep = min(self.end - self.base, KEPT_BYTES)
            drop = self.end - keep - self.base
            self._line_start_at_base = self.line_start(self.base + drop)
            self._view[:keep] = self._view[drop : drop + keep]
            self.base += drop
        used = self.end - self.base
        if used + self._step > len(self.buffer):
            grown = bytearray(self._most)
            grown[:used] = self._view[:used]
            self.buffer, self._view = grown, memoryview(grown)
        room = self._view[used : used + self._step]
        while room:
            count = self._read_into(room)
            if not count:
                self.finished = True
                break
            self.end += count
            room = room[count:]

    def view(self, start: int, stop: int) -> memoryview:
        """The bytes between two offsets, not copied: valid until the next `advance`."""
        return self._view[max(start - self.base, 0) : stop - self.base]

    def copy(self, start: int, stop: int) -> bytearray:
        """A copy of the bytes between two offsets."""
        return self.buffer[start - self.base : stop - self.base]

    def line_start(self, position: int) -> int:
        r"""Where the segment begins that holds the byte before `position`: behind the last `\n` or `\r`."""
        # The last answer is remembered: many hits in one long line do not search all of it each time.
        known_at, known_start = self._line_start
        if position < known_at or known_at < self.base:
            known_at, known_start = self.base, self._line_start_at_base
        stop = position - self.base
        newline = self.buffer.rfind(b"\n", known_at - self.base, stop)
        carriage = self.buffer.rfind(b"\r", max(known_at - self.base, newline + 1), stop)
        last = max(newline, carriage)
        start = self.base + last + 1 if last >= 0 else known_start
        self._line_start = (position, start)
        return start

    def beginnings(self, occurrences: Sequence[tuple[int, int]]) -> Iterator[bytes]:
        """For ascending occurrences (end offset first): their lines up to there, at most the last 4,096 bytes of that."""
        if not occurrences:
            return
        origin = max(occurrences[0][0] - STRIDE_BYTES, self.base)
        data = bytes(self.view(origin, occurrences[-1][0]))
        carriages = b"\r" in data
        for end, _ in occurrences:
            stop = end - origin
            floor = max(stop - STRIDE_BYTES, 0)
            start = data.rfind(b"\n", floor, stop) + 1 or floor
            if carriages:
                start = data.rfind(b"\r", start, stop) + 1 or start
            yield data[start:stop]

    def ends(self, literal: bytes, start: int, stop: int, *, last: bool, limit: int) -> Iterator[int]:
        """Where the first (or, backwards, the last) few occurrences of a literal end that end in this range."""
        low, high = max(start - len(literal) + 1, self.base) - self.base, stop - self.base
        for _ in range(limit):
            at = self.buffer.rfind(literal, low, high) if last else self.buffer.find(literal, low, high)
            if at < 0:
                return
            yield self.base + at + len(literal)
            low, high = (low, at + len(literal) - 1) if last else (at + 1, high)

    def last(self, literal: bytes, start: int, stop: int) -> int | None:
        """Where the last occurrence of a literal ends that ends in this range."""
        at = self.buffer.rfind(literal, max(start - len(literal) + 1 - self.base, 0), stop - self.base)
        return self.base + at + len(literal) if at >= 0 else None

    def line_around(self, position: int) -> bytearray:
        """The segment in which an occurrence ends at `position`, of a long one the nearest bytes on either side."""
        buffer, at = self.buffer, position - self.base
        low, high = max(at - NEAR_BYTES, 0), min(at + NEAR_BYTES, self.end - self.base)
        low = max(low, buffer.rfind(b"\n", low, at) + 1)
        low = max(low, buffer.rfind(b"\r", low, at) + 1)
        newline = buffer.find(b"\n", at, high)
        high = newline if newline >= 0 else high
        carriage = buffer.find(b"\r", at, high)
        return buffer[low : carriage if carriage >= 0 else high]

    def pieces(self, position: int) -> Iterator[Piece]:
        """The segment in which an occurrence ends at `position`, or, of a long one, the pieces in which its match may begin."""
        start = self.line_start(position)
        stop = self._line_stop(position, position + PIECE_BYTES + 1)
        if stop - start <= PIECE_BYTES:
            yield Piece(start, stop, stop - start)
            return
        number = (position - 1 - start) // STRIDE_BYTES
        for piece_start in range(start + max(number - 1, 0) * STRIDE_BYTES, position, STRIDE_BYTES):
            yield Piece(piece_start, min(stop, piece_start + PIECE_BYTES), STRIDE_BYTES)

    def below(self, position: int) -> bytearray:
        """The text that follows a piece which stops at `position`."""
        data = self.copy(position, min(position + TAIL_BYTES + 2, self.end))
        begin = 2 if data.startswith(b"\r\n") else 1 if data.startswith((b"\n", b"\r")) else 0
        return data[begin : begin + TAIL_BYTES]

    def _line_stop(self, position: int, limit: int) -> int:
        """The first terminator at or behind `position`, else the limit or the end of the stream."""
        begin, end = position - self.base, min(limit, self.end) - self.base
        newline = self.buffer.find(b"\n", begin, end)
        end = newline if newline >= 0 else end
        carriage = self.buffer.find(b"\r", begin, end)
        return self.base + (carriage if carriage >= 0 else end)

    def _read_into(self, room: memoryview) -> int:
        readinto = getattr(self._source, "readinto", None)
        if readinto is not None:
            return readinto(room) or 0
        data = self._source.read(len(room))
        room[: len(data)] = data
        return len(data)
