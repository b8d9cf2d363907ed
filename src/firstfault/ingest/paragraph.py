"""The sources in running text without fences: sentences, then a configuration, then a command, then what it printed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from firstfault.ingest.linekind import addresses_somebody, is_prose
from firstfault.ingest.part import Part, Row, merged, part_of
from firstfault.ingest.sniff import structured_kind
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.bundle import SourceKind

_MIN_KEYS = 3
_MAX_JSON_BYTES = 256 << 10
_VARIABLE = lazy_pattern(r"\s*(?:export )?[A-Za-z_]\w*=|\s*#")


def split_paragraphs(data: bytes, rows: Sequence[Row]) -> list[Part]:
    """The parts of `rows`; blank rows go with what stands before them, and together the parts cover every row."""
    parts: list[Part] = []
    for paragraph in _paragraphs(rows):
        parts.extend(_segments(data, paragraph))
    texts = {row.start: row for row in rows}
    return merged(_smoothed(merged(parts), texts))


def _paragraphs(rows: Sequence[Row]) -> list[Sequence[Row]]:
    """Rows up to and including the blank ones that follow them."""
    paragraphs: list[Sequence[Row]] = []
    first = 0
    for index in range(1, len(rows)):
        if (
            rows[index - 1].kind == "blank"
            and rows[index].kind != "blank"
            and any(r.kind != "blank" for r in rows[first:index])
        ):
            paragraphs.append(rows[first:index])
            first = index
    if rows:
        paragraphs.append(rows[first:])
    return paragraphs


def _segments(data: bytes, rows: Sequence[Row]) -> list[Part]:
    whole = structured_kind("", data[rows[0].start : rows[-1].stop])
    if whole not in (None, "empty", "command"):
        return [part_of(whole, rows)]
    parts: list[Part] = []
    index = 0
    while index < len(rows):
        part, stop = _segment(data, rows, index, parts[-1].kind if parts else None)
        parts.append(part)
        index = stop
    return merged(parts)


def _segment(data: bytes, rows: Sequence[Row], index: int, before: SourceKind | None) -> tuple[Part, int]:
    """The part that begins at `rows[index]`, and the index behind it."""
    row = rows[index]
    if row.text.lstrip().startswith("{") and row.kind != "log" and (stop := _json_stop(rows, index)):
        chosen = rows[index:stop]
        kind = structured_kind("", data[chosen[0].start : chosen[-1].stop])
        return part_of(kind or "unknown", chosen, echo=True), stop
    if row.kind == "key" and (stop := _yaml_stop(rows, index)) - index >= _MIN_KEYS:
        chosen = rows[index:stop]
        kind = structured_kind("", data[chosen[0].start : chosen[-1].stop])
        return part_of(kind or "unknown", chosen, echo=kind is None), stop
    if row.kind == "command":
        stop = command_stop(rows, index)
        return part_of("command", rows[index:stop]), stop
    if row.kind == "log":
        stop = _log_stop(rows, index)
        return part_of("log", rows[index:stop]), stop
    if row.kind == "prose" or (row.kind == "key" and is_prose(row.text)):
        return part_of("prose", rows[index : index + 1]), index + 1
    # A line that says nothing by itself goes with what it stands below.
    kind = before if before in ("log", "prose", "unknown") else "unknown"
    return part_of(kind, rows[index : index + 1]), index + 1


def command_stop(rows: Sequence[Row], index: int) -> int:
    """The index behind the command that begins at `index`: continuation lines, then variables and comments, belong to it."""
    while index < len(rows) and rows[index].text.rstrip().endswith("\\"):
        index += 1
    index += 1
    while index < len(rows) and _VARIABLE.match(rows[index].text) and rows[index].kind != "log":
        index += 1
    return min(index, len(rows))


def _log_stop(rows: Sequence[Row], index: int) -> int:
    """Output goes on to the end of the paragraph, or to where somebody is spoken to."""
    for stop in range(index + 1, len(rows)):
        if rows[stop].kind == "prose" and addresses_somebody(rows[stop].text):
            return stop
    return len(rows)


def _yaml_stop(rows: Sequence[Row], index: int) -> int:
    stop = index
    while stop < len(rows) and (rows[stop].kind == "key" or re.match(r"\s+\S|- |\s*#|\s*$|---", rows[stop].text)):
        stop += 1
    return stop


def _json_stop(rows: Sequence[Row], index: int) -> int:
    """The index behind the JSON value that begins at `index`, 0 if its braces do not close."""
    depth = size = 0
    for stop in range(index, len(rows)):
        text = re.sub(r'"(?:[^"\\]|\\.)*"', "", rows[stop].text)
        depth += text.count("{") + text.count("[") - text.count("}") - text.count("]")
        size += rows[stop].stop - rows[stop].start
        if depth <= 0:
            return stop + 1
        if size > _MAX_JSON_BYTES:
            break
    return 0


def _smoothed(parts: Sequence[Part], rows: dict[int, Row]) -> list[Part]:
    """What stands between two stretches of output, or is nothing by itself behind one, is output too."""
    smooth: list[Part] = []
    for index, part in enumerate(parts):
        kind = part.kind
        before = smooth[-1].kind if smooth else None
        after = parts[index + 1].kind if index + 1 < len(parts) else None
        nothing = kind == "unknown" and not part.echo and (before in ("log", "command") or (before is None and after == "log"))
        amid = kind == "prose" and before == "log" and after == "log" and not _speaks(part, rows)
        smooth.append(replace(part, kind="log") if nothing or amid else part)
    return smooth


def _speaks(part: Part, rows: dict[int, Row]) -> bool:
    start = part.start
    while start < part.stop:
        row = rows[start]
        if addresses_somebody(row.text):
            return True
        start = row.stop
    return False
