"""What a pack holds: signals, facts, the causal table and entries, after parsing and checking.

These structures are what the rest of firstfault sees of the knowledge; the files they come from are described in the
encyclopedia's own pages (entry format) and read by `signal`, `fact_list`, `causal` and `entry`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from firstfault.model.event import CaptureValue, Role

HoleKind = Literal["int", "float", "size", "duration", "rank", "path", "host", "word", "rest", "hex", "time", "re"]
Cost = Literal["seconds", "minutes", "one-run", "rerun"]
DECISIVE_WEIGHT = 5


class SignalSample(msgspec.Struct, frozen=True, kw_only=True):
    """A line (or several, joined by newlines) that must match, with the captures it must give."""

    line: str
    captures: dict[str, CaptureValue] = {}


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """A text that one emitter is known to print.

    `pattern` is the confirm expression over one line (ANSI stripped), in the common subset of Python, JavaScript and RE2;
    `then` are further expressions searched in order in the rest of that line and the following lines (each may be absent).
    `holes` gives the kind of each named group. `literal` (six bytes or more) always stands in a matching line: the prefilter
    finds it. `event` is the name that conditions use; `fault_class` a class of the causal table. `facts` maps a fact to a
    capture (`{name}`) or to a constant. Signals of role `progress` are sampled by the scan.
    """

    id: str
    event: str
    role: Role
    fault_class: str | None
    literal: str
    pattern: str
    then: tuple[str, ...] = ()
    holes: dict[str, HoleKind] = {}
    facts: dict[str, CaptureValue] = {}
    emitter: str = ""
    status: Literal["stable", "preview"] = "stable"
    samples: tuple[SignalSample, ...] = ()
    benign: tuple[str, ...] = ()
    source: str = ""
    """`signals/torch.toml:12`: where the signal is defined, for error texts."""


class FactSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the closed list of facts.

    `type`: bool, int, float, str, path, bytes, rank, text, `int list`, `enum` or `enum list` (then `values`).
    `unit` is plain words. `ask`, `obtain`, `cost` make the missing-fact answer; `producer` names who makes the fact
    (`signals`, `ingest`, `engine/derive/frames` ...).
    """

    name: str
    type: str
    says: str
    ask: str
    obtain: str
    cost: Cost
    values: tuple[str | bool, ...] = ()
    unit: str = ""
    producer: str = ""


class FaultClass(msgspec.Struct, frozen=True, kw_only=True):
    """A class of fatal events: whether it starts failures (`prior`), and its weight when several stay unexplained."""

    id: str
    prior: Literal["initiating", "either", "collateral", "context"]
    weight: int
    text: str
    says: str = ""
    """The class in two or three words: `lost a peer`."""
    note: str = ""
    derived: bool = False
    """True if no signal or exception type carries the class: the engine concludes it (a silent end, a process exit)."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """A row `a explains b`: the scope, and the delay time(b) - time(a) that it allows in seconds.

    A limit of None is unbounded. `after_timeout` adds the collective's own time-out to the upper limit.
    `match` names what must agree besides the scope (`pid`, `path`), empty if nothing.
    """

    a: str
    b: str
    scope: Literal["rank", "host", "gpu", "group", "job", "next_attempt", "reports"]
    min_delay_s: float | None = None
    max_delay_s: float | None = None
    after_timeout: bool = False
    match: str = ""
    rule: str = ""
    note: str = ""


class ExceptionType(msgspec.Struct, frozen=True, kw_only=True):
    """A Python exception type (last part of its name) of which more is known than that it was raised.

    `waits`: it is raised by a thread that waited for another one in vain.
    """

    name: str
    fault_class: str
    waits: bool = False


class CausalTable(msgspec.Struct, frozen=True, kw_only=True):
    """Everything attribution knows: classes, rows, and the classes of exception types.

    `groups` are pseudo classes: a name used in rows for several classes (`any_fatal`).
    """

    classes: tuple[FaultClass, ...]
    explains: tuple[Explanation, ...]
    exception_types: tuple[ExceptionType, ...] = ()
    groups: dict[str, tuple[str, ...]] = {}


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """One `if` of an entry with what it says and weighs. `where` is `file:line` of the entry."""

    if_: str
    says: str = ""
    weight: int = 1
    decisive: bool = False
    veto: bool = False
    where: str = ""


class SettingEdit(msgspec.Struct, frozen=True, kw_only=True):
    """Set `key` of the settings `family` (see `model.fact.Setting`) to `value`, in the file where it stands.

    `key` and `value` are templates; a key that is filled with `a, b` is each of them, and so is `rename`.
    """

    family: str
    key: str
    value: str = ""
    add: bool = False
    """True if the key may be added to a file of that family, or the option or variable to the launch line, that lacks it."""
    quote: bool = False
    """True if the value that stands in the YAML file is put in quotes, where YAML reads it as no text; `value` is not used."""
    remove: bool = False
    """True if the key is taken out with its value, nested ones included; `value` is not used."""
    rename: str = ""
    """The key that is meant: the value stays."""
    move: bool = False
    """True if `key` is an option of a launch line with its value, to go in front of the script; `value` is not used."""


class FixRule(msgspec.Struct, frozen=True, kw_only=True):
    """A fix of an entry: when it applies, for which stacks, of what kind, and what verifies it.

    `edit` changes settings of the user's own files: a list of `SettingEdit`; empty means the body's code block is the pattern.
    """

    id: str
    title: str = ""
    when: str = ""
    stacks: tuple[str, ...] = ()
    kind: Literal["edit", "command", "env"] = "edit"
    verify: str = ""
    risk: str = ""
    edit: tuple[SettingEdit, ...] = ()


class VerifyRule(msgspec.Struct, frozen=True, kw_only=True):
    """A command and what it must show; both are templates."""

    id: str
    run: str
    expect: str


class DifferenceRule(msgspec.Struct, frozen=True, kw_only=True):
    """What may make one of two runs fail by this entry: exactly one of the four forms.

    `if_` is true of the failing side and false of the other; the number `more` is greater, or `less` smaller, on the failing
    side; the failing side has a version of `package` from `since` on and below `until`, the other has none of these.
    `decisive`: without it the cause cannot be there. Of two runs that end alike and whose losses part, `differs` is a fact that
    explains it where both sides show another value; `says` then has `{a.FACT}`, `{b.FACT}` and, where both are alike,
    `{same.FACT}`, and `title` stands for the entry's.
    """

    if_: str = ""
    differs: str = ""
    title: str = ""
    more: str = ""
    less: str = ""
    package: str = ""
    since: str = ""
    until: str = ""
    says: str = ""
    decisive: bool = False
    where: str = ""


class EntryTest(msgspec.Struct, frozen=True, kw_only=True):
    """A fence under *Tests*: input of a kind, and what the diagnosis must say of it."""

    kind: Literal["log", "config", "command", "vitals", "script", "answers", "plan"]
    name: str
    expect: str
    text: str
    where: str = ""


class CodeBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A fence below a fix heading: its language, the stack it is for (or empty), its text."""

    language: str
    stack: str
    text: str


class EntryBody(msgspec.Struct, frozen=True, kw_only=True):
    """What a person reads: sections by heading (Markdown), code blocks by fix id, and the tests."""

    sections: dict[str, str]
    fixes: dict[str, tuple[CodeBlock, ...]] = {}
    fix_texts: dict[str, str] = {}
    """Prose below a fix heading, outside the fences."""
    tests: tuple[EntryTest, ...] = ()
    lines: dict[str, int] = {}
    """Line of each section heading and of each fix heading in the entry's file."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What a program decides on: one failure cause, its place in the tree, its conditions, fixes and verification."""

    id: str
    title: str
    category: str
    role: Literal["initiating", "either", "collateral"]
    refines: str | None = None
    also_under: tuple[str, ...] = ()
    fallback: bool = False
    status: Literal["stable", "preview"] = "preview"
    since: str = ""
    verified_on: tuple[str, ...] = ()
    stacks: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    related: tuple[str, ...] = ()
    says: str = ""
    """The cause in one or two sentences, a template with this run's facts (`{fact}`)."""
    never_established: str = ""
    """Why no evidence that is left behind is this cause's alone; empty if a condition is decisive."""
    requires: tuple[Condition, ...] = ()
    evidence: tuple[Condition, ...] = ()
    against: tuple[Condition, ...] = ()
    plan: tuple[Condition, ...] = ()
    """When the plan of a command shows it, before anything runs: any one of these that is true makes it a finding."""
    differences: tuple[DifferenceRule, ...] = ()
    """What of two runs explains that only one fails by this entry."""
    fixes: tuple[FixRule, ...] = ()
    verify: tuple[VerifyRule, ...] = ()
    monitor: dict[str, str] = {}
    source: str = ""
    """`encyclopedia/memory/cuda-oom.md`."""


class Pack(msgspec.Struct, frozen=True, kw_only=True):
    """All knowledge, compiled. Entry bodies are decoded one at a time through `pack.body(id)`."""

    signals: tuple[Signal, ...]
    facts: dict[str, FactSpec]
    causal: CausalTable
    entries: dict[str, Entry]
    bodies: dict[str, msgspec.Raw] = {}
    redaction: msgspec.Raw = msgspec.Raw(b"\x90")
    """What is masked before text leaves the machine, decoded by `redaction.redaction_rules`; no rule by default."""
