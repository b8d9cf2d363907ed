"""The answer, as it is printed in JSON (`firstfault.diagnosis/1`)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Verdict = Literal["established", "likely", "undetermined", "no_failure"]
Certainty = Literal["established", "likely", "undetermined"]

SCHEMA = "firstfault.diagnosis/1"
MAX_EVIDENCE = 15


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One line of what was handed over. `offset` counts bytes from the start of `source`.

    `part` is the place in a source that has no lines (`pg_status[3]` of a dump).
    """

    id: str
    source: str
    line: int
    offset: int
    rank: int | None = None
    host: str | None = None
    time: str | None = None
    signal: str | None = None
    text: str = ""
    part: str | None = None


class Initiating(msgspec.Struct, frozen=True, kw_only=True):
    """Who failed first. `relation`: one rank, `symmetric` (all alike), `several` (suspects, or independent)."""

    rank: int | None
    ranks: tuple[int, ...] = ()
    relation: Literal["one", "symmetric", "several"] = "one"
    host: str | None = None
    time: str | None = None
    attempt: int | None = None
    certainty: Certainty = "undetermined"
    evidence: tuple[str, ...] = ()


class Collateral(msgspec.Struct, frozen=True, kw_only=True):
    """A consequence, to be ignored: what it is (`what` in words), on which rank, and what explains it."""

    rank: int | None
    entry: str
    explained_by: str
    what: str = ""
    evidence: tuple[str, ...] = ()


class OtherFinding(msgspec.Struct, frozen=True, kw_only=True):
    """An independent further finding."""

    entry: str
    verdict: Verdict
    initiating: Initiating | None = None
    evidence: tuple[str, ...] = ()


class Fix(msgspec.Struct, frozen=True, kw_only=True):
    """A change to the user's own files: an `edit` of a known file is a unified diff in `text`, else a pattern to follow."""

    title: str
    kind: Literal["edit", "command", "env"]
    file: str | None = None
    text: str = ""
    risk: str = ""
    applies: bool = False
    """True if `text` is a unified diff of `file` that `git apply` takes as it is."""


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """A command, and what it must show if the fix holds."""

    command: str
    expect: str


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that would decide: the question, what it decides, how to obtain it, and what an answer may be.

    `values` are the answers that `--fact` takes; empty where a file answers better than a word.
    """

    fact: str
    ask: str = ""
    why: str
    command: str
    values: tuple[str, ...] = ()
    separates: tuple[str, ...] = ()
    cost: str = ""


class Alternative(msgspec.Struct, frozen=True, kw_only=True):
    """A sibling that was held against the evidence too; `for_` and `against` are sentences with this run's numbers."""

    entry: str
    verdict: Literal["possible", "ruled_out"]
    for_: tuple[str, ...] = msgspec.field(default=(), name="for")
    against: tuple[str, ...] = ()


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Why this entry: a sentence, its weight (5 = decisive) and the lines that show it."""

    text: str
    weight: int
    evidence: tuple[str, ...] = ()


class TimelineEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One mark of the timeline: progress, the initiating event, waiting, the end of a rank; `what` is its kind in words."""

    rank: int | None
    host: str | None = None
    time: str | None = None
    kind: Literal["progress", "initiating", "collateral", "stopped", "silent", "kernel", "scheduler"]
    what: str = ""
    text: str = ""
    evidence: str | None = None


class SourceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One source of the answer: what it was taken for, and how much was read."""

    path: str
    kind: str
    rank: int | None = None
    bytes: int = 0
    lines: int = 0


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer. Every statement names evidence by id; `notes` say what was not read and why."""

    schema: str = SCHEMA
    verdict: Verdict
    entry: str | None = None
    title: str = ""
    category: str | None = None
    path: tuple[str, ...] = ()
    initiating: Initiating | None = None
    others: tuple[OtherFinding, ...] = ()
    collateral: tuple[Collateral, ...] = ()
    cause: str = ""
    mechanism: str = ""
    reasons: tuple[Reason, ...] = ()
    fix: tuple[Fix, ...] = ()
    verify: tuple[Verification, ...] = ()
    missing: tuple[Missing, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    timeline: tuple[TimelineEntry, ...] = ()
    facts: dict[str, Any] = {}
    sources: tuple[SourceSummary, ...] = ()
    notes: tuple[str, ...] = ()
    elapsed_s: float = 0.0
