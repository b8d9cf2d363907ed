"""Progress lines, sampled: they may be every second line of a log, so most are only passed by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from heapq import merge
from itertools import repeat
from typing import NamedTuple

from firstfault.scan.rank_key import RankKeys
from firstfault.scan.result import Hit, ProgressSample
from firstfault.scan.stream import Stream

MAX_KEYS = 4096
TRIES = 16
"""Occurrences of one literal that are read in a cell (or a block) before giving up: what holds it is mostly the signal."""
DENSE_BYTES = 16 << 10
FAILURES = 64
"""After so many that were no signal, one of each cell is enough to see whether that changes."""

Occurrence = tuple[int, int]
"""End offset of a literal, and its id."""


class Cell(NamedTuple):
    """A part of the stream in which some progress literals stand, and the rank key of each literal's lines."""

    start: int
    stop: int
    keys: dict[int, int | None]


class _Sample:
    __slots__ = ("count", "doubtful_from", "failures", "first", "last")

    def __init__(self) -> None:
        self.count = 0
        self.first: Hit | None = None
        self.last: Hit | None = None
        self.failures: Counter[int] = Counter()
        self.doubtful_from: dict[int, int] = {}
        """Offset from which a literal, by its id, is known to stand in other lines too."""


class ProgressSampler:
    """First and last progress line of each rank key, and how many were seen (None: lines that show no rank).

    A stream in which several ranks print the same progress lines is taken occurrence by occurrence (`take`). In any other each
    literal belongs to one key, and the stream is taken cell by cell (`take_cells`): there the first and the last line of the
    whole are wanted, and only those are searched for. Cells lie at fixed offsets, so reads of any size give the same.
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
        self._literal_keys: dict[int, int | None] = {}
        self._present: Collection[int] = ()

    def cell(self, start: int, stop: int, asked: Sequence[Occurrence], present: Sequence[Occurrence]) -> Cell | None:
        """A part of the stream for `take_cells`; None if a literal stands in lines of several ranks.

        The lines of the `asked` occurrences are asked for their rank; of each literal that was never asked before one must be.
        """
        for (_, ident), key in zip(asked, self._keys(asked), strict=True):
            if self._literal_keys.setdefault(ident, key) != key:
                return None
        cell = Cell(start, stop, {ident: self._literal_keys[ident] for _, ident in present})
        self._present = cell.keys
        return cell

    def still_dense(self, stop: int) -> list[Occurrence]:
        """The last occurrences shortly before `stop` of the literals that stood in the cell before."""
        return [
            (end, ident)
            for ident in self._present
            for end in self._stream.ends(self._literals[ident], stop - DENSE_BYTES, stop, last=True, limit=1)
        ]

    def take(self, occurrences: Sequence[Occurrence]) -> None:
        """Count each occurrence for its key, and read the outermost of each key."""
        for key, group in self._by_key(occurrences).items():
            sample = self._samples.setdefault(key, _Sample())
            sample.count += len(group)
            if sample.first is None:
                sample.first = self._first(sample, (place for place in group if sample.failures[place[1]] < FAILURES))
            tries: Counter[int] = Counter()
            for occurrence in reversed(group):
                tries[occurrence[1]] += 1
                if tries[occurrence[1]] <= TRIES and (hits := self._read(occurrence)):
                    sample.last = hits[-1]
                    break

    def take_cells(self, cells: Sequence[Cell]) -> None:
        """Read the outermost occurrences in these cells for each key, and count one for each literal of a cell."""
        for key in {key for cell in cells for key in cell.keys.values()}:
            sample = self._samples.setdefault(key, _Sample())
            sample.count += sum(key == other for cell in cells for other in cell.keys.values())
            if sample.first is None:
                sample.first = self._first(
                    sample, (place for cell in cells for place in self._outermost(cell, key, last=False))
                )
            latest = (place for cell in reversed(cells) for place in self._outermost(cell, key, last=True))
            sample.last = next((hits[-1] for hits in map(self._read, latest) if hits), sample.last)

    def samples(self) -> tuple[ProgressSample, ...]:
        """One sample a key, unknown ranks first."""
        order = sorted(self._samples.items(), key=lambda item: (item[0] is not None, item[0] or 0))
        return tuple(ProgressSample(key=key, count=one.count, first=one.first, last=one.last) for key, one in order)

    def _first(self, sample: _Sample, occurrences: Iterable[Occurrence]) -> Hit | None:
        for occurrence in occurrences:
            hits = self._read(occurrence)
            if hits:
                return hits[0]
            end, ident = occurrence
            sample.failures[ident] += 1
            if sample.failures[ident] == FAILURES:
                sample.doubtful_from[ident] = end
        return None

    def _keys(self, occurrences: Sequence[Occurrence]) -> Iterator[int | None]:
        if self._ranks is None:
            return repeat(None, len(occurrences))
        return map(self._ranks.key, self._stream.beginnings(occurrences))

    def _by_key(self, occurrences: Sequence[Occurrence]) -> dict[int | None, list[Occurrence]]:
        groups: dict[int | None, list[Occurrence]] = {}
        for occurrence, key in zip(occurrences, self._keys(occurrences), strict=True):
            group = groups.get(key)
            if group is None:
                if key not in self._samples and len(self._samples) + len(groups) >= MAX_KEYS:
                    key = None
                group = groups.setdefault(key, [])
            group.append(occurrence)
        return groups

    def _outermost(self, cell: Cell, key: int | None, *, last: bool) -> Iterator[Occurrence]:
        """Occurrences in a cell of the literals of a key, from its beginning or, `last`, its end: a few of each."""
        doubtful = self._samples[key].doubtful_from
        places = [
            self._places(cell, ident, 1 if cell.start > doubtful.get(ident, cell.start) else TRIES, last)
            for ident, own in cell.keys.items()
            if own == key
        ]
        return merge(*places, reverse=last)

    def _places(self, cell: Cell, ident: int, limit: int, last: bool) -> Iterator[Occurrence]:
        for end in self._stream.ends(self._literals[ident], cell.start, cell.stop, last=last, limit=limit):
            yield end, ident
