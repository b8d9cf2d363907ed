"""What differs between two commands or runs, and what of it explains that they end otherwise (`firstfault.comparison/1`)."""

from __future__ import annotations

from typing import Literal

import msgspec

from firstfault.model.diagnosis import Certainty, Fix, Verdict
from firstfault.model.plan import Scalar, UnknownFact

COMPARISON_SCHEMA = "firstfault.comparison/1"

SideName = Literal["a", "b"]
Topic = Literal[
    "outcome", "plan", "batch", "version", "configuration", "argument", "environment", "machine", "memory", "progress"
]
Ending = Literal["fails", "stops", "goes_wrong", "ends_well", "not_seen"]
"""A failure was diagnosed; the launcher or first process stops; the plan has a finding; no failure; nothing shows it."""


class SideValue(msgspec.Struct, frozen=True, kw_only=True):
    """A value on one side and its place (`ds.json:4`, `--num_processes`, `built in`).

    `state` tells a value that is not set there (`absent`: what would set it was read) from one that was not read (`unknown`).
    """

    value: Scalar = None
    where: str = ""
    state: Literal["known", "absent", "unknown"] = "known"


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not alike on both sides. `id` is unique; explanations name it. `note` says by how much."""

    id: str
    topic: Topic
    name: str
    a: SideValue
    b: SideValue
    note: str = ""


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """One side: what was handed over, and how it ends as far as that shows.

    `entry`, `title`, `verdict` and `cause` are those of the diagnosis of a run or of the first finding of a command's plan.
    """

    name: str
    kind: Literal["command", "run"]
    ending: Ending
    told: bool = False
    """True if the reader said that this side fails."""
    entry: str | None = None
    title: str = ""
    verdict: Verdict | None = None
    cause: str = ""
    command: str = ""
    files: int = 0
    lines: int = 0


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why `failing` ends otherwise than the other side: the entry, the differences that it rests on, and the change.

    `established`: the cause of the failure was established and cannot be there without what only this side has.
    """

    verdict: Certainty
    failing: SideName
    text: str
    entry: str | None = None
    title: str = ""
    differences: tuple[str, ...] = ()
    fix: tuple[Fix, ...] = ()


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two sides held against each other.

    `verdict` is that of the best explanation; `undetermined` where a side fails and nothing that differs is known to lead
    to it; `no_failure` where neither side fails, or both fail alike: then nothing that differs matters. `unknown` holds what
    was read on one side only, `equal` the number of things that are alike. `alike` are sentences on what both sides have.
    """

    schema: str = COMPARISON_SCHEMA
    a: Subject
    b: Subject
    verdict: Verdict
    summary: str
    explanations: tuple[Explanation, ...] = ()
    alike: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    unknown: tuple[Difference, ...] = ()
    equal: int = 0
    equal_by_topic: dict[str, int] = {}
    missing: tuple[UnknownFact, ...] = ()
    notes: tuple[str, ...] = ()
    elapsed_s: float = 0.0
