"""What torchelastic writes about a failure: the report of a node, and the error file of a worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from firstfault.ingest.clock import parse_clock
from firstfault.ingest.context import Context
from firstfault.ingest.lines import Line
from firstfault.ingest.traceback import StreamKey, read_tracebacks, stream_key
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.bundle import Note
from firstfault.model.event import Clock, Place, ProcessExit, Traceback
from firstfault.model.span import SourceSpan

MAX_FAILURES = 10_000
MAX_ERROR_FILE_BYTES = 4 << 20
MAX_ERROR_LINES = 2_000
MAX_TEXT_CHARS = 500

_FIRST_OBSERVED = lazy_pattern(r"Root Cause \(first observed failure\):")
_FAILURES = lazy_pattern(r"^\s*(?:Failures:|Other Failures:)\s*$")
_ENTRY = lazy_pattern(r"^\s*\[\d{1,6}\]:\s*$")
_FIELD = lazy_pattern(r"^\s*(?P<name>time|host|rank|exitcode|error_file|traceback)\s*: ?(?P<value>.*)$")
_RANK = lazy_pattern(r"(?P<rank>\d{1,9})(?: +\(local_rank: (?P<local>\d{1,9})\))?")
_EXIT = lazy_pattern(r"(?P<code>-?\d{1,6})(?: +\(pid: (?P<pid>\d{1,9})\))?")


class _Failure:
    """One entry of a report while its fields arrive."""

    def __init__(self, place: Place, *, first_observed: bool) -> None:
        self.fields: dict[str, str] = {}
        self.place = place
        self.first_observed = first_observed
        self.span: SourceSpan | None = None


def read_failure_blocks(lines: Sequence[Line], ctx: Context) -> tuple[ProcessExit, ...]:
    """The processes that `ChildFailedError` reports name, in printed order; several nodes may print at once."""
    exits: list[ProcessExit] = []
    open_failures: dict[StreamKey, _Failure] = {}
    in_root: dict[StreamKey, bool] = {}
    for line in lines:
        field = _FIELD.match(line.text)
        if not field and "[" not in line.text and "ail" not in line.text:
            continue
        key = stream_key(line.place)
        if field:
            failure = open_failures.get(key)
            if failure is None or field["name"] in failure.fields:
                # A pasted report may lack its `[0]:` lines.
                if field["name"] not in ("time", "rank"):
                    continue
                failure = _Failure(line.place, first_observed=in_root.get(key, False))
                open_failures[key] = failure
            failure.fields[field["name"]] = field["value"].strip()
            if field["name"] == "exitcode":
                failure.span = ctx.span(line)
            if field["name"] == "traceback":
                exits.extend(_exit_of(open_failures.pop(key), ctx))
        elif _FIRST_OBSERVED.search(line.text):
            in_root[key] = True
        elif _FAILURES.match(line.text):
            in_root[key] = False
        elif _ENTRY.match(line.text):
            if key in open_failures:
                exits.extend(_exit_of(open_failures.pop(key), ctx))
            open_failures[key] = _Failure(line.place, first_observed=in_root.get(key, False))
    for failure in open_failures.values():
        exits.extend(_exit_of(failure, ctx))
    exits.sort(key=lambda found: found.span.offset)
    return tuple(exits[:MAX_FAILURES])


def _exit_of(failure: _Failure, ctx: Context) -> list[ProcessExit]:
    exit_of = _EXIT.match(failure.fields.get("exitcode", ""))
    if exit_of is None or failure.span is None:
        return []
    rank = _RANK.match(failure.fields.get("rank", ""))
    place = Place(
        rank=int(rank["rank"]) if rank else None,
        local_rank=int(rank["local"]) if rank and rank["local"] else None,
        host=failure.fields.get("host") or failure.place.host,
        pid=int(exit_of["pid"]) if exit_of["pid"] else None,
        attempt=failure.place.attempt,
        time=parse_clock(failure.fields.get("time", "")) or failure.place.time,
    )
    text = "; ".join(f"{name}: {value}" for name, value in failure.fields.items() if name in ("rank", "exitcode", "traceback"))
    return [
        ProcessExit(
            place=place,
            code=int(exit_of["code"]),
            by_launcher=False,
            reporter="elastic",
            span=failure.span,
            text=text[:MAX_TEXT_CHARS],
            source_id=ctx.source_id,
            first_observed=failure.first_observed,
        )
    ]


class ErrorFile(msgspec.Struct, frozen=True, kw_only=True):
    """What an `error.json` says: whose error, when, the decoded lines of its text, and the traceback in them."""

    place: Place
    lines: tuple[Line, ...] = ()
    tracebacks: tuple[Traceback, ...] = ()
    notes: tuple[Note, ...] = ()


def read_error_file(data: bytes, ctx: Context) -> ErrorFile:
    """The contents of a worker's error file. A file that is empty, cut or of another shape gives a note, never an error."""
    if not data.strip():
        return _unreadable(ctx, "error file is empty: the worker ended while writing it")
    try:
        document = _decoded(data[:MAX_ERROR_FILE_BYTES])
    except (ValueError, RecursionError) as error:
        return _unreadable(ctx, f"error file is not readable: {error}")
    message = document.get("message") if isinstance(document, dict) else None
    extra = message.get("extraInfo") if isinstance(message, dict) else None
    extra = extra if isinstance(extra, dict) else {}
    text = extra.get("py_callstack") or (message.get("message") if isinstance(message, dict) else message)
    if not isinstance(text, str):
        return _unreadable(ctx, "error file has no message")
    text = text.encode("utf-8", "replace").decode()
    place = msgspec.structs.replace(ctx.place, time=_time(extra.get("timestamp"), document.get("timestamp")) or ctx.place.time)
    lines = _lines_of(text, data, place)
    return ErrorFile(place=place, lines=lines, tracebacks=read_tracebacks(lines, ctx))


def _decoded(data: bytes) -> Any:
    r"""The document. Python writes a byte that was no text as half of a pair (`\udcff`), which JSON proper refuses."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        if b"\\ud" not in data.lower():
            raise
    import json

    return json.loads(data)


def _unreadable(ctx: Context, what: str) -> ErrorFile:
    return ErrorFile(place=ctx.place, notes=(Note(ctx.source.path, what),))


def _time(*candidates: Any) -> Clock | None:
    """The first candidate that is a time in seconds since 1970, as number or text."""
    for value in candidates:
        if isinstance(value, (int, float, str)) and not isinstance(value, bool):
            clock = parse_clock(str(value))
            if clock is not None:
                return clock
    return None


def _lines_of(text: str, data: bytes, place: Place) -> tuple[Line, ...]:
    r"""Lines of a JSON string, each at the byte where it stands: inside the file a line ends with the two characters `\n`."""
    found: list[Line] = []
    position, row, counted = 0, 1, 0
    for part in text.split("\n")[:MAX_ERROR_LINES]:
        encoded = msgspec.json.encode(part)[1:-1]
        at = data.find(encoded, position) if encoded else position
        # Escapes may be written in another way (`\u00e9`): such a line keeps the place of the one before.
        offset = at if at >= 0 else position
        row += data.count(b"\n", counted, offset)
        counted = position = offset
        if at >= 0:
            position = at + len(encoded)
        found.append(Line(text=part, raw=part, offset=offset, number=row, place=place))
    return tuple(found)
