"""Rows and parts of a text that mixes several sources."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from firstfault.ingest.linekind import MAX_CHARS, LineKind, border_of, kind_of
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.bundle import SourceKind


class Row(NamedTuple):
    """A line with its newline: bytes `start` to `stop` of the text, its beginning decoded, and what it looks like."""

    start: int
    stop: int
    text: str
    kind: LineKind


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of the text that is one source.

    `echo` is true where nothing was printed by a running program (commands, configurations, code): an error's words there are
    no event. `name` is the file it was read from, if the text says so (`$ cat accelerate_config.yaml`).
    """

    kind: SourceKind
    start: int
    stop: int
    echo: bool = False
    name: str = ""


_LINES = lazy_pattern(rb"[^\n]*\n|[^\n]+")
_RUNNING = ("log", "prose", "unknown", "command", "environment", "kernel")
ECHO_KINDS = frozenset({"arguments", "command", "accelerate_config", "deepspeed_config", "python", "vitals"})


def rows_of(data: bytes, emitted: Collection[int] = (), *, log: bool = False) -> list[Row]:
    """The lines of `data`. Lines at the offsets `emitted` are known to be a program's own words; in a `log` all are."""
    rows: list[Row] = []
    start = 0
    for raw in _LINES.findall(data):
        text = raw[: 4 * MAX_CHARS].decode("utf-8", errors="replace").rstrip("\r\n")
        # A progress bar draws over its line, and nobody types a colour: what stands there is printed by a program.
        known = log or start in emitted or "\r" in text or "\x1b[" in text
        rows.append(Row(start, start + len(raw), text, (border_of(text) or "log") if known else kind_of(text)))
        start += len(raw)
    return rows


def part_of(kind: SourceKind, rows: Sequence[Row], *, echo: bool = False, name: str = "") -> Part:
    """The part that `rows` (at least one) make up."""
    return Part(kind=kind, start=rows[0].start, stop=rows[-1].stop, echo=echo or kind in ECHO_KINDS, name=name)


def merged(parts: Sequence[Part]) -> list[Part]:
    """Neighbours of one kind become one part, where that kind is running text."""
    result: list[Part] = []
    for part in parts:
        last = result[-1] if result else None
        if last and last.kind == part.kind and last.echo == part.echo and part.kind in _RUNNING:
            result[-1] = replace(last, stop=part.stop)
        else:
            result.append(part)
    return result


def without_blanks(data: bytes, parts: Sequence[Part]) -> list[Part]:
    """Parts of nothing but blanks go with the part before them (the first one with the part behind it)."""
    result: list[Part] = []
    start = None
    for part in parts:
        if not data[part.start : part.stop].strip():
            if result:
                result[-1] = replace(result[-1], stop=part.stop)
            else:
                start = part.start if start is None else start
            continue
        result.append(part if start is None else replace(part, start=start))
        start = None
    return result or list(parts)
