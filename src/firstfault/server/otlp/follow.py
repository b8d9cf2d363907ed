"""Which lines of a stream are evidence, decided as they come: known messages with what stands around them."""

from __future__ import annotations

import io
from collections import Counter, deque
from collections.abc import Sequence

import msgspec

from firstfault.scan.scanner import Scanner

LINES_BEFORE = 60
LINES_AFTER = 60
"""Around a message that can start a failure, and below the head of a traceback."""
LINES_AFTER_OTHERS = 4
SIGHTINGS = 20
"""Of one message so many sightings are kept in a stream: a warning at every step is evidence once."""
MAX_KEPT_LINES = 4_000
_HEAD = "Traceback (most recent call last)"
_STARTING = frozenset({"initiating", "either"})


class SeenLine(msgspec.Struct, frozen=True):
    """A line of a stream: its number from 1, its offset in bytes from the stream's beginning, its time, its text."""

    number: int
    offset: int
    time_ns: int
    text: str


class _Batch(msgspec.Struct):
    """Lines of one request as they came; most are never looked at again. `end` is the offset behind the last of them."""

    number: int
    end: int
    texts: Sequence[str]
    times_ns: Sequence[int]


class Stream:
    """One stream as far as it was seen; its newest lines are remembered, never stored, until evidence makes them context."""

    def __init__(self, *, lines: int = 0, size_bytes: int = 0, kept: int = 0) -> None:
        self.lines = lines
        self.size_bytes = size_bytes
        self.kept = kept
        self.dropped = 0
        self.last: SeenLine | None = None
        self._recent: deque[_Batch] = deque()
        self._recent_lines = 0
        self._stored_to = lines
        self._follow = 0
        self._sightings: Counter[str] = Counter()

    def take(self, texts: Sequence[str], times_ns: Sequence[int], scanner: Scanner) -> tuple[list[SeenLine], bool]:
        """The lines to keep now, and whether a message among them can start a failure."""
        block = "\n".join(texts).encode("utf-8", "replace")
        marks = self._marks(block, texts, scanner)
        batch = _Batch(self.lines + 1, self.size_bytes + len(block) + 1, texts, times_ns)
        kept = self._chosen(batch, marks) if marks or self._follow else []
        self.lines += len(texts)
        self.size_bytes += len(block) + 1
        last = texts[-1]
        start = self.size_bytes - len(last.encode("utf-8", "replace")) - 1
        self.last = SeenLine(self.lines, start, times_ns[-1], last)
        self._remember(batch)
        return self._within_bounds(kept), LINES_AFTER in marks.values()

    def _chosen(self, batch: _Batch, marks: dict[int, int]) -> list[SeenLine]:
        """Of the lines of a request those to keep, with what stands before them in earlier ones."""
        kept: list[SeenLine] = []
        lines = _seen(batch)
        for index, line in enumerate(lines):
            reach = marks.get(index, 0)
            if reach == LINES_AFTER:
                kept += self._before(line.number, lines[:index])
            self._follow = max(self._follow, reach)
            if reach or self._follow:
                kept += [line] if line.number > self._stored_to else []
                self._stored_to = max(self._stored_to, line.number)
                self._follow -= not reach
        return kept

    def _before(self, number: int, here: Sequence[SeenLine]) -> list[SeenLine]:
        first = max(self._stored_to + 1, number - LINES_BEFORE + 1)
        earlier = [line for batch in self._recent if batch.number + len(batch.texts) > first for line in _seen(batch)]
        found = [line for line in (*earlier, *here) if first <= line.number < number]
        if found:
            self._stored_to = found[-1].number
        return found

    def _remember(self, batch: _Batch) -> None:
        left = max(len(batch.texts) - LINES_BEFORE, 0)
        batch = _Batch(batch.number + left, batch.end, batch.texts[left:], list(batch.times_ns[left:]))
        self._recent.append(batch)
        self._recent_lines += len(batch.texts)
        while self._recent_lines - len(self._recent[0].texts) >= LINES_BEFORE:
            self._recent_lines -= len(self._recent.popleft().texts)

    def _marks(self, block: bytes, texts: Sequence[str], scanner: Scanner) -> dict[int, int]:
        """How many lines are kept below which lines of the block."""
        marks: dict[int, int] = {}
        for index in [index for index, text in enumerate(texts) if _HEAD in text] if _HEAD.encode() in block else ():
            self._sightings[_HEAD] += 1
            if self._sightings[_HEAD] <= SIGHTINGS:
                marks[index] = LINES_AFTER
        if not scanner.find(memoryview(block), "events"):
            return marks
        for hit in scanner.scan(io.BytesIO(block)).hits:
            self._sightings[hit.signal.id] += 1
            if hit.signal.role != "progress" and self._sightings[hit.signal.id] <= SIGHTINGS:
                reach = LINES_AFTER if hit.signal.role in _STARTING else LINES_AFTER_OTHERS
                marks[hit.line - 1] = max(marks.get(hit.line - 1, 0), reach)
        return marks

    def _within_bounds(self, kept: list[SeenLine]) -> list[SeenLine]:
        room = max(MAX_KEPT_LINES - self.kept, 0)
        self.dropped += max(len(kept) - room, 0)
        self.kept += min(len(kept), room)
        return kept[:room]


def _seen(batch: _Batch) -> list[SeenLine]:
    lines, offset = [], batch.end
    for index in range(len(batch.texts) - 1, -1, -1):
        text = batch.texts[index]
        offset -= len(text.encode("utf-8", "replace")) + 1
        lines.append(SeenLine(batch.number + index, offset, batch.times_ns[index], text))
    return lines[::-1]
