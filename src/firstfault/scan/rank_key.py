"""Which rank a line shows, asked as rarely as possible: a log may hold millions of progress lines."""

from __future__ import annotations

from collections.abc import Callable

from firstfault.lazy_pattern import lazy_pattern

MAX_LAYOUTS = 4096
_ALIKE = bytes.maketrans(b"123456789", b"000000000")
_NUMBER = lazy_pattern(rb"[0-9]+")


class RankKeys:
    """Rank keys of line beginnings.

    Lines that differ in digits alone are taken to be alike: either none of them shows a rank, or the same number of each does.
    `rank_of` is asked until it is known which, and again when the numbers that may be the rank say different things.
    """

    def __init__(self, rank_of: Callable[[bytes], int | None]) -> None:
        self._rank_of = rank_of
        self._places: dict[bytes, tuple[slice, ...]] = {}

    def key(self, beginning: bytes) -> int | None:
        """The rank that the beginning of a line shows."""
        places = self._places.get(beginning.translate(_ALIKE))
        if places is None:
            return self._ask(beginning)
        if not places:
            return None
        if len(places) == 1:
            return int(beginning[places[0]])
        values = {int(beginning[place]) for place in places}
        return values.pop() if len(values) == 1 else self._ask(beginning)

    def _ask(self, beginning: bytes) -> int | None:
        key = self._rank_of(beginning)
        layout = beginning.translate(_ALIKE)
        places = self._places.get(layout)
        if places is None:
            places = tuple(slice(*found.span()) for found in _NUMBER.finditer(beginning))
            if len(self._places) >= MAX_LAYOUTS:
                self._places.clear()
        matching = tuple(place for place in places if int(beginning[place]) == key)
        if matching or key is None:
            self._places[layout] = matching
        return key
