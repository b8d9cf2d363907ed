"""The lines of what the scan kept: decoded, without prefixes, each at the place that prefix, neighbours and file name give."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from firstfault.ingest.label import find_label
from firstfault.ingest.line_template import LineTemplate
from firstfault.ingest.lines import Line
from firstfault.ingest.prefix import Label, join_places, parse_prefix
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.bundle import Note
from firstfault.model.event import Place
from firstfault.scan.lines import decode_line, iter_lines
from firstfault.scan.result import Window

MAX_LINE_BYTES = 32 << 10
SAMPLE_LINES = 400
_MAX_ADOPTED = 200

_CONTINUES = lazy_pattern(
    r"nccl\w+Error: |Last error:|Exception raised from |frame #\d+: |  what\(\): |terminate called after|NCCL error in: "
    r"|Fatal Python error: "
)
"""What native code prints below a message of its own, without repeating the prefix."""
_NATIVE_TEXT = lazy_pattern(r"NCCL error|NCCL WARN|nccl\w+Error|C\+\+ exception|\b[A-Za-z]+::\w*(?:Error|Exception)")
_NATIVE_PREFIXES = frozenset({"glog", "group", "nccl"})
_STANDS_BELOW = lazy_pattern(r"Last error:\s*$", needs="Last error:")


def lines_of(window: Window, outer: Place, label: Label) -> list[Line]:
    """The lines of a window, in order."""
    lines: list[Line] = []
    above: Line | None = None
    adopted = 0
    native = False
    for offset, number, data in iter_lines(window):
        raw = decode_line(data[:MAX_LINE_BYTES])
        if offset == 0:
            raw = raw.removeprefix("\ufeff")
        prefix = parse_prefix(raw, label=label)
        place = join_places(outer, prefix.place)
        is_below = above is not None and not prefix.kind and adopted < _MAX_ADOPTED and _is_below(prefix.rest, above, native)
        if is_below and above is not None:
            place = replace(above.place, time=None)
            adopted += 1
        line = Line(text=prefix.rest, raw=raw, offset=offset, number=number, place=place)
        lines.append(line)
        if place.rank is None and place.local_rank is None:
            above = None
        elif prefix.kind:
            above, adopted = line, 0
            native = not _NATIVE_PREFIXES.isdisjoint(prefix.kind.split("+")) or bool(_NATIVE_TEXT.search(prefix.rest))
        elif above is not None:
            above = line if place is not outer and place.rank == above.place.rank else None
    return lines


def _is_below(text: str, above: Line, native: bool) -> bool:
    """True if `text` belongs to the message that ends in the line above it.

    Only a `native` message is continued: below a complete record of Python's stands whatever process prints next.
    """
    return native and (bool(_CONTINUES.match(text)) or bool(_STANDS_BELOW.search(above.text)))


def label_of(windows: Sequence[Window], template: LineTemplate | None = None) -> Label:
    """What a label at the start of every line means, judged by the beginning and the end of the source."""
    return find_label(_sample(windows), template)


def agreed_place(path: str, named: Place, windows: Sequence[Window]) -> tuple[Place, Note | None]:
    """What the file's name says, unless its lines speak of another rank: then they count, and a note says so."""
    if named.rank is None:
        return named, None
    ranks = {prefix.place.rank for line in _sample(windows) if (prefix := parse_prefix(line)).kind.startswith("rank")}
    if not ranks or named.rank in ranks:
        return named, None
    shown = ", ".join(str(rank) for rank in sorted(rank for rank in ranks if rank is not None)[:5])
    note = Note(path, f"is named after rank {named.rank}, but its lines say rank {shown}: the lines count")
    return replace(named, rank=next(iter(ranks)) if len(ranks) == 1 else None), note


def _sample(windows: Sequence[Window]) -> list[str]:
    if not windows:
        return []
    head = _some_lines(windows[0].data[: 64 << 10])[:SAMPLE_LINES]
    tail = _some_lines(windows[-1].data[-(32 << 10) :])[1:][-SAMPLE_LINES:]
    return [*head, *tail]


def _some_lines(data: bytes) -> list[str]:
    return [decode_line(raw[:1000]) for raw in re.split(rb"[\r\n]+", data)]


def ranks_by_local(lines: Iterable[Line]) -> dict[int, int]:
    """The global rank of each local one, where lines name both and never two for one (a log of several nodes does)."""
    named: dict[int, set[int]] = defaultdict(set)
    for line in lines:
        if line.place.rank is not None and line.place.local_rank is not None:
            named[line.place.local_rank].add(line.place.rank)
    return {local: next(iter(ranks)) for local, ranks in named.items() if len(ranks) == 1}


def with_rank(place: Place, ranks: Mapping[int, int]) -> Place:
    """`place` with the global rank that its local rank stands for."""
    if place.rank is not None or place.local_rank is None or place.local_rank not in ranks:
        return place
    return replace(place, rank=ranks[place.local_rank])


def line_at(lines: Sequence[Line], offsets: Sequence[int], offset: int, number: int) -> Line | None:
    """The line `number` in which the byte at `offset` stands; `offsets` are those of `lines`."""
    index = bisect_right(offsets, offset) - 1
    return lines[index] if index >= 0 and lines[index].number == number else None
