"""Sizes that a run prints of its model and its batches: the vocabulary, the weights, the shape of `input_ids`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from firstfault.ingest.context import Context
from firstfault.ingest.lines import Line
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Setting

MAX_SIZES = 200
MAX_RANKS = 1024

WORDS = ("vocab_size", "input_ids", "total_size")

_SIZES = (
    # A model's configuration, printed or handed over; `tokenizer.vocab_size` counts no added tokens.
    ("vocab_size", lazy_pattern(r"(?<![\w.])\"?vocab_size\"?\s*[=:]\s*(?P<value>[1-9]\d{1,7})\b(?!\.\d)", needs="vocab_size")),
    # The index of a checkpoint in several files
    ("weights_bytes", lazy_pattern(r"^\s*\"total_size\"\s*:\s*(?P<value>[1-9]\d{3,15})\b(?!\.\d)", needs="total_size")),
)
_SHAPE = lazy_pattern(
    r"\binput_ids(?:\.shape|\.size\(\)|_shape| shape)?['\"]?\s*[=:]?\s*(?:torch\.Size\()?"
    r"[\[(](?P<rows>\d{1,6}), ?(?P<length>\d{1,8})[\])]",
    needs="input_ids",
)


def read_batch_shapes(lines: Sequence[Line], ctx: Context) -> tuple[Setting, ...]:
    """Settings of the family `printed`: `vocab_size`, `weights_bytes`, and of each rank the shapes of `input_ids`.

    Of the shapes (`4x2048`) three are kept: `input_ids.first`, `input_ids.last` and the largest before the last,
    `input_ids.largest_before`, each with `.<rank>` behind it where the line names its rank.
    """
    found: list[Setting] = []
    shapes: dict[int | None, _Shapes] = {}
    for line in lines:
        text = line.text[:2_000]
        for key, pattern in _SIZES:
            size = pattern.search(text)
            if size and len(found) < MAX_SIZES:
                found.append(_setting(key, int(size["value"]), line, ctx))
        shape = _SHAPE.search(text)
        if shape and (line.place.rank in shapes or len(shapes) < MAX_RANKS):
            shapes.setdefault(line.place.rank, _Shapes()).add((int(shape["rows"]), int(shape["length"])), line)
    for rank, kept in shapes.items():
        for name, (one, line) in kept.named():
            key = f"input_ids.{name}" if rank is None else f"input_ids.{name}.{rank}"
            found.append(_setting(key, f"{one[0]}x{one[1]}", line, ctx))
    return tuple(found)


_Shown = tuple[tuple[int, int], Line]


class _Shapes:
    """The shapes that one rank printed."""

    def __init__(self) -> None:
        self._first: _Shown | None = None
        self._last: _Shown | None = None
        self._largest: _Shown | None = None

    def add(self, shape: tuple[int, int], line: Line) -> None:
        """Add the next one."""
        if self._last is not None and (self._largest is None or prod(self._last[0]) > prod(self._largest[0])):
            self._largest = self._last
        self._last = (shape, line)
        self._first = self._first or self._last

    def named(self) -> Iterator[tuple[str, _Shown]]:
        """What is kept, by its name."""
        for name, shown in (("first", self._first), ("largest_before", self._largest), ("last", self._last)):
            if shown is not None:
                yield name, shown


def _setting(key: str, value: int | str, line: Line, ctx: Context) -> Setting:
    text = line.text.strip()[:500]
    return Setting(family="printed", key=key, value=value, span=ctx.span(line), text=text, source_id=ctx.source_id)
