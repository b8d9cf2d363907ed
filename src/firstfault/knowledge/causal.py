"""The causal table of attribution, read from `encyclopedia/explains.toml`.

Accepted tables and keys (unknown ones are errors):

    [[class]]           id, prior (initiating either collateral context), weight (whole number), text; optional says, note;
                        `derived = true` if no signal or exception type carries it and the engine concludes it
    [[explains]]        a, b, scope (rank host gpu group job next_attempt reports), delay_s; optional match, rule, note
    [[exception_type]]  name (last part of the Python type), class, waits
    [groups]            name = ["class", ...]: a name that rows use for several classes

`delay_s = [min, max]`: numbers of seconds, "inf", "-inf", or "timeout + 75" as the upper limit (the collective's own time-out
is added). `a` and `b` are classes or groups.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, cast

from firstfault.knowledge.problems import Problems
from firstfault.knowledge.schema import CausalTable, ExceptionType, Explanation, FaultClass
from firstfault.knowledge.toml_table import Document, Table
from firstfault.lazy_pattern import lazy_pattern

PRIORS = ("initiating", "either", "collateral", "context")
SCOPES = ("rank", "host", "gpu", "group", "job", "next_attempt", "reports")
_TIMEOUT = lazy_pattern(r"timeout(?: \+ ([0-9]{1,9}(?:\.[0-9]{1,3})?))?\Z")


def load_causal(path: Path) -> CausalTable:
    """The causal table of the file; KnowledgeError lists everything that is wrong with it."""
    problems = Problems()
    table = read_causal(path.read_text(encoding="utf-8"), f"{path.parent.name}/{path.name}", problems)
    problems.raise_if_any()
    return table


def read_causal(text: str, file: str, problems: Problems) -> CausalTable:
    """The causal table that the TOML text defines; errors go to `problems`."""
    document = Document(text, file, problems)
    root = document.root()
    for key in ("class", "explains", "exception_type"):
        root.items(key, dict, "tables")
    groups = document.table("groups", root.mapping("groups"))
    root.finish()
    classes = tuple(_read_class(table) for table in document.tables("class"))
    names = {fault_class.id for fault_class in classes}
    members = {name: groups.texts(name) for name in groups.values}
    for name, group in members.items():
        for unknown in sorted(set(group) - names):
            groups.note(f"group `{name}` names the unknown class `{unknown}`", name)
    known = names | members.keys()
    return CausalTable(
        classes=classes,
        explains=tuple(_read_explanation(table, known) for table in document.tables("explains")),
        exception_types=tuple(_read_exception_type(table, names) for table in document.tables("exception_type")),
        groups=members,
    )


def _read_class(table: Table) -> FaultClass:
    found = FaultClass(
        id=table.required_text("id"),
        prior=cast(Any, table.choice("prior", PRIORS)),
        weight=table.integer("weight", 0),
        text=table.required_text("text"),
        says=table.text("says"),
        note=table.text("note"),
        derived=table.flag("derived"),
    )
    table.finish()
    return found


def _read_explanation(table: Table, known: set[str]) -> Explanation:
    low, high, after_timeout = _read_delay(table)
    found = Explanation(
        a=table.required_text("a"),
        b=table.required_text("b"),
        scope=cast(Any, table.choice("scope", SCOPES)),
        min_delay_s=low,
        max_delay_s=high,
        after_timeout=after_timeout,
        match=table.text("match"),
        rule=table.text("rule"),
        note=table.text("note"),
    )
    for key, name in (("a", found.a), ("b", found.b)):
        if name and name not in known:
            table.note(f"`{key}` names `{name}`, which is no class or group", key)
    table.finish()
    return found


def _read_exception_type(table: Table, classes: set[str]) -> ExceptionType:
    found = ExceptionType(name=table.required_text("name"), fault_class=table.required_text("class"), waits=table.flag("waits"))
    if found.fault_class and found.fault_class not in classes:
        table.note(f"unknown class `{found.fault_class}`", "class")
    table.finish()
    return found


def _read_delay(table: Table) -> tuple[float | None, float | None, bool]:
    """Lower and upper limit (None: unbounded) and whether the time-out is added to the upper one."""
    limits = table.raw("delay_s", list, "[min, max]", None)
    if not isinstance(limits, list) or len(limits) != 2:
        table.note("`delay_s` must be [min, max]", "delay_s")
        return None, None, False
    low, high = limits
    timeout = _TIMEOUT.match(high) if isinstance(high, str) else None
    if timeout:
        return _seconds(table, low), float(timeout[1] or 0), True
    return _seconds(table, low), _seconds(table, high), False


def _seconds(table: Table, limit: object) -> float | None:
    if limit in ("inf", "-inf", "+inf") or (isinstance(limit, float) and math.isinf(limit)):
        return None
    if isinstance(limit, bool) or not isinstance(limit, int | float):
        table.note(f'`delay_s`: {limit!r} is no number, "inf", "-inf" or "timeout + 75"', "delay_s")
        return None
    return float(limit)
