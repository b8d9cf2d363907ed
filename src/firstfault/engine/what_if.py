"""Would an answer decide? A condition held against what is known plus one value that is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.knowledge.expression import parse

if TYPE_CHECKING:
    from firstfault.engine.lookup import Known
    from firstfault.knowledge.schema import FactSpec
    from firstfault.model.fact import FactValue

# Below, at and above what any condition compares with.
_NUMBERS: tuple[FactValue, ...] = (0, 1, 2, 10**15)
_NUMERIC_TYPES = frozenset({"int", "float", "bytes", "rank"})
_NO_SUCH_TEXT = "\0"


class Supposed:
    """What is known, and one fact supposed to have a value."""

    def __init__(self, known: Known, name: str, value: FactValue) -> None:
        self._known = known
        self._name = name
        self._value = value

    def value(self, name: str) -> FactValue | None:
        """The supposed value, or what is known."""
        return self._value if name == self._name else self._known.value(name)

    def rounded(self, name: str) -> bool:
        """A supposed number is exact."""
        return name != self._name and self._known.rounded(name)


def decides_alone(condition: str, spec: FactSpec, known: Known) -> bool:
    """True if some value of the fact settles `condition` while everything else unknown stays so."""
    expression = parse(condition)
    return any(expression.evaluate(Supposed(known, spec.name, value)) is not None for value in _values(spec))


def _values(spec: FactSpec) -> tuple[FactValue, ...]:
    if spec.type in _NUMERIC_TYPES:
        return _NUMBERS
    if spec.values:
        return (*spec.values, _NO_SUCH_TEXT)
    return (True, False) if spec.type == "bool" else (_NO_SUCH_TEXT,)
