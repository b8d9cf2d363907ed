"""The default prefilter: hyperscan over literals only."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import accumulate, pairwise
from math import log2
from operator import itemgetter
from typing import Any

from firstfault.errors import FirstfaultError

_WINDOW_BYTES = 8
_BASE_COST = 10.0
"""What a window costs however rare it is; each of its pairs of bytes adds the power of two by which it is common."""
_ENDING_BYTES = 2
_ENDING_FACTOR = 0.8
"""Hyperscan groups literals by how they end: windows with an ending that another one has are cheaper."""
_SEEN_FACTOR = 50.0
"""A window that stands in the sample is worse than any other."""


class HyperscanUnavailable(FirstfaultError):
    """Hyperscan is not installed here, or this processor cannot run it."""


class HyperscanPrefilter:
    """Literals in hyperscan's block mode; safe to share between threads, each has its own scratch space.

    Hyperscan tells literals apart by eight bytes, is faster the fewer there are, and slows down where they are common. So it
    gets one window of eight bytes of each literal, one that is rare in a sample of the text and that other literals share; the
    literal itself is compared at each match. The `frequent` literals, which match often, are given whole.
    """

    def __init__(
        self, literals: Sequence[bytes], frequent: Collection[int] = (), *, once: bool = False, sample: bytes = b""
    ) -> None:
        windows = _windows(tuple(literal for ident, literal in enumerate(literals) if ident not in frequent), sample)
        idents = {literal: ident for ident, literal in enumerate(literals)}
        self._owners = [[(idents[literal], literal, stop) for literal, stop in owners] for owners in windows.values()]
        self._frequent = sorted(frequent)
        expressions = (*windows, *(literals[ident] for ident in self._frequent))
        self._database = _compiled(expressions, len(self._frequent) if once else 0)
        self._local = threading.local()

    def find(self, block: bytes | memoryview) -> list[tuple[int, int]]:
        """Literal id and end offset of each occurrence, in order of the end offset."""
        found: list[tuple[int, int]] = []
        rare: list[tuple[int, int]] = []
        keep, frequent, owners, windows = found.append, self._frequent, self._owners, len(self._owners)

        def on_match(number: int, start: int, end: int, flags: int, context: object) -> None:
            if number >= windows:
                keep((frequent[number - windows], end))
                return
            for ident, literal, stop in owners[number]:
                begin = end - stop
                if begin >= 0 and block[begin : begin + len(literal)] == literal:
                    rare.append((ident, begin + len(literal)))

        self._database.scan(block, match_event_handler=on_match, scratch=self._scratch())
        return sorted(found + rare, key=itemgetter(1)) if rare else found

    def _scratch(self) -> Any:
        if not hasattr(self._local, "scratch"):
            self._local.scratch = _hyperscan().Scratch(self._database)
        return self._local.scratch


def _hyperscan() -> Any:
    try:
        # Imported here: a paste is judged without it, and where it is missing another prefilter serves.
        import hyperscan
    except ImportError as error:
        raise HyperscanUnavailable(f"hyperscan cannot be loaded: {error}", hint="pip install hyperscan") from error
    return hyperscan


@lru_cache(maxsize=8)
def _compiled(expressions: tuple[bytes, ...], once: int) -> Any:
    """The database for these literals, compiled once a process; of the last `once` only the first match is reported."""
    hyperscan = _hyperscan()
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    try:
        database.compile(
            expressions=list(expressions),
            ids=list(range(len(expressions))),
            elements=len(expressions),
            flags=[0] * (len(expressions) - once) + [hyperscan.HS_FLAG_SINGLEMATCH] * once,
            literal=True,
        )
    except hyperscan.error as error:
        raise HyperscanUnavailable(f"hyperscan refused the literals: {error}") from error
    return database


@lru_cache(maxsize=4)
def _windows(literals: tuple[bytes, ...], sample: bytes) -> dict[bytes, list[tuple[bytes, int]]]:
    """The texts to search for: each with the literals that it stands for, and where in them it ends.

    Chosen one after the other, each time the window that stands for the most literals at the least cost.
    """
    windows = {literal: [(literal, len(literal))] for literal in literals if len(literal) <= _WINDOW_BYTES}
    parts = {literal: _parts(literal) for literal in literals if len(literal) > _WINDOW_BYTES}
    holders: dict[bytes, list[tuple[bytes, int]]] = {}
    by_ending: dict[bytes, list[bytes]] = {}
    for literal, own in parts.items():
        for stop, window in enumerate(own, start=_WINDOW_BYTES):
            if window not in holders:
                by_ending.setdefault(window[-_ENDING_BYTES:], []).append(window)
            holders.setdefault(window, []).append((literal, stop))
    costs = _costs(parts, sample)
    counts = {window: len(own) for window, own in holders.items()}
    waiting = [(costs[window] / count, window) for window, count in counts.items()]
    heapify(waiting)
    checked: set[bytes] = set()
    while parts:
        cost, window = heappop(waiting)
        if not counts[window]:
            continue
        if costs[window] / counts[window] <= cost and window not in checked:
            checked.add(window)
            if window in sample:
                costs[window] *= _SEEN_FACTOR
        if costs[window] / counts[window] > cost:
            heappush(waiting, (costs[window] / counts[window], window))
            continue
        chosen = {literal: stop for literal, stop in holders[window] if literal in parts}
        windows[window] = [*windows.get(window, ()), *chosen.items()]
        for literal in chosen:
            for part in parts.pop(literal):
                counts[part] -= 1
        for other in by_ending.pop(window[-_ENDING_BYTES:], ()):
            costs[other] *= _ENDING_FACTOR
            if counts[other]:
                heappush(waiting, (costs[other] / counts[other], other))
    return windows


def _costs(parts: Mapping[bytes, Sequence[bytes]], sample: bytes) -> dict[bytes, float]:
    """What it costs to search for each window: more, the commoner its pairs of bytes are in the sample."""
    common = {pair: log2(1 + 2 * count) for pair, count in Counter(pairwise(sample)).items()}
    costs: dict[bytes, float] = {}
    for literal, own in parts.items():
        sums = list(accumulate((common.get(pair, 0.0) for pair in pairwise(literal)), initial=_BASE_COST))
        for start, window in enumerate(own):
            costs[window] = _BASE_COST + sums[start + _WINDOW_BYTES - 1] - sums[start]
    return costs


def _parts(literal: bytes) -> list[bytes]:
    return [literal[start : start + _WINDOW_BYTES] for start in range(len(literal) - _WINDOW_BYTES + 1)]
