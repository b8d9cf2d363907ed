"""An entry of the encyclopedia, for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from firstfault.knowledge.schema import DECISIVE_WEIGHT, CodeBlock, Condition, Entry, EntryBody
from firstfault.lazy_pattern import lazy_pattern
from firstfault.render import prose
from firstfault.render.layout import Canvas
from firstfault.render.markdown import fence
from firstfault.render.style import Look, Role
from firstfault.render.terminal import MIN_WIDTH

_NOT_FOR_READERS = frozenset({"Tests"})
_LABEL = 16
_HOLE = lazy_pattern(r"\{((?:launch\.command|script|log|log_dir|config|launcher))\}")


def render_entry(
    entry: Entry,
    body: EntryBody,
    *,
    entries: Mapping[str, Entry] | None = None,
    width: int = 80,
    color: bool = False,
    ascii: bool = False,
) -> str:
    """The whole entry as terminal text; `entries` gives the titles and the place in the tree."""
    canvas = Canvas(Look(width=max(MIN_WIDTH, width), color=color, ascii=ascii))
    entries = entries or {entry.id: entry}
    canvas.prose(entry.title, indent=0, role="head")
    canvas.blank()
    for label, text in _facts(entry, entries):
        canvas.labelled(label, text, column=_LABEL)
    for name, text in body.sections.items():
        if name in _NOT_FOR_READERS or not (text.strip() or name == "Fix" or (name == "Verify" and entry.verify)):
            continue
        canvas.heading(name.upper())
        prose.draw(canvas, text)
        if name == "Fix":
            _fixes(canvas, entry, body)
        if name == "Verify":
            _verification(canvas, entry)
    _decides(canvas, entry)
    _relatives(canvas, entry, entries)
    canvas.blank()
    canvas.prose("more: firstfault diagnose INPUT... · firstfault explain --list", indent=0, full=True)
    return canvas.text()


def entry_markdown(entry: Entry, body: EntryBody) -> str:
    """The entry as one Markdown text without its tests."""
    parts = [f"# {entry.title}", f"`{entry.id}` · {entry.category} · {entry.status}"]
    for name, text in body.sections.items():
        if name in _NOT_FOR_READERS:
            continue
        parts += [f"## {name}", text.strip()]
        if name == "Fix":
            for fix, blocks in body.fixes.items():
                parts += [f"### {fix}", body.fix_texts.get(fix, "").strip()]
                parts += [text for block in blocks for text in (f"{block.stack}:" if block.stack else "", _fence(block))]
    return "\n\n".join(part for part in parts if part) + "\n"


def render_list(entries: Mapping[str, Entry], *, width: int = 80, color: bool = False, ascii: bool = False) -> str:
    """All entries as a tree: an entry stands below the one it refines."""
    canvas = Canvas(Look(width=max(MIN_WIDTH, width), color=color, ascii=ascii))
    below: dict[str, list[Entry]] = {}
    for entry in sorted(entries.values(), key=lambda item: (item.category, item.id)):
        parent = entry.refines if entry.refines in entries else None
        below.setdefault(parent or f"/{entry.category}", []).append(entry)
    for key in sorted(key for key in below if key.startswith("/")):
        canvas.heading(key[1:].upper())
        _branch(canvas, below, below[key], 2)
    canvas.blank()
    canvas.prose("more: firstfault explain ENTRY", indent=0)
    return canvas.text()


def _branch(canvas: Canvas, below: Mapping[str, Sequence[Entry]], entries: Sequence[Entry], indent: int) -> None:
    for entry in entries:
        role: Role = "dim" if entry.status == "preview" else ""
        canvas.prose(f"{entry.id}: {entry.title}", indent=indent, hanging=indent + 4, role=role, full=True)
        _branch(canvas, below, below.get(entry.id, ()), indent + 2)


def _facts(entry: Entry, entries: Mapping[str, Entry]) -> list[tuple[str, str]]:
    path = [entry.id]
    while (parent := entries[path[0]].refines if path[0] in entries else None) and parent not in path:
        path.insert(0, parent)
    rows = [
        ("id", entry.id),
        ("category", entry.category),
        ("status", f"{entry.status}{f', since {entry.since}' if entry.since else ''}"),
        ("verified on", "; ".join(entry.verified_on)),
        ("stacks", ", ".join(entry.stacks)),
        ("below", " > ".join(path[:-1])),
        ("also said", "; ".join(f'"{alias}"' for alias in entry.aliases)),
    ]
    return [(label, text) for label, text in rows if text]


def _fixes(canvas: Canvas, entry: Entry, body: EntryBody) -> None:
    rules = {rule.id: rule for rule in entry.fixes}
    for number, (fix, blocks) in enumerate(body.fixes.items()):
        if number:
            canvas.blank()
        rule = rules.get(fix)
        canvas.prose(f"{fix}: {rule.title}" if rule and rule.title else fix, hanging=4, role="head")
        text = body.fix_texts.get(fix, "")
        if text.strip():
            prose.draw(canvas, text)
        for block in blocks:
            canvas.blank()
            if block.stack:
                canvas.prose(f"{block.stack}:", indent=4, role="dim")
            canvas.code([(line, _code_role(line, block)) for line in canvas.look.block(block.text.rstrip("\n"))], indent=4)
        if rule and rule.risk:
            canvas.blank()
            canvas.prose(f"risk: {rule.risk}", hanging=8)


def _verification(canvas: Canvas, entry: Entry) -> None:
    for rule in entry.verify:
        canvas.blank()
        for line in canvas.look.block(as_blanks(rule.run)):
            canvas.command(line)
        canvas.prose(f"must show: {as_blanks(rule.expect)}", indent=4, hanging=15)


def as_blanks(template: str) -> str:
    """The command with `<launch.command>` for what a diagnosis would fill in."""
    return _HOLE.sub(r"<\1>", template)


def _code_role(line: str, block: CodeBlock) -> Role:
    return "added" if block.language == "diff" and line.startswith("+") else ""


def _fence(block: CodeBlock) -> str:
    return fence(block.text, block.language)


def _decides(canvas: Canvas, entry: Entry) -> None:
    """The conditions of the entry, as the diagnosis uses them."""
    rows: list[tuple[str, Condition]] = [("must be true", condition) for condition in entry.requires]
    rows += [
        ("decisive" if condition.decisive or condition.weight >= DECISIVE_WEIGHT else f"for, {condition.weight}", condition)
        for condition in entry.evidence
    ]
    rows += [("rules it out" if item.veto else f"against, {item.weight}", item) for item in entry.against]
    if not rows:
        return
    canvas.heading("HOW FIRSTFAULT DECIDES")
    for label, condition in rows:
        # A sentence about one run's numbers says less here than the condition itself.
        said = "" if "{" in condition.says else condition.says
        canvas.labelled(label, f"{said}\n{condition.if_}" if said else condition.if_, column=_LABEL)


def _relatives(canvas: Canvas, entry: Entry, entries: Mapping[str, Entry]) -> None:
    names = [item.id for item in entries.values() if item.refines == entry.id] + list(entry.related)
    known = [name for name in dict.fromkeys(names) if name in entries]
    if not known:
        return
    canvas.heading("SEE ALSO")
    for name in known:
        canvas.prose(f"{name}: {entries[name].title}", hanging=6, full=True)
