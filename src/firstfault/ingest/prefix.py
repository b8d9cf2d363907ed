"""What stands before the text of a line: ranks, hosts, process ids and times, stacked in any order."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import msgspec

from firstfault.ingest.clock import read_boot_clock, read_clock, read_glog_clock
from firstfault.ingest.line_template import LineTemplate
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.event import Clock, Place

Label = Literal["none", "task", "node", "host"] | LineTemplate
"""What `3: text` or `name: text` at the start of every line of a source means: nothing, a task (rank), a node, a host.

A `LineTemplate` is a prefix of the user's own choice.
"""

_MAX_STACK = 10
_RECENT_CHARS = 400
_MAX_PID = 1 << 22
_MAX_DIGITS = 18

_RANK_KEY = lazy_pattern(
    rb"(?:\x1b\[[0-9;]*m|\[[A-Za-z][\w.-]{0,30}/[^\]]{0,200}\] |[A-Za-z_]*\d{0,4}: (?=\[)|\[[A-Za-z_]+\d{1,6}\]:(?=\[rank)"
    rb"|\((?:[\w.:-]{1,100} )?pid=\d{1,8}(?:, ip=[\w.:-]{1,60})?\) ?)*"
    rb"\s*(?:\[[Rr]ank(?:[ =]|: ?)?(\d{1,6})\]|\[[A-Za-z_]+(\d{1,6})\]:|\(RANK (\d{1,6})\)|[Rr]ank[ =](\d{1,6})\b"
    rb"|\[(?:[\w.-]{1,100}@)?\d{1,6},(\d{1,6})\](?:\[[\w.-]{1,250}:\d{1,8}\])?<std)"
)
_RANK_LATER = lazy_pattern(rb"[\[(, ][Rr](?:ank|ANK)[ =](\d{1,6})[\])]|(?<= - )[Rr]ank[ =]?(\d{1,6}):")
_HEAD_BYTES = 200


class Prefix(msgspec.Struct, frozen=True):
    """A line without what stands before its text.

    `rest` starts at `rest_start` of the line; `kind` names the layouts found, outermost first (`pod+time+rank`).
    """

    place: Place
    rest: str
    rest_start: int
    kind: str


class _Found:
    """What the prefixes read so far say; the first, outermost host and the last, innermost rank count."""

    __slots__ = ("host", "kinds", "local_rank", "pid", "rank", "time")

    def __init__(self) -> None:
        self.rank: int | None = None
        self.local_rank: int | None = None
        self.host: str | None = None
        self.pid: int | None = None
        self.time: Clock | None = None
        self.kinds: list[str] = []

    def place(self) -> Place:
        if not self.kinds:
            return _NOWHERE
        return Place(rank=self.rank, local_rank=self.local_rank, host=self.host, pid=self.pid, time=self.time)

    def set_rank(self, digits: str) -> None:
        if len(digits) <= _MAX_DIGITS:
            self.rank = int(digits)

    def set_host(self, name: str) -> None:
        self.host = self.host or name

    def set_pid(self, digits: str) -> None:
        # Old torch headers print a thread id of 15 digits where newer ones print the process.
        if len(digits) <= _MAX_DIGITS and int(digits) < _MAX_PID:
            self.pid = int(digits)


_NOWHERE = Place()
_Reader = Callable[[str, int, _Found], int]
_Named = tuple[str, _Reader]


def _pattern_reader(
    pattern: str, apply: Callable[[_Found, re.Match[str]], None], needs: tuple[str, ...] | None = None
) -> _Reader:
    compiled = lazy_pattern(pattern, needs=needs)

    def read(text: str, start: int, found: _Found) -> int:
        match = compiled.match(text, start)
        if not match:
            return start
        apply(found, match)
        return match.end()

    return read


def _global_rank(found: _Found, match: re.Match[str]) -> None:
    found.set_rank(match[1])


def _local_rank(found: _Found, match: re.Match[str]) -> None:
    found.local_rank = int(match["local"])


def _group_rank(found: _Found, match: re.Match[str]) -> None:
    # The rank of `[PG ID 1 ... Rank 7]` counts inside its group; only in the default group is it the global one.
    if found.rank is None and (match["pg"] is None or match["pg"] == "0" or "default_pg" in match[0]):
        found.set_rank(match["rank"])


def _pod(found: _Found, match: re.Match[str]) -> None:
    found.set_host(match["pod"])


def _nccl(found: _Found, match: re.Match[str]) -> None:
    found.set_host(match["host"])
    found.set_pid(match["pid"])


def _mpi(found: _Found, match: re.Match[str]) -> None:
    found.set_rank(match["rank"])
    if match["host"]:
        found.set_host(match["host"])
        found.set_pid(match["pid"])


def _ray(found: _Found, match: re.Match[str]) -> None:
    found.set_pid(match["pid"])
    if match["ip"]:
        found.set_host(match["ip"])


def _header_rank(found: _Found, match: re.Match[str]) -> None:
    if found.rank is None and match["rank"] is not None:
        found.set_rank(match["rank"])


def _read_time(text: str, start: int, found: _Found) -> int:
    """`2025-03-19 09:50:04,010`, bare or in brackets; the separator after it goes too."""
    bracket = text.startswith("[", start)
    result = read_clock(text, start + bracket)
    if result is None:
        return start
    clock, end = result
    if bracket:
        if not text.startswith("]", end):
            return start
        end += 1
    elif end < len(text) and text[end] not in " \t,|:-][":
        return start
    found.time = found.time or clock
    return _skip(text, end, " - ", " | ", ": ", " ")


def _read_boot(text: str, start: int, found: _Found) -> int:
    result = read_boot_clock(text, start)
    if result is None:
        return start
    found.time = found.time or result[0]
    return _skip(text, result[1], " ")


_GLOG_FILE = lazy_pattern(r" +(?:(?P<pid>\d+) +)?(?P<file>[\w./-]+\.\w+):\d+\] ?(?:\[[\w/]+\] )?")
_OLD_C10 = lazy_pattern(r"\[[IWEF] [\w./-]+\.\w+:\d+\] ?")


def _read_glog(text: str, start: int, found: _Found) -> int:
    """`E1104 08:41:17.402000 21930 torch/...api.py:869] `, and c10's form in brackets with or without a time."""
    bracket = text.startswith("[", start)
    if text[start + bracket : start + bracket + 1] not in ("V", "I", "W", "E", "C", "F"):
        return start
    if bracket and (old := _OLD_C10.match(text, start)):
        return old.end()
    result = read_glog_clock(text, start + bracket + 1)
    end = _GLOG_FILE.match(text, result[1]) if result else None
    if result is None or end is None:
        return start
    found.time = found.time or result[0]
    if end["pid"]:
        found.set_pid(end["pid"])
    return end.end()


_SYSLOG_HOST = lazy_pattern(r"(?P<host>[A-Za-z][\w.-]*) (?:kernel|[\w./@-]+\[\d+\]): ")


def _read_syslog_host(text: str, start: int, found: _Found) -> int:
    """`node-11 kernel: ` behind a syslog or journal time."""
    if found.time is None or found.kinds[-1:] != ["time"]:
        return start
    match = _SYSLOG_HOST.match(text, start)
    if not match:
        return start
    found.set_host(match["host"])
    return match.end()


_LEVELS = ("DEBUG", "INFO", "WARNING", "WARN", "ERROR", "CRITICAL", "FATAL", "TRACE", "SUCCESS")
_LEVEL = f"(?:{'|'.join(_LEVELS)})"

_RANK: _Named = ("rank", _pattern_reader(r"\[[Rr]ank(?: |: ?)?(\d{1,6})\](?::(?! )|: ?| )?", _global_rank))
# Open MPI tags a line with job and rank, from version 5 on with the launcher's name before, and with host and pid if asked.
_MPI: _Named = (
    "mpi",
    _pattern_reader(
        r"\[(?:[\w.-]{1,100}@)?\d{1,6},(?P<rank>\d{1,6})\](?:\[(?P<host>[\w.-]{1,250}):(?P<pid>\d{1,8})\])?"
        r"<std(?:out|err|diag)>: ?",
        _mpi,
    ),
)
_UPPER_RANK: _Named = ("RANK", _pattern_reader(r"\(RANK (\d{1,6})\):? ?", _global_rank))
_GROUP: _Named = (
    "group",
    _pattern_reader(r"\[PG (?:ID )?(?P<pg>\d+)(?: [^\]]{0,200})? Rank (?P<rank>\d{1,6})\] {0,2}", _group_rank),
)
_POD: _Named = (
    "pod",
    _pattern_reader(r"\[pod/(?P<pod>[a-z0-9][a-z0-9.-]*)/[\w.-]+(?:/[\w.-]+)?\] ", _pod),
)
_RAY: _Named = (
    "ray",
    # What follows the process is the text, with its own blanks: only one of them belongs to the prefix.
    _pattern_reader(r"\((?:[\w.:-]{1,100} )?pid=(?P<pid>\d{1,8})(?:, ip=(?P<ip>[\w.:-]{1,60}))?\) ?", _ray),
)
_NCCL: _Named = (
    "nccl",
    _pattern_reader(r"(?P<host>[\w.-]+):(?P<pid>\d{1,8}):\d{1,8} (?:\[\d+\] )?(?=NCCL |\S+:\d+ )", _nccl),
)
# torchrun puts no blank behind its prefix: one blank there belongs to somebody else's `[name3]: text`.
_LOCAL: _Named = (
    "local",
    _pattern_reader(
        r"\[(?![Rr]ank)(?:default|[A-Za-z_][A-Za-z_-]{0,40}(?=\d+\]:(?:\S|\s\s|$)))(?P<local>\d{1,6})\]:", _local_rank
    ),
)
_BRACKET_LEVEL: _Named = (
    "level",
    _pattern_reader(
        rf"\[{_LEVEL}\](?: \[[\w./]+:\d+:[\w<>.]+\])? *(?:- )?(?:\[[\w.]+:\d+(?:, rank=(?P<rank>\d+))?\] )?",
        _header_rank,
    ),
)
_WORD_LEVEL: _Named = (
    "level",
    _pattern_reader(
        rf"(?:[\w.]{{1,80}} - )?{_LEVEL} +"
        r"(?:- (?:[\w.]{1,80} -  ?)?|\| ?(?:[\w.<>]+:[\w.<>]+:\d+ - )?|\[[\w.:]+, rank=(?P<rank>\d+)\] ?)",
        _header_rank,
        _LEVELS,
    ),
)
_WORD_RANK: _Named = (
    "word",
    _pattern_reader(
        # `rank 1 failed to connect` is said of rank 1 by another; `rank 1: ...` and `rank 1 step 3` are said by it.
        r"(?:\[[a-z_]{1,20}\] )?[Rr]ank(?: (?=\d+(?::| - | ?\||, | (?:step|iter|iteration|epoch)\b))|=)"
        r"(\d{1,6})\b(?::| -| ?\||,)? ?",
        _global_rank,
        ("Rank", "rank"),
    ),
)
_TIME: _Named = ("time", _read_time)
_GLOG: _Named = ("glog", _read_glog)
_SYSLOG: _Named = ("syslog", _read_syslog_host)

_AT_BRACKET = (_RANK, ("boot", _read_boot), _TIME, _GLOG, _MPI, _GROUP, _LOCAL, _POD, _BRACKET_LEVEL, _WORD_RANK)
_AT_PARENTHESIS = (_UPPER_RANK, _RAY)
_AT_DIGIT = (_TIME, _NCCL)
_AT_LETTER = (_SYSLOG, _WORD_RANK, _WORD_LEVEL, _NCCL)
_AT_LEVEL_LETTER = (_GLOG, *_AT_LETTER)
_AT_CAPITAL = (_TIME, *_AT_LETTER)
_READERS: dict[str, tuple[_Named, ...]] = {"[": _AT_BRACKET, "(": _AT_PARENTHESIS}
_READERS |= dict.fromkeys("0123456789", _AT_DIGIT)
_READERS |= dict.fromkeys("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", _AT_LETTER)
_READERS |= dict.fromkeys("JMASONDT", _AT_CAPITAL)
_READERS |= dict.fromkeys("IEVC", _AT_LEVEL_LETTER)
# `F` opens `Feb`, `Fri` and glog's fatal level, `W` a Wednesday and a warning.
_READERS |= dict.fromkeys("FW", (_GLOG, _TIME, *_AT_LETTER))
"""By the first character, the layouts that can start with it; the stricter of two that could match one text stands first."""


def _skip(text: str, start: int, *separators: str) -> int:
    for separator in separators:
        if text.startswith(separator, start):
            return start + len(separator)
    return start


TASK_LABEL = lazy_pattern(r" *(\d{1,6}): ?")
HOST_LABEL = lazy_pattern(r"([A-Za-z][\w.-]{0,250}\w):(?: |$)")
"""The labels of `srun --label` and of pdsh."""


def _read_label(text: str, label: Label, found: _Found) -> int:
    if label == "none":
        return 0
    if isinstance(label, LineTemplate):
        return _read_template(text, label, found)
    match = (HOST_LABEL if label == "host" else TASK_LABEL).match(text)
    if not match:
        return 0
    if label == "host":
        found.set_host(match[1])
    elif label == "task":
        found.rank = int(match[1])
    found.kinds.append("label")
    return match.end()


def _read_template(text: str, template: LineTemplate, found: _Found) -> int:
    match = template.pattern.match(text)
    if not match:
        return 0
    numbers = match.groupdict()
    if numbers.get("rank"):
        found.set_rank(numbers["rank"])
    if numbers.get("local"):
        found.local_rank = int(numbers["local"])
    found.kinds.append("template")
    return match.end()


def parse_prefix(line: str, *, label: Label = "none") -> Prefix:
    """The place that the prefixes of `line` (ANSI codes stripped) name, and the text behind them.

    What stands nearer to the text wins for the rank: it is printed by the process itself. `label` is what `find_label` said
    of the whole source.
    """
    return _parse_recent(line, label) if len(line) <= _RECENT_CHARS else _parse(line, label)


def _parse(line: str, label: Label) -> Prefix:
    found = _Found()
    position = _read_label(line, label, found)
    for _ in range(_MAX_STACK):
        start = position + _opens_after_blank(line, position, found)
        for kind, read in _READERS.get(line[start : start + 1], ()):
            end = read(line, start, found)
            if end > start:
                found.kinds.append(kind)
                position = end
                break
        else:
            break
    return Prefix(found.place(), line[position:] if position else line, position, "+".join(found.kinds))


# Small files are asked for the same lines several times: for their kind, their label, their place, and their text.
_parse_recent = lru_cache(maxsize=1024)(_parse)


def _opens_after_blank(line: str, position: int, found: _Found) -> bool:
    """One blank before a bracket may stand in front of a further prefix (`[rank3]: [E ...`, ` [2022-05-28 04:07:11]`)."""
    return (
        line[position : position + 1] == " "
        and line[position + 1 : position + 2] in ("[", "(")
        and (position == 0 or bool(found.kinds))
    )


def rank_key(line: bytes) -> int | None:
    """A number that tells the ranks of one source apart, from the start of a raw line; None if no rank stands there.

    Cheap, for the scanner's sampling: the global rank where the line has one, else the local one.
    """
    found = _RANK_KEY.match(line)
    if found is None:
        head = line[:_HEAD_BYTES]
        if b"ank" not in head and b"RANK" not in head:
            return None
        found = _RANK_LATER.search(head)
        if found is None:
            return None
    return int(found[found.lastindex or 1])


def join_places(outer: Place, inner: Place) -> Place:
    """`inner` (read in the line) completed by `outer` (the file's name and folder); the line wins where both speak."""
    if outer is _NOWHERE or outer == _NOWHERE:
        return inner
    return Place(
        rank=inner.rank if inner.rank is not None else outer.rank,
        local_rank=inner.local_rank if inner.local_rank is not None else outer.local_rank,
        host=inner.host or outer.host,
        pid=inner.pid if inner.pid is not None else outer.pid,
        attempt=inner.attempt if inner.attempt is not None else outer.attempt,
        time=inner.time or outer.time,
    )
