"""The default prefilter: hyperscan over literals only."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from firstfault.errors import FirstfaultError

_DECIDING_BYTES = 8


class HyperscanUnavailable(FirstfaultError):
    """Hyperscan is not installed here, or this processor cannot run it."""


class HyperscanPrefilter:
    """Literals in hyperscan's block mode; safe to share between threads, each has its own scratch space.

    Hyperscan tells literals by their last eight bytes, and slows down where these are common. So it gets each literal only up
    to where its last bytes are rarest in a sample of the text; what is left of the literal is compared at each match. The
    `frequent` literals, which match often, are given whole.
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
        lengths = _searched_lengths(literals, sample)
        for ident in frequent:
            lengths[ident] = len(literals[ident])
        self._rests = [literal[length:] for literal, length in zip(literals, lengths, strict=True)]
        self._database: Any = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        try:
            self._database.compile(
                expressions=[literal[:length] for literal, length in zip(literals, lengths, strict=True)],
                ids=list(range(len(literals))),
                elements=len(literals),
                flags=[hyperscan.HS_FLAG_SINGLEMATCH if once and ident in frequent else 0 for ident in range(len(literals))],
                literal=True,
            )
        except hyperscan.error as error:
            raise HyperscanUnavailable(f"hyperscan refused the literals: {error}") from error

    def find(self, block: bytes | memoryview) -> list[tuple[int, int]]:
        """Literal id and end offset of each occurrence, in order of the end offset."""
        found: list[tuple[int, int]] = []
        cut: list[tuple[int, int]] = []
        keep, rests = found.append, self._rests

        def on_match(ident: int, start: int, end: int, flags: int, context: object) -> None:
            rest = rests[ident]
            if not rest:
                keep((ident, end))
            elif block[end : end + len(rest)] == rest:
                cut.append((ident, end + len(rest)))

        self._database.scan(block, match_event_handler=on_match, scratch=self._scratch())
        return sorted(found + cut, key=lambda occurrence: occurrence[1]) if cut else found

    def _scratch(self) -> Any:
        if not hasattr(self._local, "scratch"):
            self._local.scratch = self._scratch_type(self._database)
        return self._local.scratch


def _searched_lengths(literals: Sequence[bytes], sample: bytes) -> list[int]:
    """How much of each literal to search for: up to where its last eight bytes are made of the rarest triples."""
    triples = Counter(sample[at : at + 3] for at in range(len(sample) - 2))
    lengths = []
    for literal in literals:
        common = [triples[literal[at : at + 3]] for at in range(len(literal) - 2)]
        stops = range(len(literal), _DECIDING_BYTES - 1, -1)
        sums = [sum(common[stop - _DECIDING_BYTES : stop - 2]) for stop in stops]
        lengths.append(stops[sums.index(min(sums))] if sums else len(literal))
    return lengths
