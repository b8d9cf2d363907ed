"""The default prefilter: hyperscan over literals only."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache
from math import log2
from operator import itemgetter
from typing import Any

from firstfault.errors import FirstfaultError

_WINDOW_BYTES = 8
_SHARING_GAIN = 4.0
"""How much rarer (in powers of two, over all triples) another window must be than one that twice as many literals share."""


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
        try:
            # Imported here: a paste is judged without it, and where it is missing another prefilter serves.
            import hyperscan
        except ImportError as error:
            raise HyperscanUnavailable(f"hyperscan cannot be loaded: {error}", hint="pip install hyperscan") from error
        self._scratch_type = hyperscan.Scratch
        self._local = threading.local()
        windows = _windows(tuple(literal for ident, literal in enumerate(literals) if ident not in frequent), sample)
        idents = {literal: ident for ident, literal in enumerate(literals)}
        self._owners = [[(idents[literal], literal, stop) for literal, stop in owners] for owners in windows.values()]
        self._frequent = sorted(frequent)
        expressions = [*windows, *(literals[ident] for ident in self._frequent)]
        single = hyperscan.HS_FLAG_SINGLEMATCH if once else 0
        self._database: Any = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        try:
            self._database.compile(
                expressions=expressions,
                ids=list(range(len(expressions))),
                elements=len(expressions),
                flags=[0] * len(windows) + [single] * len(self._frequent),
                literal=True,
            )
        except hyperscan.error as error:
            raise HyperscanUnavailable(f"hyperscan refused the literals: {error}") from error

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
            self._local.scratch = self._scratch_type(self._database)
        return self._local.scratch


@lru_cache(maxsize=4)
def _windows(literals: tuple[bytes, ...], sample: bytes) -> dict[bytes, list[tuple[bytes, int]]]:
    """The texts to search for: each with the literals that it stands for, and where in them it ends."""
    triples = Counter(sample[at : at + 3] for at in range(len(sample) - 2))
    shared = Counter(
        literal[stop - _WINDOW_BYTES : stop] for literal in literals for stop in range(_WINDOW_BYTES, len(literal) + 1)
    )
    gains = {window: _SHARING_GAIN * log2(count) for window, count in shared.items()}
    windows: dict[bytes, list[tuple[bytes, int]]] = {}
    for literal in literals:
        best, best_stop = literal, len(literal)
        if len(literal) > _WINDOW_BYTES:
            costs = [log2(1 + triples[literal[at : at + 3]]) for at in range(len(literal) - 2)]
            choices = []
            for start in range(len(literal) - _WINDOW_BYTES + 1):
                window = literal[start : start + _WINDOW_BYTES]
                choices.append((sum(costs[start : start + _WINDOW_BYTES - 2]) - gains[window], window, start))
            # The text itself breaks ties, so that literals which share several windows choose the same one.
            choices.sort()
            _, best, start = next((choice for choice in choices if choice[1] not in sample), choices[0])
            best_stop = start + _WINDOW_BYTES
        windows.setdefault(best, []).append((literal, best_stop))
    return windows
