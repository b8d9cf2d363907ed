"""Which short windows to search for in place of literals: a few that are rare, each shared by as many literals as possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import chain, pairwise
from math import log2

WINDOW_BYTES = 4
LONG_WINDOW_BYTES = 8
"""What hyperscan compares at once: a window of a literal whose short ones are all common."""
_BASE_COST = 200.0
"""What a window costs however rare it is; its outer pairs of bytes add the power of two by which they are common."""

Owners = tuple[tuple[bytes, int], ...]
"""The literals that a window stands for, and where in each of them it ends."""


def choose_windows(literals: Sequence[bytes], sample: bytes) -> dict[bytes, Owners]:
    """The windows to search for, none of which stands in the sample if that can be had.

    Chosen one after the other, each time the one that stands for the most literals at the least cost.
    """
    return dict(_chosen(tuple(literals), sample))


def replace_windows(windows: Mapping[bytes, Owners], common: Collection[bytes], text: bytes) -> dict[bytes, Owners]:
    """The same without those windows that are common in the text: their literals get others, best of all one in use."""
    changed = {window: list(owners) for window, owners in windows.items() if window not in common}
    for window in common:
        for literal, _ in windows[window]:
            stop, other = _other_window(literal, changed, common, text)
            changed.setdefault(other, []).append((literal, stop))
    return {window: tuple(owners) for window, owners in changed.items()}


@lru_cache(maxsize=4)
def _chosen(literals: tuple[bytes, ...], sample: bytes) -> tuple[tuple[bytes, Owners], ...]:
    cost = _costs(sample)
    parts = {literal: [window for _, window in _short_windows(literal)] for literal in literals}
    counts = Counter(chain.from_iterable(parts.values()))
    seen = {sample[at : at + WINDOW_BYTES] for at in range(len(sample) - WINDOW_BYTES + 1)}
    waiting = [(cost(window) / count, window) for window, count in counts.items() if count > 1 and window not in seen]
    heapify(waiting)
    left = list(literals)
    windows: dict[bytes, Owners] = {}
    while waiting:
        rank, window = heappop(waiting)
        count = counts[window]
        if count > 1 and cost(window) / count > rank:
            heappush(waiting, (cost(window) / count, window))
        elif count > 1:
            owners = [literal for literal in left if window in literal]
            windows[window] = tuple((literal, literal.index(window) + WINDOW_BYTES) for literal in owners)
            left = [literal for literal in left if window not in literal]
            counts.subtract(chain.from_iterable(parts[literal] for literal in owners))
    for literal in left:
        stop, window = min(
            ((stop, window) for stop, window in _short_windows(literal) if window not in seen),
            key=lambda one: cost(one[1]),
            default=None,
        ) or _long_window(literal, sample)
        windows[window] = (*windows.get(window, ()), (literal, stop))
    return tuple(windows.items())


def _costs(sample: bytes) -> Callable[[bytes], float]:
    """What it costs to search for a window: more, the commoner its outer pairs of bytes are in the sample."""
    common = {bytes(pair): log2(1 + 2 * count) for pair, count in Counter(pairwise(sample)).items()}
    return lambda window: _BASE_COST + common.get(window[:2], 0.0) + common.get(window[-2:], 0.0)


def _short_windows(literal: bytes) -> list[tuple[int, bytes]]:
    return [(stop, literal[stop - WINDOW_BYTES : stop]) for stop in range(WINDOW_BYTES, len(literal) + 1)]


def _other_window(literal: bytes, used: Collection[bytes], common: Collection[bytes], text: bytes) -> tuple[int, bytes]:
    """Where in the literal another window ends, and that window: a short one that is not in the text, else a long one."""
    for stop, window in sorted(_short_windows(literal), key=lambda one: one[1] not in used):
        if window in used or (window not in common and window not in text):
            return stop, window
    return _long_window(literal, text)


def _long_window(literal: bytes, text: bytes) -> tuple[int, bytes]:
    """Where in the literal its rarest window of eight bytes ends, and that window; of a shorter literal it is all."""
    width = min(LONG_WINDOW_BYTES, len(literal))
    own = ((stop, literal[stop - width : stop]) for stop in range(width, len(literal) + 1))
    return min(own, key=lambda one: text.count(one[1]))
