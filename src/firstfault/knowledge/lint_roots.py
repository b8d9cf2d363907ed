"""Checks that the walk can begin: every class of fatal events opens a root of the tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from firstfault.knowledge.expression import parse
from firstfault.knowledge.lint_issue import LintIssue
from firstfault.knowledge.schema import Entry, Pack

CAUSAL_FILE = "encyclopedia/explains.toml"
_ASKED = "fault.class"


class _OnlyClass:
    """What is known when attribution has named a class and nothing else is."""

    def __init__(self, fault_class: str) -> None:
        self._fault_class = fault_class

    def value(self, name: str) -> str | None:
        """The class; all else is unknown."""
        return self._fault_class if name == _ASKED else None

    def rounded(self, name: str) -> bool:
        """No number is known."""
        return False


def lint_roots(pack: Pack) -> Iterator[LintIssue]:
    """Classes that start, or are left over of, a failure and that no root asks for, by name or by one of their texts."""
    classes_of: dict[str, set[str | None]] = {}
    for signal in pack.signals:
        classes_of.setdefault(signal.event, set()).add(signal.fault_class)
    roots = [entry for entry in pack.entries.values() if entry.refines is None]
    for fault_class in pack.causal.classes:
        if fault_class.prior != "context" and not any(_opens(fault_class.id, root, classes_of) for root in roots):
            yield LintIssue(CAUSAL_FILE, f"the class `{fault_class.id}` opens no root of the tree", "warning")


def _opens(fault_class: str, root: Entry, classes_of: Mapping[str, set[str | None]]) -> bool:
    conditions = [parse(condition.if_) for condition in root.requires]
    if any(condition.evaluate(_OnlyClass(fault_class)) is False for condition in conditions):
        return False
    names = {name for condition in conditions for name in condition.names}
    return _ASKED in names or any(fault_class in classes_of.get(name, ()) for name in names)
