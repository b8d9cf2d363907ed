"""Which literals stand where in a block: the seam behind which the search engines sit."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import itemgetter
from typing import Literal, Protocol

PrefilterChoice = Literal["auto", "hyperscan", "shapes"]


class Prefilter(Protocol):
    """Finds every occurrence of a fixed set of literals; with `once`, of the frequent ones the first of each block."""

    def find(self, block: bytes | memoryview) -> list[tuple[int, int]]:
        """Literal id and end offset of each occurrence, overlapping ones included, in order of the end offset.

        Literals that end at one place come in any order.
        """


class PlainPrefilter:
    """Looks for one literal after the other: slow on much text, but ready at once, which is what a paste needs."""

    def __init__(self, literals: Sequence[bytes], frequent: Collection[int] = (), *, once: bool = False) -> None:
        self._literals = tuple(literals)
        self._once = frozenset(frequent if once else ())

    def find(self, block: bytes | memoryview) -> list[tuple[int, int]]:
        """Literal id and end offset of each occurrence, in order of the end offset."""
        return self.find_some(bytes(block), range(len(self._literals)))

    def find_some(self, data: bytes, idents: Collection[int]) -> list[tuple[int, int]]:
        """The same for some of the literals only."""
        found: list[tuple[int, int]] = []
        for ident in idents:
            literal = self._literals[ident]
            start = data.find(literal)
            while start >= 0:
                found.append((ident, start + len(literal)))
                start = data.find(literal, start + 1) if ident not in self._once else -1
        found.sort(key=itemgetter(1))
        return found


def make_prefilter(
    literals: Sequence[bytes],
    frequent: Collection[int] = (),
    *,
    once: bool = False,
    choice: PrefilterChoice = "auto",
    sample: bytes = b"",
) -> Prefilter:
    """The prefilter asked for; `auto` is hyperscan where it can be loaded, and line shapes elsewhere.

    `sample` is some of the text, to tune the search to.
    """
    if choice != "shapes":
        from firstfault.scan.hyperscan_prefilter import HyperscanPrefilter, HyperscanUnavailable

        try:
            return HyperscanPrefilter(literals, frequent, once=once, sample=sample)
        except HyperscanUnavailable:
            if choice == "hyperscan":
                raise
    from firstfault.scan.shape_prefilter import ShapePrefilter

    return ShapePrefilter(literals, frequent, once=once)
