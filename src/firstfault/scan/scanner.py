"""Reads a byte stream once and keeps what matters: hits with captures, progress, raw windows, counts."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import BinaryIO, Literal, TypeVar

from firstfault.knowledge.schema import Signal
from firstfault.scan.census import Census
from firstfault.scan.confirm import confirm
from firstfault.scan.hits import HitStore
from firstfault.scan.lines import decode_line
from firstfault.scan.prefilter import PlainPrefilter, Prefilter, PrefilterChoice, make_prefilter
from firstfault.scan.progress import Cell, Occurrence, ProgressSampler
from firstfault.scan.result import Hit, ScanResult
from firstfault.scan.stream import CELL_BYTES, LOOK_AHEAD, Stream, make_buffer
from firstfault.scan.windows import WindowKeeper

BLOCK_BYTES = 4 << 20
RECENT = 64
"""Of a message repeated thousands of times, so many of the last occurrences in a cell are read."""
SPARING = 8
"""While progress lines are dense, they are searched for in every eighth cell only."""
STRETCH_BYTES = SPARING * CELL_BYTES
LOOK_BACK_BYTES = 256 << 10
"""So much of the end of a stream is searched for every line of progress."""
SAMPLE_BYTES = 16 << 10
PLAIN_BYTES = 128 << 10
"""So much text is searched literal by literal before an engine is loaded: cheaper than building one for a paste."""

TRIGGERS = {
    b"Traceback (most recent call last)": "",
    b"Failures:": "Failures:",
    b"Root Cause (first observed failure)": "",
    b"error: ***": "",
}
"""Literals around which windows are kept though they are no signals, and what their line must end with."""


Search = Literal["events", "first progress", "all progress"]
"""What a search is for: events only, or also the first of each progress literal, or all of them."""


class Scanner:
    """Holds the literals of a set of signals; scans any number of streams, also from several threads."""

    def __init__(
        self, signals: Sequence[Signal], *, prefilter: PrefilterChoice = "auto", block_bytes: int = BLOCK_BYTES
    ) -> None:
        self.block_bytes = block_bytes
        self._choice = prefilter
        by_literal: dict[bytes, list[Signal]] = {literal: [] for literal in TRIGGERS}
        # What is progress and nothing else comes last, so that an engine for events takes the first literals only.
        for signal in sorted(signals, key=lambda signal: signal.role == "progress"):
            by_literal.setdefault(signal.literal.encode(), []).append(signal)
        self.literals = tuple(by_literal)
        self.triggers = {ident: TRIGGERS[literal] for ident, literal in enumerate(self.literals) if literal in TRIGGERS}
        self.event_signals: dict[int, tuple[Signal, ...]] = dict.fromkeys(self.triggers, ())
        self.progress_signals: dict[int, tuple[Signal, ...]] = {}
        for ident, group in enumerate(by_literal.values()):
            progress = tuple(signal for signal in group if signal.role == "progress")
            events = tuple(signal for signal in group if signal.role != "progress")
            if progress:
                self.progress_signals[ident] = progress
            if events:
                self.event_signals[ident] = events
        self.overlap_bytes = max(len(literal) for literal in self.literals) - 1
        self._plain = PlainPrefilter(self.literals)
        self._plain_left = PLAIN_BYTES if prefilter == "auto" else 0
        self._engines: dict[Search, Prefilter] = {}
        self._sample = b""
        self._buffers: list[bytearray] = []

    def scan(self, stream: BinaryIO, *, rank_of: Callable[[bytes], int | None] | None = None) -> ScanResult:
        """Everything worth keeping of the stream. Progress is sampled by the rank key that `rank_of` reads off a line."""
        # Buffers are used again: to make one costs more than to scan a small file.
        try:
            buffer = self._buffers.pop()
        except IndexError:
            buffer = make_buffer(self.block_bytes)
        read = Stream(stream, buffer, self.block_bytes)
        try:
            return _Pass(self, read, rank_of).result()
        finally:
            self._buffers.append(read.buffer)

    def find(self, block: memoryview, search: Search) -> list[tuple[int, int]]:
        """Literal id and end offset of each occurrence in a block, at least of those that the search is for."""
        if self._plain_left >= len(block):
            self._plain_left -= len(block)
            return self._plain.find(block)
        if search not in self._engines:
            self._sample = self._sample or bytes(block[:SAMPLE_BYTES])
            events = len(self.event_signals)
            self._engines[search] = make_prefilter(
                self.literals[:events] if search == "events" else self.literals,
                () if search == "events" else range(events, len(self.literals)),
                once=search == "first progress",
                choice=self._choice,
                sample=self._sample,
            )
        return self._engines[search].find(block)

    def find_some(self, block: memoryview, idents: Collection[int]) -> list[tuple[int, int]]:
        """The occurrences of a few literals."""
        return self._plain.find_some(bytes(block), idents)


_Waiting = TypeVar("_Waiting", Occurrence, tuple[int, int, bool])


class _Pass:
    """One scan of one stream."""

    def __init__(self, scanner: Scanner, stream: Stream, rank_of: Callable[[bytes], int | None] | None) -> None:
        self._scanner = scanner
        self._stream = stream
        self._census = Census(stream)
        self._windows = WindowKeeper(stream, self._census)
        self._hits = HitStore()
        self._progress = ProgressSampler(stream, scanner.literals, rank_of, self._read_progress)
        self._by_rank = False
        self._searched = 0
        self._events: list[tuple[int, int, bool]] = []
        self._ranked: list[tuple[int, list[Occurrence]]] = []
        self._cells: list[Cell] = []
        self._judged: dict[int, tuple[int, int]] = {}

    def result(self) -> ScanResult:
        """Scan to the end of the stream."""
        stream, census = self._stream, self._census
        while not stream.finished:
            stream.advance()
            census.take()
            while self._searched + CELL_BYTES <= stream.end or (stream.finished and self._searched < stream.end):
                self._search(min(self._searched + CELL_BYTES, stream.end))
            self._read(stream.end if stream.finished else stream.end - LOOK_AHEAD)
            self._windows.collect()
        if stream.end > CELL_BYTES:
            self._look_back()
        return ScanResult(
            hits=self._hits.sorted(),
            progress=self._progress.samples(),
            windows=self._windows.finish(),
            size_bytes=stream.end,
            lines=census.lines(),
            invalid_utf8=census.invalid_utf8,
            nul_bytes=census.nul_bytes,
            dropped_hits=self._hits.dropped,
            dropped_window_bytes=self._windows.dropped_bytes,
            ends_with_newline=census.ends_with_newline,
        )

    def _search(self, stop: int) -> None:
        """Queue the occurrences that end in the next cell; a literal cut by its beginning is found through the overlap."""
        dense: list[Occurrence] = []
        if not self._by_rank and self._searched // CELL_BYTES % SPARING:
            # What the cells of a stretch before the last one told is known by now, however large the reads are.
            dense = self._progress.still_dense(stop, (self._searched // STRETCH_BYTES - 1) * STRETCH_BYTES)
        events, progress = self._found(stop, "all progress" if self._by_rank else "events" if dense else "first progress")
        if not self._by_rank:
            asked = dense[:1] or self._to_ask(stop, progress)
            cell = self._progress.cell(self._searched, stop, asked, dense or progress, searched=not dense)
            if cell:
                self._cells.append(cell)
            else:
                self._by_rank = True
                _, progress = self._found(stop, "all progress")
        if self._by_rank:
            self._ranked.append((stop, progress))
        self._events += _with_recency(events)
        self._searched = stop

    def _to_ask(self, stop: int, progress: list[Occurrence]) -> list[Occurrence]:
        """The first occurrence of each progress literal in the cell; in the first cell of the stream all of them."""
        if self._searched == 0:
            view = self._stream.view(0, stop)
            return sorted((end, ident) for ident, end in self._scanner.find_some(view, {ident for _, ident in progress}))
        firsts: dict[int, int] = {}
        for end, ident in progress:
            firsts.setdefault(ident, end)
        return [(end, ident) for ident, end in firsts.items()]

    def _found(self, stop: int, search: Search) -> tuple[list[Occurrence], list[Occurrence]]:
        """Occurrences of events, and of progress, that end in the cell from `_searched` to `stop`."""
        scanner, stream, start = self._scanner, self._stream, self._searched
        origin = max(start - scanner.overlap_bytes, stream.base)
        found: list[Occurrence] = []
        for ident, end in scanner.find(stream.view(origin, stop), search):
            if origin + end > start:
                found.append((origin + end, ident))
            elif search == "first progress" and ident in scanner.progress_signals:
                # Only the first was reported, and it belongs to the cell before: look for one in this cell.
                found += [
                    (other, ident) for other in stream.ends(scanner.literals[ident], start + 1, stop, last=False, limit=1)
                ]
        found.sort()
        events = [place for place in found if place[1] in scanner.event_signals]
        return events, [place for place in found if place[1] in scanner.progress_signals]

    def _read(self, limit: int) -> None:
        """Confirm what ends at or before the limit; the rest waits until more of the stream is in the buffer."""
        for occurrence in _take_ready(self._events, limit):
            self._judge(*occurrence)
        whole = self._stream.finished and self._stream.end <= CELL_BYTES
        while self._cells and self._cells[0].stop <= limit:
            self._progress.take_cell(self._cells.pop(0), thorough=whole)
        while self._ranked and self._ranked[0][0] <= limit:
            self._progress.take(self._ranked.pop(0)[1], thorough=whole)
        if self._stream.full or self._stream.finished:
            self._progress.settle()

    def _look_back(self) -> None:
        """Search the end of the stream once more: what it tells last must not hide behind other lines of progress."""
        stop, self._searched = self._stream.end, self._stream.end - min(CELL_BYTES, LOOK_BACK_BYTES)
        _, progress = self._found(stop, "all progress" if self._by_rank else "first progress")
        if self._by_rank:
            self._progress.take(progress, thorough=True, again=True)
        else:
            cell = self._progress.cell(self._searched, stop, self._to_ask(stop, progress), progress)
            if cell:
                self._progress.take_cell(cell, thorough=True, again=True)
        self._progress.settle()

    def _judge(self, end: int, ident: int, recent: bool) -> None:
        """Confirm the signals of a literal around one occurrence, each piece of text once."""
        last_piece, judged_to = self._judged.get(ident, (-1, -1))
        if end <= judged_to:
            return
        signals = self._scanner.event_signals[ident]
        if not recent and signals and all(self._hits.saturated(signal) for signal in signals):
            # A message repeated thousands of times: of each cell only its end is read, for nothing else would be kept.
            self._hits.dropped += 1
            return
        for piece in self._stream.pieces(end):
            judged_to = piece.start + piece.owned
            if piece.start <= last_piece:
                continue
            last_piece = piece.start
            self._trigger(piece.start, piece.stop, end, ident)
            for hit in confirm(signals, piece, self._stream, self._census):
                self._hits.add(hit)
                if hit.signal.role in ("initiating", "either"):
                    self._windows.mark(end)
        self._judged[ident] = (last_piece, judged_to)

    def _trigger(self, start: int, stop: int, end: int, ident: int) -> None:
        ending = self._scanner.triggers.get(ident)
        if ending is not None and decode_line(self._stream.copy(start, stop)).rstrip().endswith(ending):
            self._windows.mark(end)

    def _read_progress(self, occurrence: Occurrence) -> list[Hit]:
        end, ident = occurrence
        signals = self._scanner.progress_signals[ident]
        return [hit for piece in self._stream.pieces(end) for hit in confirm(signals, piece, self._stream, self._census)]


def _with_recency(events: list[Occurrence]) -> list[tuple[int, int, bool]]:
    """The occurrences of a cell, and whether each is among the last of its literal there."""
    if len(events) <= RECENT:
        return [(end, ident, True) for end, ident in events]
    counts: Counter[int] = Counter()
    marked = []
    for end, ident in reversed(events):
        counts[ident] += 1
        marked.append((end, ident, counts[ident] <= RECENT))
    return marked[::-1]


def _take_ready(waiting: list[_Waiting], limit: int) -> list[_Waiting]:
    """The occurrences that end at or before the limit, removed from the list."""
    count = bisect_left(waiting, (limit + 1, 0))
    ready = waiting[:count]
    del waiting[:count]
    return ready
