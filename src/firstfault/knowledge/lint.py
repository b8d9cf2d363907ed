"""The lint of the knowledge: what compiles and still cannot be right."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.knowledge.expression import parse
from firstfault.knowledge.fact_list import NUMBER_TYPES
from firstfault.knowledge.lint_conditions import Vocabulary, conditions, difference_conditions, plan_conditions, value_fault
from firstfault.knowledge.lint_entries import lint_entry, lint_holes, lint_options, texts
from firstfault.knowledge.lint_issue import LintIssue
from firstfault.knowledge.lint_roots import CAUSAL_FILE, lint_roots
from firstfault.knowledge.pack import body
from firstfault.knowledge.pattern import GOOD_LITERAL_BYTES
from firstfault.knowledge.schema import Entry, EntryBody, FactSpec, Pack, Signal
from firstfault.knowledge.separation import lint_siblings
from firstfault.knowledge.template import holes
from firstfault.model.event import CaptureValue

FACTS_FILE = "encyclopedia/facts.toml"
NUMBER_KINDS = frozenset({"int", "float", "size", "duration", "rank"})


def lint(pack: Pack, cli_options: frozenset[str] = frozenset()) -> list[LintIssue]:
    """All issues of the pack, by place. `cli_options` are the options of the command line (`--fact`); empty: not checked."""
    vocabulary = Vocabulary(pack)
    read = [(entry, body(pack, entry.id)) for entry in pack.entries.values()]
    issues = [issue for entry, text in read for issue in lint_entry(entry, text, pack, vocabulary)]
    issues += lint_siblings(pack)
    issues += lint_roots(pack)
    issues += _lint_signals(pack)
    issues += _lint_classes(pack)
    issues += _lint_facts(pack, vocabulary)
    if cli_options:
        issues += _lint_cli(pack, read, cli_options)
    return sorted(set(issues), key=_place)


def _place(issue: LintIssue) -> tuple[str, int, str]:
    file, _, line = issue.where.partition(":")
    return file, int(line or 0), issue.message


def _lint_signals(pack: Pack) -> Iterator[LintIssue]:
    classes = {fault_class.id for fault_class in pack.causal.classes}
    for signal in pack.signals:
        if signal.fault_class and signal.fault_class not in classes:
            yield LintIssue(signal.source, f"`{signal.fault_class}` is no class of explains.toml")
        # A truth may be both: the event makes it true. A value may not: its comparisons would meet a truth.
        if signal.event in pack.facts and pack.facts[signal.event].type != "bool":
            yield LintIssue(signal.source, f"`{signal.event}` is an event and a fact with a value: rename one of them")
        # Progress lines are searched for in few places only.
        if len(signal.literal.encode()) < GOOD_LITERAL_BYTES and signal.role != "progress":
            yield LintIssue(
                signal.source,
                f"the literal {signal.literal!r} has fewer than {GOOD_LITERAL_BYTES} bytes, which slows the scan: "
                "split the signal or put more fixed text between two holes",
                "warning",
            )
        for name, value in signal.facts.items():
            spec = pack.facts.get(name)
            fault = _set_fault(spec, value, signal) if spec else f"`facts` sets `{name}`, which is no fact"
            if fault:
                yield LintIssue(signal.source, fault)


def _set_fault(spec: FactSpec, value: CaptureValue, signal: Signal) -> str | None:
    """Why the signal cannot set the fact to this constant or capture, or None."""
    kind = signal.holes.get(value[1:-1]) if isinstance(value, str) and value.startswith("{") else None
    if kind is None:
        return value_fault(spec, value)
    numeric = spec.type in NUMBER_TYPES
    if spec.type == "bool" or numeric != (kind in NUMBER_KINDS):
        return f"`{spec.name}` has the type {spec.type}: a capture of the kind `{kind}` is none"
    return None


def _lint_classes(pack: Pack) -> Iterator[LintIssue]:
    carried = {signal.fault_class for signal in pack.signals} | {item.fault_class for item in pack.causal.exception_types}
    for fault_class in pack.causal.classes:
        if fault_class.id not in carried and not fault_class.derived:
            yield LintIssue(
                CAUSAL_FILE,
                f"no signal and no exception type carries the class `{fault_class.id}`; `derived = true` if the engine does",
                "warning",
            )


def _lint_facts(pack: Pack, vocabulary: Vocabulary) -> Iterator[LintIssue]:
    set_by_signals = {name for signal in pack.signals for name in signal.facts}
    used = _used_names(pack)
    for spec in pack.facts.values():
        if spec.name not in set_by_signals and spec.producer in ("", "signals"):
            yield LintIssue(
                FACTS_FILE, f"nothing produces `{spec.name}`: no signal sets it, no other producer is named", "warning"
            )
        if spec.name not in used:
            yield LintIssue(FACTS_FILE, f"no condition and no text uses `{spec.name}`", "warning")
        yield from lint_holes(FACTS_FILE, spec.obtain, vocabulary, context=True)


def _used_names(pack: Pack) -> set[str]:
    used: set[str] = set()
    for entry in pack.entries.values():
        for _, text in (*conditions(entry), *plan_conditions(entry), *difference_conditions(entry)):
            used |= parse(text).names
        says = [condition.says for condition in (*entry.requires, *entry.evidence, *entry.against, *entry.plan)]
        verify = [text for rule in entry.verify for text in (rule.run, rule.expect)]
        edits = [text for fix in entry.fixes for edit in fix.edit for text in (edit.key, edit.value, edit.rename)]
        for template in (entry.says, *says, *verify, *edits):
            used |= {hole.removesuffix(".span") for hole in holes(template)}
    return used | {hole for spec in pack.facts.values() for hole in holes(spec.obtain)}


def _lint_cli(pack: Pack, read: list[tuple[Entry, EntryBody]], cli_options: frozenset[str]) -> Iterator[LintIssue]:
    for entry, text in read:
        for where, prose in texts(entry, text):
            yield from lint_options(where, prose, cli_options)
    for spec in pack.facts.values():
        yield from lint_options(FACTS_FILE, spec.obtain, cli_options)
