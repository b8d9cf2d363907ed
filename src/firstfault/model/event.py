"""What was seen: events, tracebacks, process exits and progress, each with its place, rank, host and time."""

from __future__ import annotations

from typing import Literal

import msgspec

from firstfault.model.span import SourceSpan

Role = Literal["initiating", "either", "collateral", "context", "progress"]
CaptureValue = bool | int | float | str


class Clock(msgspec.Struct, frozen=True):
    """A point in time and how far it can be trusted.

    `seconds` counts from the epoch for `wall`, from boot for `boot`, from 1 January for `yearless` (c10 prefixes),
    from midnight for `daytime`. `resolution_s` is the last printed digit (1.0 for error.json).
    """

    seconds: float
    kind: Literal["wall", "boot", "yearless", "daytime"] = "wall"
    resolution_s: float = 0.001
    text: str = ""


class Place(msgspec.Struct, frozen=True):
    """Who printed it. Ranks are global; `local_rank` stays beside it until `align` can map it. None is unknown."""

    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    pid: int | None = None
    attempt: int | None = None
    time: Clock | None = None


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A signal seen at a place. `name` is what conditions ask for; several signals may share one name.

    `fault_class` is a class of the causal table (None: context or progress). `text` is the line without ANSI codes, at
    most 2,000 characters. `traceback` indexes `SourceReport.tracebacks` when the line ends a traceback.
    `quoted` marks a text that only repeats an error (launcher report, config dump, prose): it never starts a failure.
    `alone` marks a message in a post that may be a quotation: it never establishes anything.
    """

    name: str
    signal: str
    role: Role
    fault_class: str | None
    span: SourceSpan
    text: str
    place: Place = Place()
    captures: dict[str, CaptureValue] = {}
    source_id: str = ""
    traceback: int | None = None
    quoted: bool = False
    alone: bool = False


class Frame(msgspec.Struct, frozen=True):
    """One frame of a Python traceback; `path` as printed, `line` the script's line, `code` its source text if printed."""

    path: str
    line: int
    function: str
    code: str
    span: SourceSpan


class ExceptionBlock(msgspec.Struct, frozen=True, kw_only=True):
    """One exception of a chain: its type, its message (all lines) and its frames, outermost first.

    `span` is the exception line (`Type: message`), `end_offset` the byte behind the last line of the message; a cut block
    without such a line has an empty type and the span of its last frame.
    `whole` is true if the block begins with a header and nothing was cut between header and exception line.
    """

    type: str
    message: str
    frames: tuple[Frame, ...]
    span: SourceSpan
    end_offset: int
    whole: bool = True


class Traceback(msgspec.Struct, frozen=True, kw_only=True):
    """A chain of exceptions, the oldest (root) first.

    `ignored` is true for what Python prints below `Exception ignored in`: nobody gets to see that exception, it ends nothing.
    """

    blocks: tuple[ExceptionBlock, ...]
    place: Place = Place()
    source_id: str = ""
    ignored: bool = False

    @property
    def root(self) -> ExceptionBlock:
        """The exception that was raised first."""
        return self.blocks[0]

    @property
    def last(self) -> ExceptionBlock:
        """The exception that ended the process (or was printed last)."""
        return self.blocks[-1]


class ProcessExit(msgspec.Struct, frozen=True, kw_only=True):
    """A process is known to have ended, or to have been told to end.

    `code` is the exit code (negative: signal number, as torchelastic prints it; None: unknown).
    `by_launcher` is true for a line in which the launcher says that it sends the signal to this pid.
    `reporter` names the kind of text: elastic, srun, slurm, kubernetes, accelerate, deepspeed, spawn, mpirun, pdsh, kernel,
    shell.
    `first_observed` marks the entry that torchelastic calls the root cause: the earliest time *seen* on that node.
    `tasks` are Slurm task numbers, which are ranks where one task is started for each rank.
    """

    place: Place
    code: int | None
    by_launcher: bool
    reporter: str
    span: SourceSpan
    text: str
    source_id: str = ""
    first_observed: bool = False
    tasks: tuple[int, ...] = ()


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """A series of progress lines of one rank in one source: those of one kind that print one total, such as one bar.

    Sampled: first and last are read, and `lines` counts the progress lines of the rank, all series together.

    Steps are optimizer steps where the line says so; `total_steps` if printed.
    """

    rank: int | None
    lines: int
    first_step: int | None = None
    last_step: int | None = None
    total_steps: int | None = None
    first_span: SourceSpan | None = None
    last_span: SourceSpan | None = None
    last_text: str = ""
    last_time: Clock | None = None
    first_time: Clock | None = None
    attempt: int | None = None
    local_rank: int | None = None
    host: str | None = None

    @property
    def is_repeated(self) -> bool:
        """True if it is known that more than one line was printed: `lines` alone counts less where they are sampled."""
        return self.lines > 1 or self.first_span != self.last_span
