"""Which short windows to search for in place of literals: a few that are rare, each shared by as many literals as possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import pairwise
from math import log2

WINDOW_BYTES = 4
LONG_WINDOW_BYTES = 8
"""What hyperscan compares at once: a window of a literal whose short ones are all common."""
_BASE_COST = 20.0
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
    seen = {sample[at : at + WINDOW_BYTES] for at in range(len(sample) - WINDOW_BYTES + 1)}
    holders: dict[bytes, list[tuple[bytes, int]]] = {}
    for literal in literals:
        for stop in range(WINDOW_BYTES, len(literal) + 1):
            window = literal[stop - WINDOW_BYTES : stop]
            if window not in seen:
                holders.setdefault(window, []).append((literal, stop))
    costs = _costs(holders, sample)
    waiting = [(costs[window] / len(owners), window) for window, owners in holders.items()]
    heapify(waiting)
    left = set(literals)
    windows: dict[bytes, Owners] = {}
    while waiting and left:
        cost, window = heappop(waiting)
        # A window that stands twice in a literal finds it at either.
        owners = list({literal: (literal, stop) for literal, stop in holders[window] if literal in left}.values())
        if not owners:
            continue
        if costs[window] / len(owners) > cost:
            holders[window] = owners
            heappush(waiting, (costs[window] / len(owners), window))
            continue
        windows[window] = tuple(owners)
        left.difference_update(literal for literal, _ in owners)
    for literal in sorted(left):
        stop, window = _long_window(literal, sample)
        windows[window] = (*windows.get(window, ()), (literal, stop))
    return tuple(windows.items())


def _costs(windows: Collection[bytes], sample: bytes) -> dict[bytes, float]:
    """What it costs to search for each window: more, the commoner its outer pairs of bytes are in the sample."""
    counts = Counter(pairwise(sample))
    common = {bytes(pair): log2(1 + 2 * count) for pair, count in counts.items()}
    return {window: _BASE_COST + common.get(window[:2], 0.0) + common.get(window[-2:], 0.0) for window in windows}


def _other_window(literal: bytes, used: Collection[bytes], common: Collection[bytes], text: bytes) -> tuple[int, bytes]:
    """Where in the literal another window ends, and that window: a short one that is not in the text, else a long one."""
    own = [(stop, literal[stop - WINDOW_BYTES : stop]) for stop in range(WINDOW_BYTES, len(literal) + 1)]
    own.sort(key=lambda one: one[1] not in used)
    for stop, window in own:
        if window in used or (window not in common and window not in text):
            return stop, window
    return _long_window(literal, text)


def _long_window(literal: bytes, text: bytes) -> tuple[int, bytes]:
    """Where in the literal its rarest window of eight bytes ends, and that window; of a shorter literal it is all."""
    width = min(LONG_WINDOW_BYTES, len(literal))
    own = ((stop, literal[stop - width : stop]) for stop in range(width, len(literal) + 1))
    return min(own, key=lambda one: text.count(one[1]))
