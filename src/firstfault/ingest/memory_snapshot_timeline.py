"""Memory over time in a bounded number of points, whatever the length of the trace, and what each call site keeps for good."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from heapq import nlargest

import msgspec

MAX_POINTS = 2_000
MAX_POINT_SITES = 160
MAX_WINDOWS = 64
FIRST_WINDOW = 32


class Point(msgspec.Struct):
    """A moment: the event's number, microseconds, bytes since the recording began, by call site for the largest.

    `high` is the highest `total` since the point before.
    """

    event: int
    time_us: int
    total: int
    high: int
    reserved: int
    sites: array[int]
    sizes: array[int]


class Timeline:
    """At most `MAX_POINTS` points at even distances; every time they are too many, of each two the lower one goes."""

    def __init__(self) -> None:
        self.points: list[Point] = []
        self._stride = 1
        self._high = 0
        self._next = 0

    def pass_by(self, event: int, time_us: int, total: int, reserved: int, sites: Mapping[int, int]) -> None:
        """The state after an event."""
        self._high = max(self._high, total)
        if event >= self._next:
            self.take(event, time_us, total, reserved, sites)
            self._next = event + self._stride

    def take(self, event: int, time_us: int, total: int, reserved: int, sites: Mapping[int, int]) -> None:
        """A point now, even if none is due."""
        items = [(site, size) for site, size in sites.items() if size]
        if len(items) > MAX_POINT_SITES:
            items = nlargest(MAX_POINT_SITES, items, key=lambda item: abs(item[1]))
        keys, values = array("i", [site for site, _ in items]), array("q", [size for _, size in items])
        self.points.append(Point(event, time_us, total, max(self._high, total), reserved, keys, values))
        self._high = total
        if len(self.points) >= MAX_POINTS:
            self._halve()

    def _halve(self) -> None:
        points = self.points
        kept = []
        for first, second in zip(points[::2], points[1::2], strict=False):
            better = first if first.total > second.total else second
            better.high = max(first.high, second.high)
            kept.append(better)
        if len(points) % 2:
            kept.append(points[-1])
        self.points = kept
        self._stride *= 2


class Windows:
    """The least that each call site held in each stretch of the trace: what rises there is not given back.

    `lows[i]` is by site index. Of too many stretches, each two become one.
    """

    def __init__(self) -> None:
        self.lows: list[array[int]] = []
        self._low: dict[int, int] = {}
        self._length = FIRST_WINDOW
        self._left = FIRST_WINDOW

    def freed(self, site: int, held: int) -> None:
        """A site gave something back and holds `held` bytes now."""
        if held < self._low.get(site, held + 1):
            self._low[site] = held

    def pass_by(self, sites: Mapping[int, int]) -> None:
        """One event passed; `sites` is what each holds."""
        self._left -= 1
        if self._left:
            return
        low = array("q", bytes(8 * (1 + max(sites, default=0))))
        for site, held in sites.items():
            low[site] = min(held, self._low.get(site, held))
        self._low = {}
        self.lows.append(low)
        if len(self.lows) >= MAX_WINDOWS:
            self.lows = [_lower(first, second) for first, second in zip(self.lows[::2], self.lows[1::2], strict=True)]
            self._length *= 2
        self._left = self._length


def _lower(first: array[int], second: array[int]) -> array[int]:
    # A site that came later held nothing before.
    return array("q", [min(pair) for pair in zip(first, second, strict=False)]) + array(
        "q", bytes(8 * (len(second) - len(first)))
    )
