"""An entry of the encyclopedia as its page shows it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from firstfault.knowledge.pack import body
from firstfault.knowledge.schema import DECISIVE_WEIGHT, CodeBlock, Condition, Entry, EntryBody, Pack
from firstfault.render.entry import as_blanks

_NAMED = re.compile(r"<code>([a-z0-9-]+)</code>")


class Decision(NamedTuple):
    """A step of telling the entry apart: what must, may or must not be, in words."""

    kind: str
    must: str
    says: str


class Weighed(NamedTuple):
    """A condition as the engine reads it, and what it weighs."""

    kind: str
    weighs: str
    says: str
    if_: str


class ShownFix(NamedTuple):
    """A fix with its prose as HTML and its code by stack."""

    id: str
    title: str
    text: Markup
    blocks: Sequence[CodeBlock]
    risk: str


class Check(NamedTuple):
    """A command and what it must show, with blanks for what a diagnosis would fill in."""

    run: str
    expect: str


class EntryView(NamedTuple):
    """Everything that the page of an entry shows."""

    entry: Entry
    sections: Mapping[str, Markup]
    decisions: Sequence[Decision]
    conditions: Sequence[Weighed]
    fixes: Sequence[ShownFix]
    checks: Sequence[Check]
    parents: Sequence[Entry]
    relatives: Sequence[Entry]
    tests: int


def view(entry: Entry, pack: Pack, link: Callable[[Entry], str]) -> EntryView:
    """The page of an entry; `link` gives the address of another one's page."""
    text = body(pack, entry.id)

    def html(markdown: str) -> Markup:
        return _linked(MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown), entry, pack, link)

    return EntryView(
        entry=entry,
        sections={name: html(part) for name, part in text.sections.items() if name != "Tests" and part.strip()},
        decisions=[*_decisions(entry)],
        conditions=[*_weighed(entry)],
        fixes=[*_fixes(entry, text, html)],
        checks=[Check(as_blanks(rule.run), as_blanks(rule.expect)) for rule in entry.verify],
        parents=_parents(entry, pack),
        relatives=_relatives(entry, pack),
        tests=len({test.name for test in text.tests}),
    )


def _linked(html: str, entry: Entry, pack: Pack, link: Callable[[Entry], str]) -> Markup:
    """The prose with each other entry that it names as a link."""

    def linked(found: re.Match[str]) -> str:
        other = pack.entries.get(found[1])
        return f'<a href="{escape(link(other))}">{found[0]}</a>' if other is not None and other is not entry else found[0]

    return Markup(_NAMED.sub(linked, html))


def _decisions(entry: Entry) -> Iterator[Decision]:
    """The conditions that have words of their own; those with one run's numbers say nothing here."""
    for one in _spoken(entry.requires):
        yield Decision("requires", "must be", one.says)
    for one in _spoken(item for item in entry.evidence if _is_decisive(item)):
        yield Decision("decisive", "decides", one.says)
    for one in _spoken(item for item in entry.against if item.veto):
        yield Decision("veto", "then it is not this", one.says)


def _spoken(conditions: Iterator[Condition] | Sequence[Condition]) -> Iterator[Condition]:
    return (one for one in conditions if one.says and "{" not in one.says)


def _weighed(entry: Entry) -> Iterator[Weighed]:
    rows = [("requires", "must be true", one) for one in entry.requires]
    rows += [
        ("decisive", "decisive", one) if _is_decisive(one) else ("for", f"for {one.weight}", one) for one in entry.evidence
    ]
    rows += [("veto", "rules it out", one) if one.veto else ("against", f"against {one.weight}", one) for one in entry.against]
    rows += [("plan", "seen in the plan", one) for one in entry.plan]
    for kind, weighs, one in rows:
        yield Weighed(kind, weighs, "" if "{" in one.says else one.says, one.if_)


def _is_decisive(condition: Condition) -> bool:
    return condition.decisive or condition.weight >= DECISIVE_WEIGHT


def _fixes(entry: Entry, text: EntryBody, html: Callable[[str], Markup]) -> Iterator[ShownFix]:
    rules = {rule.id: rule for rule in entry.fixes}
    for fix, blocks in text.fixes.items():
        rule = rules.get(fix)
        title = rule.title if rule and rule.title else fix
        yield ShownFix(fix, title, html(text.fix_texts.get(fix, "")), blocks, rule.risk if rule else "")


def _parents(entry: Entry, pack: Pack) -> list[Entry]:
    found: list[Entry] = []
    above = entry.refines
    while above in pack.entries and pack.entries[above] not in found:
        found.insert(0, pack.entries[above])
        above = found[0].refines
    return found


def _relatives(entry: Entry, pack: Pack) -> list[Entry]:
    below = [item.id for item in pack.entries.values() if item.refines == entry.id]
    return [pack.entries[name] for name in dict.fromkeys([*below, *entry.related]) if name in pack.entries]
