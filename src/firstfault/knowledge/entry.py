"""Reads an entry of the encyclopedia: Markdown with TOML front matter between `+++` lines.

Accepted keys of the front matter (unknown keys are errors):

    id title category role         required; the id is the file's name, the category its folder
    refines also_under fallback    the place in the tree
    status since verified_on stacks tags aliases related says never_established
    [[requires]]  if; optional says, decisive
    [[evidence]]  if, says; weight (1 to 4, default 1) or decisive
    [[against]]   if, says; weight or veto
    [[plan]]      if, says; optional decisive: what the plan of a command shows before anything runs
    [[difference]] `if`, `more`, `less`, `package` (with since, until) or `differs` (with title); says; optional decisive: why
                  one of two runs fails, or trains otherwise
    [[fix]]       id; optional title, when, for, kind (edit command env), verify, risk
    [[fix.edit]]  family, key, value or `quote = true`, `remove = true`, `rename`, `move = true`; optional add
    [[verify]]    id, run, expect
    [monitor]     metric, alert

The body is described in `entry_body`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from firstfault.errors import ExpressionError
from firstfault.knowledge.entry_body import read_body
from firstfault.knowledge.expression import parse
from firstfault.knowledge.problems import Problems
from firstfault.knowledge.schema import Condition, DifferenceRule, Entry, EntryBody, FixRule, SettingEdit, VerifyRule
from firstfault.knowledge.toml_table import Document, Table

FENCE = "+++"
MAX_WEIGHT = 4
ROLES = ("initiating", "either", "collateral")


def load_entry(path: Path) -> tuple[Entry, EntryBody]:
    """The entry of one file; KnowledgeError lists everything that is wrong with it."""
    problems = Problems()
    found = read_entry(path.read_text(encoding="utf-8"), f"{path.parent.parent.name}/{path.parent.name}/{path.name}", problems)
    problems.raise_if_any()
    return found


def read_entry(text: str, file: str, problems: Problems) -> tuple[Entry, EntryBody]:
    """Front matter and body of an entry; errors go to `problems`. `file` is `encyclopedia/<category>/<id>.md`."""
    lines = text.splitlines()
    closing = next((number for number, line in enumerate(lines[1:], 1) if line.strip() == FENCE), 0)
    if not lines or lines[0].strip() != FENCE or not closing:
        problems.add(f"{file}:1", f"an entry begins with TOML between two lines `{FENCE}`")
        closing = 0
    document = Document("\n".join(lines[1:closing]), file, problems, first_line=2)
    entry = _read_front_matter(document, file)
    body = read_body("\n".join(lines[closing + 1 :]), file, closing + 2, entry.title, problems)
    for fix in entry.fixes:
        if fix.id not in body.fixes:
            problems.add(document.where(0), f"the fix `{fix.id}` has no heading `### {fix.id}` below `## Fix`")
    for heading in body.fixes.keys() - {fix.id for fix in entry.fixes}:
        problems.add(f"{file}:{body.lines[heading]}", f"`### {heading}` is no fix of the front matter")
    return entry, body


def _read_front_matter(document: Document, file: str) -> Entry:
    root = document.root()
    for name in ("requires", "evidence", "against", "plan", "difference", "fix"):
        root.items(name, dict, "tables")
    verifications = {table.get("id") for table in root.items("verify", dict, "tables")}
    monitor = document.table("monitor", root.mapping("monitor"))
    entry = Entry(
        id=root.required_text("id"),
        title=root.required_text("title"),
        category=root.required_text("category"),
        role=cast(Any, root.choice("role", ROLES)),
        refines=root.text("refines") or None,
        also_under=root.texts("also_under"),
        fallback=root.flag("fallback"),
        status=cast(Any, root.choice("status", ("stable", "preview"), "preview")),
        since=root.text("since"),
        verified_on=root.texts("verified_on"),
        stacks=root.texts("stacks"),
        tags=root.texts("tags"),
        aliases=root.texts("aliases"),
        related=root.texts("related"),
        says=root.text("says"),
        never_established=root.text("never_established"),
        requires=tuple(_read_condition(table, "requires") for table in document.tables("requires")),
        evidence=tuple(_read_condition(table, "evidence") for table in document.tables("evidence")),
        against=tuple(_read_condition(table, "against") for table in document.tables("against")),
        plan=tuple(_read_condition(table, "plan") for table in document.tables("plan")),
        differences=tuple(_read_difference(table) for table in document.tables("difference")),
        fixes=tuple(_read_fix(table, verifications) for table in document.tables("fix")),
        verify=tuple(_read_verify(table) for table in document.tables("verify")),
        monitor={name: monitor.required_text(name) for name in ("metric", "alert") if monitor.values},
        source=file,
    )
    monitor.finish()
    root.finish()
    _check_names(root, entry, file)
    return entry


def _check_names(root: Table, entry: Entry, file: str) -> None:
    path = Path(file)
    if entry.id and entry.id != path.stem:
        root.note(f"the id is {entry.id!r}, the file is named {path.name}", "id")
    if entry.category and entry.category != path.parent.name:
        root.note(f"the category is {entry.category!r}, the folder {path.parent.name}", "category")


def _read_condition(table: Table, kind: str) -> Condition:
    text = table.required_text("if")
    _check_condition(table, "if", text)
    weight = table.integer("weight", 1) if kind in ("evidence", "against") else 1
    if not 1 <= weight <= MAX_WEIGHT:
        table.note(f"`weight` lies between 1 and {MAX_WEIGHT}; what weighs more is decisive or a veto", "weight")
    strong = "veto" if kind == "against" else "decisive"
    if table.flag(strong) and "weight" in table.values:
        table.note(f"`{strong}` and `weight` exclude each other", "weight")
    condition = Condition(
        if_=text,
        says=table.text("says"),
        weight=weight,
        decisive=kind != "against" and table.flag("decisive"),
        veto=kind == "against" and table.flag("veto"),
        where=table.where("if"),
    )
    table.finish()
    return condition


def _read_difference(table: Table) -> DifferenceRule:
    forms = [name for name in ("if", "more", "less", "package", "differs") if name in table.values]
    if len(forms) != 1:
        table.note("a difference has one of `if`, `more`, `less`, `package` and `differs`", forms[0] if forms else "says")
    if forms == ["package"] and not {"since", "until"} & table.values.keys():
        table.note("a `package` needs `since` or `until`", "package")
    condition = table.text("if")
    _check_condition(table, "if", condition)
    rule = DifferenceRule(
        if_=condition,
        differs=table.text("differs"),
        title=table.text("title"),
        more=table.text("more"),
        less=table.text("less"),
        package=table.text("package"),
        since=table.text("since"),
        until=table.text("until"),
        says=table.required_text("says"),
        decisive=table.flag("decisive"),
        where=table.where("says"),
    )
    table.finish()
    return rule


def _check_condition(table: Table, key: str, text: str) -> None:
    if text:
        try:
            parse(text)
        except ExpressionError as error:
            table.note(f"`{key}`: {error.message}", key)


def _read_fix(table: Table, verifications: set[Any]) -> FixRule:
    when = table.text("when")
    _check_condition(table, "when", when)
    edits = table.items("edit", dict, "tables")
    fix = FixRule(
        id=table.required_text("id"),
        title=table.text("title"),
        when=when,
        stacks=table.texts("for"),
        kind=cast(Any, table.choice("kind", ("edit", "command", "env"), "edit")),
        verify=table.text("verify"),
        risk=table.text("risk"),
        edit=tuple(_read_edit(table, values) for values in edits),
    )
    if fix.verify and fix.verify not in verifications:
        table.note(f"the fix `{fix.id}` names the unknown verification `{fix.verify}`", "verify")
    table.finish()
    return fix


def _read_edit(fix: Table, values: dict[str, Any]) -> SettingEdit:
    table = fix.below(values, "[[fix.edit]]")
    forms = [name for name in ("value", "quote", "remove", "rename", "move") if name in table.values]
    if len(forms) != 1:
        table.note("an edit has one of `value`, `quote`, `remove`, `rename` and `move`", forms[0] if forms else "key")
    edit = SettingEdit(
        family=table.required_text("family"),
        key=table.required_text("key"),
        value=table.text("value"),
        add=table.flag("add"),
        quote=table.flag("quote"),
        remove=table.flag("remove"),
        rename=table.text("rename"),
        move=table.flag("move"),
    )
    table.finish()
    return edit


def _read_verify(table: Table) -> VerifyRule:
    rule = VerifyRule(id=table.required_text("id"), run=table.required_text("run"), expect=table.required_text("expect"))
    table.finish()
    return rule
