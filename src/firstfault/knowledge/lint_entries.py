"""Checks entries as a whole: their place in the tree, what decides them, their tests, texts and code blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from firstfault.knowledge.expression import parse
from firstfault.knowledge.lint_conditions import Vocabulary, conditions, difference_conditions, lint_condition, plan_conditions
from firstfault.knowledge.lint_issue import LintIssue
from firstfault.knowledge.schema import Entry, EntryBody, EntryTest, FixRule, Pack
from firstfault.knowledge.template import holes
from firstfault.lazy_pattern import lazy_pattern

FILL = "<fill:"
"""What the scaffold leaves for its author."""

PLANNED = "planned"
"""The producer of a fact whose reader comes with a later step."""

CONTEXT_NAMES = frozenset({"log", "log_dir", "config", "script", "job"})
"""Holes of commands that are filled with what was handed over, not with facts."""

# A command ends where the shell or the sentence ends it.
_COMMAND = lazy_pattern(r"\bfirstfault(?= )[^`\n;|&)]*")
_OPTION = lazy_pattern(r"(?<![\w-])--[a-z][a-z0-9-]*")


def lint_entry(entry: Entry, body: EntryBody, pack: Pack, vocabulary: Vocabulary) -> Iterator[LintIssue]:
    """Everything that one entry lacks or gets wrong."""
    top = f"{entry.source}:1"
    for where, text in (*conditions(entry), *plan_conditions(entry), *difference_conditions(entry)):
        yield from lint_condition(where, text, vocabulary)
    yield from _lint_place(entry, pack, top)
    yield from _lint_decision(entry, pack, top)
    yield from _lint_templates(entry, vocabulary, top)
    yield from _lint_tests(entry, body, pack, f"{entry.source}:{body.lines.get('Tests', 1)}")
    for fix in entry.fixes:
        yield from _lint_fix(entry, fix, body)
    for where, text in texts(entry, body):
        if FILL in text:
            start = text.index(FILL)
            yield LintIssue(where, f"left to fill: {text[start : start + 80].splitlines()[0]}")


def lint_options(where: str, text: str, cli_options: frozenset[str]) -> Iterator[LintIssue]:
    """Options that a text gives to firstfault and that its command line does not have."""
    for command in _COMMAND.findall(text):
        # What stands behind ` -- ` belongs to the command that firstfault runs.
        for option in _OPTION.findall(command.split(" -- ")[0]):
            if option not in cli_options:
                yield LintIssue(where, f"firstfault has no option `{option}`")


def lint_holes(where: str, template: str, vocabulary: Vocabulary, *, context: bool) -> Iterator[LintIssue]:
    """Holes that no fact can fill; with `context` what was handed over may stand in a hole as well."""
    for hole in holes(template):
        name = hole.removesuffix(".span")
        if name not in vocabulary.facts and not (context and name in CONTEXT_NAMES):
            yield LintIssue(where, f"the hole {{{hole}}} names no fact")


def texts(entry: Entry, body: EntryBody) -> Iterator[tuple[str, str]]:
    """Where and text of all that a person reads of the entry."""
    top = f"{entry.source}:1"
    yield from ((top, text) for text in (entry.title, entry.says, *entry.monitor.values(), *entry.verified_on, *entry.aliases))
    for condition in (*entry.requires, *entry.evidence, *entry.against, *entry.plan):
        yield condition.where, condition.says
    for fix in entry.fixes:
        yield from ((top, text) for text in (fix.title, fix.risk))
    for rule in entry.verify:
        yield from ((top, text) for text in (rule.run, rule.expect))
    for heading, text in (*body.sections.items(), *body.fix_texts.items()):
        yield f"{entry.source}:{body.lines.get(heading, 1)}", text
    for fix_id, blocks in body.fixes.items():
        yield from ((f"{entry.source}:{body.lines.get(fix_id, 1)}", block.text) for block in blocks)
    yield from ((test.where, test.text) for test in body.tests)


def _when_stable(entry: Entry) -> Literal["error", "warning"]:
    return "error" if entry.status == "stable" else "warning"


def _lint_place(entry: Entry, pack: Pack, top: str) -> Iterator[LintIssue]:
    for parent in (*((entry.refines,) if entry.refines else ()), *entry.also_under):
        if parent not in pack.entries:
            yield LintIssue(top, f"the parent `{parent}` is no entry")
    if entry.id in entry.also_under or entry.refines in entry.also_under:
        yield LintIssue(top, "`also_under` names the entry itself or the parent that `refines` gives")
    for other in entry.related:
        if other not in pack.entries:
            yield LintIssue(top, f"`related` names `{other}`, which is no entry")
    if not entry.requires and not entry.plan:
        yield LintIssue(top, "without `[[requires]]` or `[[plan]]` nothing opens the entry")


def _lint_decision(entry: Entry, pack: Pack, top: str) -> Iterator[LintIssue]:
    decisive = any(condition.decisive for condition in (*entry.requires, *entry.evidence, *entry.plan))
    is_parent = any(other.refines == entry.id for other in pack.entries.values())
    if not decisive and not entry.never_established and not entry.fallback and not is_parent:
        yield LintIssue(
            top, "without a decisive condition it is never established: mark one, or say why in `never_established`"
        )
    if decisive and entry.never_established:
        yield LintIssue(top, "`never_established` contradicts the decisive condition")
    for condition in (*entry.evidence, *entry.against, *entry.plan):
        if not condition.says:
            yield LintIssue(condition.where, "the condition has no `says`: nobody can read why it counts", _when_stable(entry))
    if not entry.says:
        yield LintIssue(top, "the entry has no `says`: the answer would have no cause", _when_stable(entry))


def _lint_templates(entry: Entry, vocabulary: Vocabulary, top: str) -> Iterator[LintIssue]:
    yield from lint_holes(top, entry.says, vocabulary, context=False)
    for condition in (*entry.requires, *entry.evidence, *entry.against, *entry.plan):
        yield from lint_holes(condition.where, condition.says, vocabulary, context=False)
    for rule in entry.verify:
        for template in (rule.run, rule.expect):
            yield from lint_holes(top, template, vocabulary, context=True)
    for fix in entry.fixes:
        for edit in fix.edit:
            for template in (edit.key, edit.value, edit.rename):
                yield from lint_holes(top, template, vocabulary, context=False)


def _lint_tests(entry: Entry, body: EntryBody, pack: Pack, section: str) -> Iterator[LintIssue]:
    if not any(_wins(entry, test) for test in body.tests):
        waits = sorted(_planned(entry, pack))
        # A preview entry may be written before the reader of its facts: it is a known miss until then.
        severity: Literal["error", "warning"] = "warning" if waits and entry.status == "preview" else "error"
        until = f": it waits for {', '.join(waits)}" if waits else ""
        yield LintIssue(section, f"no test that `{entry.id}` must win{until}", severity)
    if all(_wins(entry, test) for test in body.tests):
        yield LintIssue(section, "no near miss: a test that a sibling, or nothing, must win")
    for test in body.tests:
        kind, _, rest = test.expect.partition(":")
        if kind == "missing":
            if rest not in pack.facts:
                yield LintIssue(test.where, f"`{rest}` is no fact")
        elif kind not in ("none", "undetermined", "collateral") and kind not in pack.entries:
            yield LintIssue(test.where, f"`{kind}` is no entry")


def _planned(entry: Entry, pack: Pack) -> Iterator[str]:
    """Facts of its requirements that nothing produces yet."""
    for condition in entry.requires:
        for name in parse(condition.if_).names:
            if name in pack.facts and pack.facts[name].producer == PLANNED:
                yield name


def _wins(entry: Entry, test: EntryTest) -> bool:
    return test.expect.partition(":")[0] == entry.id or (test.expect == "collateral" and entry.role == "collateral")


def _lint_fix(entry: Entry, fix: FixRule, body: EntryBody) -> Iterator[LintIssue]:
    where = f"{entry.source}:{body.lines.get(fix.id, 1)}"
    blocks = body.fixes.get(fix.id, ())
    if not blocks and not fix.edit:
        yield LintIssue(where, f"the fix `{fix.id}` shows no change: neither a code block nor `[[fix.edit]]`")
    for stack in fix.stacks:
        if not fix.edit and blocks and not any(block.stack in ("", stack) for block in blocks):
            yield LintIssue(where, f"the fix `{fix.id}` has no code block for `{stack}`", _when_stable(entry))
    if not fix.verify:
        yield LintIssue(where, f"the fix `{fix.id}` names no verification", _when_stable(entry))
