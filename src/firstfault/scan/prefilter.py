"""Which literals stand where in a block: the seam behind which the search engines sit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

PrefilterChoice = Literal["auto", "hyperscan", "shapes"]


class Prefilter(Protocol):
    """Finds every occurrence of a fixed set of literals."""

    def find(self, block: bytes | memoryview) -> list[tuple[int, int]]:
        """Literal id and end offset of each occurrence, in order of the end offset; overlapping ones included."""


class PlainPrefilter:
    """Looks for one literal after the other: slow on much text, but ready at once, which is what a paste needs."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        self._literals = tuple(enumerate(literals))

    def find(self, block: bytes | memoryview) -> list[tuple[int, int]]:
        """Literal id and end offset of each occurrence, in order of the end offset."""
        data = bytes(block)
        found = [(ident, end) for ident, literal in self._literals if literal in data for end in occurrences(data, literal)]
        found.sort(key=_end_offset)
        return found


def occurrences(data: bytes, literal: bytes) -> list[int]:
    """End offsets of all occurrences of `literal`, overlapping ones included."""
    ends, start = [], data.find(literal)
    while start >= 0:
        ends.append(start + len(literal))
        start = data.find(literal, start + 1)
    return ends


def make_prefilter(literals: Sequence[bytes], choice: PrefilterChoice = "auto") -> Prefilter:
    """The prefilter asked for; `auto` is hyperscan where it can be loaded, and line shapes elsewhere."""
    if choice != "shapes":
        from firstfault.scan.hyperscan_prefilter import HyperscanPrefilter, HyperscanUnavailable

        try:
            return HyperscanPrefilter(literals)
        except HyperscanUnavailable:
            if choice == "hyperscan":
                raise
    from firstfault.scan.shape_prefilter import ShapePrefilter

    return ShapePrefilter(literals)


def _end_offset(occurrence: tuple[int, int]) -> int:
    return occurrence[1]
