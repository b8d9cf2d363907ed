"""What was handed over, and what reading it once gave."""

from __future__ import annotations

from typing import Literal

import msgspec

from firstfault.model.collective import RankRecord
from firstfault.model.event import Clock, Event, Place, ProcessExit, Progress, Traceback
from firstfault.model.fact import Fact, Setting
from firstfault.model.ras import RasQuery
from firstfault.model.span import SourceSpan
from firstfault.model.stack import ProcessStack

SourceKind = Literal[
    "log",
    "error_file",
    "accelerate_config",
    "deepspeed_config",
    "arguments",
    "command",
    "environment",
    "nvidia_smi",
    "kernel",
    "slurm",
    "kubernetes",
    "vitals",
    "flight_recorder",
    "memory_snapshot",
    "prose",
    "python",
    "binary",
    "empty",
    "unknown",
]


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was handed over. `path` is what the user typed or would open; `id` is unique (`paste.txt#2`).

    A part of a paste starts at `first_line` (from 1) and `first_offset` of the paste. `begins` and `ends` say whether the
    source is complete at that side as far as one can tell: a cut paste, a truncated gzip, a log that stops in mid-line are not.
    """

    id: str
    path: str
    kind: SourceKind
    place: Place = Place()
    size_bytes: int = 0
    lines: int = 0
    first_line: int = 1
    first_offset: int = 0
    begins: bool = True
    ends: bool = True


class Note(msgspec.Struct, frozen=True):
    """Something that was not read, or only in part, and why. `fatal` if nothing of that input could be used."""

    where: str
    what: str
    fatal: bool = False


class RankEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a rank's part of a source ends: its last non-empty line.

    `work` are the last lines that it printed before it reported a wait that failed, the newest last; none of an error.
    """

    place: Place
    text: str
    line: int
    offset: int
    work: tuple[RankEnd, ...] = ()


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """The time that a complete kernel log of one host speaks of, on a clock of the wall: its first and last line."""

    host: str | None
    first: Clock
    last: Clock
    spans: tuple[SourceSpan, SourceSpan]


class SourceReport(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of reading one source once. A pure function of the source's bytes and name.

    `text` is kept for small configs and commands only (a fix edits them); `ranks` are the global ranks whose lines stand in it.
    `covers` is set for a kernel log whose silence means something. `records` say how far ranks are in their collectives,
    `stacks` what processes were doing, `ras` what NCCL's RAS service answered. `cited` are the lines, by number, that its facts
    point at; `appended_after` the offsets of ends of jobs behind which a later run goes on in the same file.
    """

    source: Source
    events: tuple[Event, ...] = ()
    tracebacks: tuple[Traceback, ...] = ()
    exits: tuple[ProcessExit, ...] = ()
    progress: tuple[Progress, ...] = ()
    settings: tuple[Setting, ...] = ()
    facts: tuple[Fact, ...] = ()
    ends: tuple[RankEnd, ...] = ()
    ranks: tuple[int, ...] = ()
    text: str | None = None
    notes: tuple[Note, ...] = ()
    covers: Coverage | None = None
    records: tuple[RankRecord, ...] = ()
    stacks: tuple[ProcessStack, ...] = ()
    ras: tuple[RasQuery, ...] = ()
    cited: dict[int, str] = {}
    appended_after: tuple[int, ...] = ()


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """All sources of one investigation, in the order in which they were handed over."""

    reports: tuple[SourceReport, ...]
    notes: tuple[Note, ...] = ()
    elapsed_s: float = 0.0
