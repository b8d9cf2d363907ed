r"""The prefilter of the standard library: judge each *shape* of a line once.

Logs repeat themselves. What is left of a line without digits, blanks and brackets is its shape, and few shapes are new. Only
those go through an expression (a trie of all literals, shaped the same way). A shape that held no literal is never looked at
again; one that did is remembered with the literals it may hold, and these are then searched for in the block itself. So `find`
gives exactly what an exhaustive search would.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from firstfault.scan.prefilter import PlainPrefilter

MAX_SHAPES = 200_000
MAX_SHAPE_BYTES = 16 << 20
MAX_SHAPE_LENGTH = 512
MAX_HOT_SHAPES = 4096
_MIN_SHAPED_LITERAL = 3
_DELETED = b"0123456789 \t()[]{}"
_TO_NEWLINE = bytes.maketrans(b"\r", b"\n")


class ShapePrefilter:
    """Exact literals without any compiled engine, about 100 MB/s on logs."""

    def __init__(self, literals: Sequence[bytes], frequent: Collection[int] = (), *, once: bool = False) -> None:
        self._exact = PlainPrefilter(literals, frequent, once=once)
        self._shaped = {ident: _shape(literal) for ident, literal in enumerate(literals)}
        # A literal of which the translation leaves next to nothing would make every shape hot: it is always searched for.
        self._always = frozenset(ident for ident, shape in self._shaped.items() if len(shape) < _MIN_SHAPED_LITERAL)
        judged = {shape for ident, shape in self._shaped.items() if ident not in self._always}
        self._any_literal = re.compile(trie_pattern(judged)) if judged else None
        self._cold: set[bytes] = set()
        self._cold_bytes = 0
        self._hot: dict[bytes, frozenset[int]] = {}

    def find(self, block: bytes | memoryview) -> list[tuple[int, int]]:
        """Literal id and end offset of each occurrence, in order of the end offset."""
        data = bytes(block)
        candidates = self._always | self._candidates(data) if self._any_literal else self._always
        return self._exact.find_some(data, candidates) if candidates else []

    def _candidates(self, data: bytes) -> frozenset[int]:
        """Ids of the literals that the shapes in this data may hold."""
        # `-` walks the smaller set where `-=` would walk all shapes ever seen.
        shapes = set(_shape(data).split(b"\n")) - self._cold
        known: list[frozenset[int]] = []
        new: list[bytes] = []
        for shape in shapes:
            idents = self._hot.get(shape)
            if idents is None:
                new.append(shape)
            else:
                known.append(idents)
        return frozenset[int]().union(*known, *self._judge(new))

    def _judge(self, shapes: list[bytes]) -> Iterable[frozenset[int]]:
        """The literals of each new shape that holds any; the others are remembered as cold."""
        assert self._any_literal is not None
        hot: dict[bytes, frozenset[int]] = {}
        if self._any_literal.search(b"\n".join(shapes)):
            for shape in shapes:
                if self._any_literal.search(shape):
                    hot[shape] = frozenset(ident for ident, literal in self._shaped.items() if literal in shape)
        self._remember(shape for shape in shapes if shape not in hot and len(shape) <= MAX_SHAPE_LENGTH)
        if len(self._hot) + len(hot) > MAX_HOT_SHAPES:
            self._hot.clear()
        self._hot.update((shape, idents) for shape, idents in hot.items() if len(shape) <= MAX_SHAPE_LENGTH)
        return hot.values()

    def _remember(self, cold: Iterable[bytes]) -> None:
        for shape in cold:
            if len(self._cold) >= MAX_SHAPES or self._cold_bytes > MAX_SHAPE_BYTES:
                self._cold.clear()
                self._cold_bytes = 0
            self._cold.add(shape)
            self._cold_bytes += len(shape)


def trie_pattern(words: Iterable[bytes]) -> bytes:
    """An expression for any of the words that tries each byte of the text once: shared beginnings are written once."""
    groups: dict[int, list[bytes]] = {}
    for word in words:
        if not word:
            return b""
        groups.setdefault(word[0], []).append(word)
    branches = []
    for _, group in sorted(groups.items()):
        prefix = _common_prefix(min(group), max(group))
        rests = {word[len(prefix) :] for word in group}
        branches.append(re.escape(prefix) + (trie_pattern(rests) if len(rests) > 1 else b""))
    return branches[0] if len(branches) == 1 else b"(?:" + b"|".join(branches) + b")"


def _common_prefix(first: bytes, last: bytes) -> bytes:
    length = next(
        (at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), min(len(first), len(last))
    )
    return first[:length]


def _shape(data: bytes) -> bytes:
    return data.translate(_TO_NEWLINE, _DELETED)
