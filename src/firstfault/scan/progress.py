"""Progress lines, sampled: they may be every second line of a log, so most are only passed by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from firstfault.scan.rank_key import RankKeys
from firstfault.scan.result import Hit, ProgressSample
from firstfault.scan.stream import Stream

MAX_KEYS = 4096
CELL_TRIES = 4
"""Occurrences of one literal that are read in a cell before giving up: what holds the literal is mostly the signal."""
BLOCK_TRIES = 16
"""The same in a block of a stream that shows ranks."""
FIRST_TRIES = 64
"""The same for the first progress line, over the whole stream."""

Occurrence = tuple[int, int]
"""End offset of a literal, and its id."""


class Cell(NamedTuple):
    """A part of the stream in which some progress literals stand: their ids."""

    start: int
    stop: int
    present: tuple[int, ...]


class _Sample:
    __slots__ = ("count", "first", "last", "tries")

    def __init__(self) -> None:
        self.count = 0
        self.first: Hit | None = None
        self.last: Hit | None = None
        self.tries: Counter[int] = Counter()


class ProgressSampler:
    """First and last progress line of each rank key, and how many were seen (None: lines that show no rank).

    A stream whose lines show ranks is taken occurrence by occurrence (`take`): each is counted for its rank. Any other is taken
    cell by cell (`take_cells`): there the first and the last line of the whole are wanted, and only those are searched for.
    """

    def __init__(
        self,
        stream: Stream,
        literals: Sequence[bytes],
        rank_of: Callable[[bytes], int | None] | None,
        read: Callable[[Occurrence], Sequence[Hit]],
    ) -> None:
        self._stream = stream
        self._literals = literals
        self._ranks = RankKeys(rank_of) if rank_of else None
        self._read = read
        self._samples: dict[int | None, _Sample] = {}

    def shows_rank(self, occurrences: Sequence[Occurrence]) -> bool:
        """Whether a line of these occurrences shows a rank."""
        ranks = self._ranks
        return ranks is not None and any(ranks.key(line) is not None for line in self._stream.beginnings(occurrences))

    def take(self, occurrences: Sequence[Occurrence]) -> None:
        """Count each occurrence for its key, and read the outermost of each key."""
        for key, group in self._by_key(occurrences).items():
            sample = self._samples.setdefault(key, _Sample())
            sample.count += len(group)
            self._read_first(sample, group)
            sample.last = self._latest(reversed(group), BLOCK_TRIES) or sample.last

    def take_cells(self, cells: Sequence[Cell]) -> None:
        """Read the outermost occurrences in cells that show no ranks, and count one for each literal of a cell."""
        if not cells:
            return
        sample = self._samples.setdefault(None, _Sample())
        sample.count += sum(len(cell.present) for cell in cells)
        if sample.first is None:
            self._read_first(sample, (place for cell in cells for place in sorted(self._outermost(cell, last=False))))
        for cell in reversed(cells):
            latest = self._latest(sorted(self._outermost(cell, last=True), reverse=True), CELL_TRIES)
            if latest:
                sample.last = latest
                break

    def samples(self) -> tuple[ProgressSample, ...]:
        """One sample a key, unknown ranks first."""
        order = sorted(self._samples.items(), key=lambda item: (item[0] is not None, item[0] or 0))
        return tuple(ProgressSample(key=key, count=one.count, first=one.first, last=one.last) for key, one in order)

    def _read_first(self, sample: _Sample, occurrences: Iterable[Occurrence]) -> None:
        if sample.first is None:
            sample.first = next((hits[0] for hits in self._read_some(occurrences, sample.tries, FIRST_TRIES)), None)

    def _latest(self, occurrences: Iterable[Occurrence], limit: int) -> Hit | None:
        return next((hits[-1] for hits in self._read_some(occurrences, Counter(), limit)), None)

    def _read_some(self, occurrences: Iterable[Occurrence], tries: Counter[int], limit: int) -> Iterator[Sequence[Hit]]:
        """The hits of each occurrence that has any; of one literal no more than `limit` occurrences are read."""
        for occurrence in occurrences:
            if tries[occurrence[1]] < limit:
                tries[occurrence[1]] += 1
                hits = self._read(occurrence)
                if hits:
                    yield hits

    def _by_key(self, occurrences: Sequence[Occurrence]) -> dict[int | None, list[Occurrence]]:
        if self._ranks is None:
            return {None: list(occurrences)} if occurrences else {}
        groups: dict[int | None, list[Occurrence]] = {}
        for occurrence, beginning in zip(occurrences, self._stream.beginnings(occurrences), strict=True):
            key = self._ranks.key(beginning)
            group = groups.get(key)
            if group is None:
                if key not in self._samples and len(self._samples) + len(groups) >= MAX_KEYS:
                    key = None
                group = groups.setdefault(key, [])
            group.append(occurrence)
        return groups

    def _outermost(self, cell: Cell, *, last: bool) -> Iterator[Occurrence]:
        """The first or the last occurrences in a cell of each literal that stands there."""
        for ident in cell.present:
            for end in self._stream.ends(self._literals[ident], cell.start, cell.stop, last=last, limit=CELL_TRIES):
                yield end, ident
