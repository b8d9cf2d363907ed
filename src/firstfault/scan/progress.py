"""Progress lines, sampled: they may be every second line of a log, so most are only passed by."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import NamedTuple

from firstfault.scan.rank_key import RankKeys
from firstfault.scan.result import Hit, ProgressSample
from firstfault.scan.stream import CELL_BYTES, Stream

MAX_KEYS = 4096
MAX_SERIES = 16
"""Series kept of one rank key; of all keys together, beyond the first of each, no more than there may be keys."""
TRIES = 16
"""Occurrences of one literal that are read in a cell (or a block) before giving up: what holds it is mostly the signal."""
DENSE_BYTES = 16 << 10
FAILURES = 16
"""After so many that were no signal, one of each cell searched is enough to see whether that changes."""

Occurrence = tuple[int, int]
"""End offset of a literal, and its id."""


class Cell(NamedTuple):
    """A part of the stream in which some progress literals stand, and the rank key of each literal's lines."""

    start: int
    stop: int
    keys: dict[int, int | None]
    searched: bool
    """False if it was only looked at for the literals that were dense before."""


class _Series:
    """The lines of one signal that print one total: a loop, or a bar of it."""

    __slots__ = ("_mark", "first", "last")

    def __init__(self, hit: Hit) -> None:
        self.first = self.last = hit
        total = hit.captures.get("total")
        found = re.search(rf"/ *{total}[^0-9]", hit.text[hit.start :]) if total is not None else None
        # The total with the character behind it; without a total, that there is nothing like one.
        self._mark = b"" if total is None else found[0].encode() if found else None

    def take(self, hit: Hit) -> None:
        if hit.offset < self.first.offset:
            self.first = hit
        if hit.offset >= self.last.offset:
            self.last = hit

    def tells(self, line: bytearray) -> bool:
        """Whether a line with the same literal looks like one of this series, without reading it; False also if in doubt."""
        return self._mark in line if self._mark else self._mark == b"" and b"/" not in line


class _Sample:
    """What is known of one rank key."""

    __slots__ = ("count", "doubtful_from", "failures", "literals", "series")

    def __init__(self) -> None:
        self.count = 0
        self.series: dict[tuple[str, object], _Series] = {}
        self.literals: dict[int, set[_Series]] = {}
        """The series that were found at each literal, by its id."""
        self.failures: Counter[int] = Counter()
        self.doubtful_from: dict[int, int] = {}
        """Offset from which a literal, by its id, is known to stand in other lines too."""


class ProgressSampler:
    """First and last progress line of each series of each rank key (None: lines that show no rank).

    A series is the lines of one signal that print the same total: so the bar of an evaluation does not hide that of training.

    A stream in which several ranks print the same progress lines is taken occurrence by occurrence (`take`). In any other each
    literal belongs to one key, and the stream is taken cell by cell (`take_cell`): there the first and the last line of the
    whole are wanted, and only those are searched for. Cells lie at fixed offsets, so reads of any size give the same. A line
    that is the first of its kind while others are dense is noticed in every eighth cell, and at the end.

    As long as a literal has shown one series, only its last line in a cell is looked at. Where it has shown more, the cell is
    walked back until each of them is found; and so is the end of the stream, in which a further series may hide.
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
        self._series_count = 0
        self._pending: dict[_Series, tuple[_Sample, Occurrence, Callable[[Occurrence], Iterable[Occurrence]]]] = {}
        self._since: dict[int, int] = {}
        self._literal_keys: dict[int, int | None] = {}
        self._present: Collection[int] = ()

    def cell(
        self, start: int, stop: int, asked: Sequence[Occurrence], present: Sequence[Occurrence], *, searched: bool = True
    ) -> Cell | None:
        """A part of the stream for `take_cell`; None if a literal stands in lines of several ranks.

        The lines of the `asked` occurrences are asked for their rank; of each literal that was never asked before one must be.
        """
        for (_, ident), key in zip(asked, self._keys(asked), strict=True):
            if self._literal_keys.setdefault(ident, key) != key:
                return None
        cell = Cell(start, stop, {ident: self._literal_keys[ident] for _, ident in present}, searched)
        self._present = cell.keys
        return cell

    def still_dense(self, stop: int, known_before: int) -> list[Occurrence]:
        """The last occurrences shortly before `stop` of the literals that stood in the cell before.

        None if a literal that told progress before the offset `known_before` is not among them: it must not be missed.
        """
        last, literals, start = self._stream.last, self._literals, stop - DENSE_BYTES
        ends = ((last(literals[ident], start, stop), ident) for ident in self._present)
        dense = [(end, ident) for end, ident in ends if end is not None]
        found = {ident for _, ident in dense}
        return dense if all(ident in found for ident, since in self._since.items() if since < known_before) else []

    def take(self, occurrences: Sequence[Occurrence], *, thorough: bool = False, again: bool = False) -> None:
        """Count each occurrence of a cell for its key, and read the outermost of each series of the key.

        `thorough` looks through all of it; `again` is for what was counted before.
        """
        for key, group in self._by_key(occurrences).items():
            sample = self._samples.setdefault(key, _Sample())
            sample.count += 0 if again else len(group)
            places: dict[int, list[Occurrence]] = {}
            for place in group:
                places.setdefault(place[1], []).append(place)
            for ident, own in places.items():
                if ident not in sample.literals:
                    self._read_first(sample, own[: max(FAILURES - sample.failures[ident], 0)])
                known = set(sample.literals.get(ident, ()))
                backwards = own[::-1]
                self._read_last(sample, backwards, partial(_from, backwards), TRIES, thorough)
                self._read_beginnings(sample, sample.literals.get(ident, known) - known, own)

    def take_cell(self, cell: Cell, *, thorough: bool = False, again: bool = False) -> None:
        """The same for a cell in which each literal belongs to one key; one is counted for each literal."""
        for ident, key in cell.keys.items():
            sample = self._samples.get(key)
            if sample is None:
                sample = self._samples[key] = _Sample()
            sample.count += not again
            if not thorough and self._is_as_before(sample, cell, ident):
                continue
            doubtful = cell.start > sample.doubtful_from.get(ident, cell.start)
            if doubtful and not cell.searched and ident not in sample.literals:
                continue
            if not doubtful and ident not in sample.literals:
                self._read_first(sample, self._places(cell, (cell.stop, ident), TRIES, last=False))
            tries = 1 if doubtful or ident not in sample.literals else TRIES
            known = set(sample.literals.get(ident, ()))
            retry = partial(self._places, cell, limit=tries, last=True)
            every = partial(self._places, cell, (cell.stop, ident), CELL_BYTES)
            self._read_last(sample, every(last=True), retry, tries, thorough)
            self._read_beginnings(sample, sample.literals.get(ident, known) - known, every(last=False))

    def _is_as_before(self, sample: _Sample, cell: Cell, ident: int) -> bool:
        """Whether the last line of a literal that showed one series only looks like it; then it waits for `settle`."""
        known = sample.literals.get(ident)
        if known is None or len(known) > 1 or ident in sample.doubtful_from:
            return False
        (series,) = known
        at = self._stream.last(self._literals[ident], cell.start, cell.stop)
        if at is None or not series.tells(self._stream.line_around(at)):
            return False
        self._pending[series] = (sample, (at, ident), partial(self._places, cell, limit=TRIES, last=True))
        return True

    def settle(self) -> None:
        """Read the last lines that were only looked at; to be called before the next block is read."""
        for sample, occurrence, again in self._pending.values():
            any(self._take_line(sample, place) for place in again(occurrence))
        self._pending.clear()

    def samples(self) -> tuple[ProgressSample, ...]:
        """One sample a series: unknown ranks first, then by the first line."""
        found = [
            ProgressSample(key=key, count=sample.count, first=series.first, last=series.last)
            for key, sample in self._samples.items()
            for series in sample.series.values()
        ]
        found.sort(key=lambda one: (one.key is not None, one.key or 0, one.first.offset, one.first.start))
        return tuple(found)

    def _read_first(self, sample: _Sample, occurrences: Iterable[Occurrence]) -> None:
        """Read until the first line that is progress."""
        for occurrence in occurrences:
            if self._take_line(sample, occurrence):
                return
            end, ident = occurrence
            sample.failures[ident] += 1
            if sample.failures[ident] == FAILURES:
                sample.doubtful_from[ident] = end

    def _read_last(
        self,
        sample: _Sample,
        occurrences: Iterable[Occurrence],
        again: Callable[[Occurrence], Iterable[Occurrence]],
        tries: int,
        thorough: bool,
    ) -> None:
        """Find the last line of each series among the occurrences of a literal, which come in descending order.

        As long as the literal has shown one series, that is the last line; with more of them, and if `thorough`, the lines are
        walked back. A line that looks like a known series is read later (`settle`), and only if no further one comes.
        """
        seen: set[_Series] = set()
        for occurrence in occurrences:
            known = sample.literals.get(occurrence[1], seen)
            line = self._stream.line_around(occurrence[0]) if known else bytearray()
            series = next((one for one in (*seen, *known) if one.tells(line)), None)
            if series is None:
                seen.update(self._take_line(sample, occurrence))
                tries -= 1
            elif series not in seen:
                seen.add(series)
                self._pending[series] = (sample, occurrence, again)
            if not tries or (seen and not thorough and seen >= sample.literals.get(occurrence[1], seen)):
                return

    def _read_beginnings(self, sample: _Sample, new: set[_Series], occurrences: Iterable[Occurrence]) -> None:
        """Find the first lines of series that were met from behind."""
        for occurrence in occurrences if new else ():
            line = self._stream.line_around(occurrence[0])
            found = next((series for series in new if series.tells(line)), None)
            if found:
                self._take_line(sample, occurrence)
                new.remove(found)
                if not new:
                    return

    def _take_line(self, sample: _Sample, occurrence: Occurrence) -> list[_Series]:
        """Read the line of an occurrence: the series that it belongs to, also those for which there is no room."""
        found = []
        for hit in self._read(occurrence):
            name = (hit.signal.id, hit.captures.get("total"))
            series = sample.series.get(name)
            if series is None:
                series = _Series(hit)
                if not sample.series or (len(sample.series) < MAX_SERIES and self._series_count < MAX_KEYS):
                    sample.series[name] = series
                    self._series_count += 1
            series.take(hit)
            found.append(series)
            if name in sample.series:
                self._since.setdefault(occurrence[1], hit.offset)
                sample.literals.setdefault(occurrence[1], set()).add(series)
        return found

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

    def _places(self, cell: Cell, limit_at: Occurrence, limit: int, *, last: bool) -> Iterator[Occurrence]:
        """Occurrences of a literal in a cell up to a place, from the beginning or, `last`, backwards: a few."""
        stop, ident = limit_at
        for end in self._stream.ends(self._literals[ident], cell.start, stop, last=last, limit=limit):
            yield end, ident


def _from(occurrences: Sequence[Occurrence], first: Occurrence) -> Sequence[Occurrence]:
    """A few of these descending occurrences, from one of them on."""
    begin = occurrences.index(first)
    return occurrences[begin : begin + TRIES]
