"""Checks conditions against the closed list of facts: names that exist, values that they can have, truths used as truths."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.knowledge.expression import Arithmetic, Comparison, Constant, Junction, Name, Negation, Node, parse
from firstfault.knowledge.fact_list import ENUM_TYPES, NUMBER_TYPES
from firstfault.knowledge.lint_issue import LintIssue
from firstfault.knowledge.schema import Entry, FactSpec, Pack
from firstfault.model.event import CaptureValue


class Vocabulary:
    """Facts and events that conditions and texts may name."""

    def __init__(self, pack: Pack) -> None:
        self.facts = pack.facts
        self.events = frozenset(signal.event for signal in pack.signals)

    def knows(self, name: str) -> bool:
        """True for a fact or an event."""
        return name in self.facts or name in self.events

    def type_of(self, name: str) -> str:
        """The type of a fact; an event is a truth; empty for what does not exist."""
        return self.facts[name].type if name in self.facts else "bool" if name in self.events else ""


def conditions(entry: Entry) -> Iterator[tuple[str, str]]:
    """Where and text of every condition of the entry, the `when` of its fixes included."""
    for condition in (*entry.requires, *entry.evidence, *entry.against):
        yield condition.where, condition.if_
    for fix in entry.fixes:
        if fix.when:
            yield f"{entry.source}:1", fix.when


def plan_conditions(entry: Entry) -> Iterator[tuple[str, str]]:
    """Where and text of what makes the entry a finding of a plan."""
    for condition in entry.plan:
        yield condition.where, condition.if_


def difference_conditions(entry: Entry) -> Iterator[tuple[str, str]]:
    """Where and text of what explains that only one of two runs fails; a number that is compared as a condition on it."""
    for rule in entry.differences:
        if rule.differs:
            yield rule.where, f"{rule.differs} == {rule.differs}"
        elif not rule.package:
            yield rule.where, rule.if_ or f"{rule.more or rule.less} > 0"


def lint_condition(where: str, text: str, vocabulary: Vocabulary) -> Iterator[LintIssue]:
    """What a condition asks that cannot be answered."""
    expression = parse(text)
    for name in sorted(expression.names):
        if not vocabulary.knows(name):
            yield LintIssue(where, f"`{name}` is neither a fact of facts.toml nor an event of a signal")
    for message in _faults(expression.root, vocabulary, wanted="bool"):
        yield LintIssue(where, message)


def value_fault(spec: FactSpec, value: CaptureValue) -> str | None:
    """Why the fact cannot have this value, or None if it can."""
    if spec.type in ENUM_TYPES:
        # True == 1, so the type must agree as well.
        if not any(value == allowed and type(value) is type(allowed) for allowed in spec.values):
            return f"`{spec.name}` is never {value!r}; its values: {', '.join(str(allowed) for allowed in spec.values)}"
        return None
    if spec.type == "bool":
        good = isinstance(value, bool)
    elif spec.type in NUMBER_TYPES or spec.type == "int list":
        good = isinstance(value, int | float) and not isinstance(value, bool)
    else:
        good = isinstance(value, str)
    return None if good else f"`{spec.name}` has the type {spec.type}: {value!r} is none"


def _faults(node: Node, vocabulary: Vocabulary, wanted: str) -> Iterator[str]:
    if isinstance(node, Name):
        kind = vocabulary.type_of(node.name)
        if wanted == "bool" and kind not in ("", "bool"):
            yield f"`{node.name}` has the type {kind}: alone it is no condition, compare it with something"
        if wanted == "number" and kind and kind not in NUMBER_TYPES:
            yield f"`{node.name}` has the type {kind}: it is no number"
    elif isinstance(node, Comparison):
        yield from _comparison_faults(node, vocabulary)
    elif isinstance(node, Arithmetic | Junction | Negation):
        for child in node.children():
            yield from _faults(child, vocabulary, "number" if isinstance(node, Arithmetic) else "bool")


def _comparison_faults(node: Comparison, vocabulary: Vocabulary) -> Iterator[str]:
    ordered = node.operator in ("<", "<=", ">", ">=")
    for side in (node.left, node.right):
        yield from _faults(side, vocabulary, "number" if ordered else "any")
    if ordered:
        return
    for named, other in ((node.left, node.right), (node.right, node.left)):
        if isinstance(named, Name) and isinstance(other, Constant):
            values = other.value if isinstance(other.value, tuple) else (other.value,)
            spec = vocabulary.facts.get(named.name)
            if spec:
                yield from (fault for value in values if (fault := value_fault(spec, value)))
            elif named.name in vocabulary.events and not all(isinstance(value, bool) for value in values):
                yield f"`{named.name}` is an event: it is true or false"
