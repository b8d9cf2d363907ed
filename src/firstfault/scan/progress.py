"""Progress lines, sampled: they may be every tenth line of a log, so they are counted and only the outermost are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from firstfault.scan.result import Hit, ProgressSample
from firstfault.scan.stream import Stream

MAX_KEYS = 4096
MAX_TRIES = 64
"""Occurrences of a block that are read from each side before giving up: what holds the literal is mostly the signal."""

Occurrence = tuple[int, int]
"""End offset of a literal, and its id."""


class _Sample:
    __slots__ = ("count", "first", "last")

    def __init__(self) -> None:
        self.count = 0
        self.first: Hit | None = None
        self.last: Hit | None = None


class ProgressSampler:
    """First, last and number of the progress lines of each rank key (None without `rank_of`)."""

    def __init__(
        self,
        stream: Stream,
        rank_of: Callable[[bytes], int | None] | None,
        read: Callable[[Occurrence], Sequence[Hit]],
    ) -> None:
        self._stream = stream
        self._rank_of = rank_of
        self._read = read
        self._samples: dict[int | None, _Sample] = {}

    def take(self, occurrences: Sequence[Occurrence]) -> None:
        """Count the occurrences of a block, and read the outermost of each key."""
        for key, group in self._by_key(occurrences).items():
            sample = self._samples.setdefault(key, _Sample())
            sample.count += len(group)
            if sample.first is None:
                sample.first = next((hits[0] for place in group[:MAX_TRIES] if (hits := self._read(place))), None)
            latest = (hits[-1] for place in reversed(group[-MAX_TRIES:]) if (hits := self._read(place)))
            sample.last = next(latest, sample.last)

    def samples(self) -> tuple[ProgressSample, ...]:
        """One sample a key, unknown ranks first."""
        order = sorted(self._samples.items(), key=lambda item: (item[0] is not None, item[0] or 0))
        return tuple(ProgressSample(key=key, count=one.count, first=one.first, last=one.last) for key, one in order)

    def _by_key(self, occurrences: Sequence[Occurrence]) -> dict[int | None, Sequence[Occurrence]]:
        if self._rank_of is None:
            return {None: occurrences} if occurrences else {}
        rank_of, prefix = self._rank_of, self._stream.line_prefix
        groups: dict[int | None, list[Occurrence]] = {}
        for occurrence in occurrences:
            key = rank_of(prefix(occurrence[0]))
            group = groups.get(key)
            if group is None:
                if key not in self._samples and len(self._samples) + len(groups) >= MAX_KEYS:
                    key = None
                group = groups.setdefault(key, [])
            group.append(occurrence)
        return dict(groups)
