"""Why two runs that end alike train otherwise: what the entries say of losses that part (`[[difference]]` with `differs`)."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.engine.compare.curves import Parting
from firstfault.engine.compare.facts import effective_batch, replicas_of
from firstfault.engine.compare.rows import same
from firstfault.engine.compare.side import Side
from firstfault.knowledge.schema import DifferenceRule, Pack
from firstfault.knowledge.template import fill
from firstfault.model.comparison import Explanation
from firstfault.model.plan import Scalar
from firstfault.model.span import SourceSpan

_KEYS = {
    "train.learning_rate": frozenset({"learning_rate", "--learning_rate", "--lr", "lr", "optimizer.params.lr"}),
    "train.seed": frozenset({"seed", "--seed", "data_seed", "--data_seed"}),
}
_BATCH = "train.effective_batch"
_ROWS = {_BATCH: ("effective_batch", "run.world_size", "train.micro_batch", "train.accumulation_steps")}
"""The rows of the comparison that show a fact; else those of its own name and of the last part of it."""


def training_reasons(a: Side, b: Side, parting: Parting | None, pack: Pack) -> tuple[tuple[Explanation, ...], tuple[str, ...]]:
    """What explains losses that part, and the facts that would decide; nothing where the losses do not part.

    Rules come in the order of the entry; the first whose fact differs is the explanation.
    """
    if parting is None:
        return (), ()
    values = _Values(a, b, parting)
    unknown: list[str] = []
    for rule in (rule for entry in pack.entries.values() for rule in entry.differences if rule.differs):
        left, right = values.value(f"a.{rule.differs}"), values.value(f"b.{rule.differs}")
        if left is None or right is None:
            unknown += _parts(rule.differs, a, b)
        elif not same(left, right):
            return (_explanation(rule, values, pack),), ()
    return (), tuple(dict.fromkeys(unknown))


def _explanation(rule: DifferenceRule, values: _Values, pack: Pack) -> Explanation:
    return Explanation(
        verdict="likely",
        failing="b",
        text=fill(rule.says, values, pack.facts).strip(),
        title=rule.title,
        differences=_ROWS.get(rule.differs, (rule.differs, rule.differs.rpartition(".")[2])),
    )


class _Values:
    """What a rule's text may name: `a.FACT`, `b.FACT`, `same.FACT` where both are alike, and `loss.parts_at`."""

    def __init__(self, a: Side, b: Side, parting: Parting) -> None:
        self._sides = {"a": a, "b": b}
        self._parting = parting

    def value(self, name: str) -> Scalar:
        """The value, None while a side does not show it."""
        if name == "loss.parts_at":
            return self._parting.first
        which, _, fact = name.partition(".")
        if which != "same":
            return fact_of(self._sides[which], fact) if which in self._sides else None
        left, right = (fact_of(side, fact) for side in self._sides.values())
        return left if left is not None and right is not None and same(left, right) else None

    def span(self, name: str) -> SourceSpan | None:
        """A text names no lines: the rows do."""
        del name
        return None


def fact_of(side: Side, name: str) -> Scalar:
    """The fact of one side, None if it names none or several values."""
    if name == _BATCH:
        batch = effective_batch(side)
        return None if batch is None else batch[0]
    if name not in _KEYS:
        value = side.facts.value(name)
        return None if isinstance(value, tuple) else value
    settings = (setting for setting in side.settings if setting.key in _KEYS[name] and setting.value is not None)
    found = {str(setting.value): setting.value for setting in settings}
    return next(iter(found.values())) if len(found) == 1 else None


def _parts(name: str, a: Side, b: Side) -> Iterator[str]:
    """The facts to ask for: of the batch, those that a side lacks."""
    if name != _BATCH:
        yield name
        return
    for side in (a, b):
        if effective_batch(side) is None:
            if not isinstance(side.facts.value("train.micro_batch"), int):
                yield "train.micro_batch"
            if replicas_of(side.facts) is None:
                yield "launch.world_size_seen"
