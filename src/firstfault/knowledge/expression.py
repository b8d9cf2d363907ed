"""Conditions of entries: a closed grammar over facts and events, evaluated in three-valued logic.

    condition  := conjunction ("or" conjunction)*
    conjunction := negation ("and" negation)*
    negation   := "not" negation | comparison
    comparison := sum (("==" | "!=" | "<" | "<=" | ">" | ">=" | "in") sum)?
    sum        := product ("+" product)*
    product    := atom ("*" atom)*
    atom       := number | string | "true" | "false" | name | "[" literals "]" | "(" condition ")"

A comparison with an unknown side is unknown. A number printed with two decimals stands for +-0.5 %: a comparison closer than
that is unknown. A list-valued fact equals a scalar if it contains it. A bare name is a bool fact or an event.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple, Protocol

from firstfault.knowledge.truth import Truth, and_, not_, or_
from firstfault.model.fact import FactValue
from firstfault.units import RELATIVE_ROUNDING

Operator = Literal["==", "!=", "<", "<=", ">", ">=", "in"]
Scalar = bool | int | float | str
MAX_MAGNITUDE = 1e30


class Lookup(Protocol):
    """Where conditions find their facts and events."""

    def value(self, name: str) -> FactValue | None:
        """The value of a fact, the truth of an event, or None while it is unknown."""

    def rounded(self, name: str) -> bool:
        """True if the number was printed with two decimals and stands for +-0.5 %."""


class Quantity(NamedTuple):
    """A value under comparison, and by how much a number may be off."""

    value: FactValue | tuple[Scalar, ...]
    error: float = 0.0


class Node:
    """A part of a condition."""

    __slots__ = ("column",)

    def __init__(self, column: int) -> None:
        self.column = column

    def children(self) -> tuple[Node, ...]:
        """The parts this part is made of."""
        return ()

    def truth(self, lookup: Lookup) -> Truth:
        """The three-valued truth of this part."""
        quantity = self.quantity(lookup)
        return quantity.value if quantity is not None and isinstance(quantity.value, bool) else None

    def quantity(self, lookup: Lookup) -> Quantity | None:
        """The value of this part, or None while it is unknown."""
        truth = self.truth(lookup)
        return None if truth is None else Quantity(truth)

    def unknowns(self, lookup: Lookup) -> Iterator[str]:
        """Names that are unknown and could still change this part."""
        for child in self.children():
            yield from child.unknowns(lookup)

    def walk(self) -> Iterator[Node]:
        """This part and all parts below it."""
        yield self
        for child in self.children():
            yield from child.walk()


class Constant(Node):
    """A number, a string, true or false, or a list of these."""

    __slots__ = ("value",)

    def __init__(self, column: int, value: Scalar | tuple[Scalar, ...]) -> None:
        super().__init__(column)
        self.value = value

    def quantity(self, lookup: Lookup) -> Quantity | None:
        """The constant itself."""
        return Quantity(self.value)


class Name(Node):
    """A fact or an event."""

    __slots__ = ("name",)

    def __init__(self, column: int, name: str) -> None:
        super().__init__(column)
        self.name = name

    def quantity(self, lookup: Lookup) -> Quantity | None:
        """The value that the lookup knows."""
        value = lookup.value(self.name)
        if value is None or isinstance(value, bool | str | tuple):
            return None if value is None else Quantity(value)
        # nan, infinities and absurd integers from configuration files decide nothing.
        if not abs(value) <= MAX_MAGNITUDE:
            return None
        return Quantity(value, abs(value) * RELATIVE_ROUNDING if lookup.rounded(self.name) else 0.0)

    def unknowns(self, lookup: Lookup) -> Iterator[str]:
        """The name itself, if nothing supplied it."""
        if lookup.value(self.name) is None:
            yield self.name


class Arithmetic(Node):
    """A sum or a product of numbers."""

    __slots__ = ("operands", "operator")

    def __init__(self, column: int, operator: Literal["+", "*"], operands: tuple[Node, ...]) -> None:
        super().__init__(column)
        self.operator = operator
        self.operands = operands

    def children(self) -> tuple[Node, ...]:
        """The summands or factors."""
        return self.operands

    def quantity(self, lookup: Lookup) -> Quantity | None:
        """The number with its error carried along; unknown if any operand is unknown or no number."""
        total, error = (0.0, 0.0) if self.operator == "+" else (1.0, 0.0)
        for operand in self.operands:
            found = operand.quantity(lookup)
            if found is None or isinstance(found.value, bool) or not isinstance(found.value, int | float):
                return None
            if self.operator == "+":
                total, error = total + found.value, error + found.error
            else:
                total, error = total * found.value, abs(total) * found.error + abs(found.value) * error
        return Quantity(total, error) if abs(total) <= MAX_MAGNITUDE else None


class Comparison(Node):
    """Two values held against each other."""

    __slots__ = ("left", "operator", "right")

    def __init__(self, column: int, left: Node, operator: Operator, right: Node) -> None:
        super().__init__(column)
        self.left = left
        self.operator = operator
        self.right = right

    def children(self) -> tuple[Node, ...]:
        """Both sides."""
        return (self.left, self.right)

    def truth(self, lookup: Lookup) -> Truth:
        """Unknown if a side is unknown, if the sides cannot be compared, or if they are closer than their rounding."""
        left, right = self.left.quantity(lookup), self.right.quantity(lookup)
        if left is None or right is None:
            return None
        if self.operator == "==":
            return _equal(left, right)
        if self.operator == "!=":
            return not_(_equal(left, right))
        if self.operator == "in":
            items = right.value if isinstance(right.value, tuple) else (right.value,)
            return or_(_equal(left, Quantity(item, right.error)) for item in items)
        return _ordered(left, self.operator, right)


class Junction(Node):
    """Conditions joined by `and` or by `or`."""

    __slots__ = ("operands", "operator")

    def __init__(self, column: int, operator: Literal["and", "or"], operands: tuple[Node, ...]) -> None:
        super().__init__(column)
        self.operator = operator
        self.operands = operands

    def children(self) -> tuple[Node, ...]:
        """The joined conditions."""
        return self.operands

    def truth(self, lookup: Lookup) -> Truth:
        """`false and unknown` is false, `true or unknown` is true."""
        truths = (operand.truth(lookup) for operand in self.operands)
        return and_(truths) if self.operator == "and" else or_(truths)

    def unknowns(self, lookup: Lookup) -> Iterator[str]:
        """Unknown names of the operands that are still open, if they can still decide."""
        if self.truth(lookup) is None:
            for operand in self.operands:
                if operand.truth(lookup) is None:
                    yield from operand.unknowns(lookup)


class Negation(Node):
    """The opposite of a condition."""

    __slots__ = ("operand",)

    def __init__(self, column: int, operand: Node) -> None:
        super().__init__(column)
        self.operand = operand

    def children(self) -> tuple[Node, ...]:
        """The negated condition."""
        return (self.operand,)

    def truth(self, lookup: Lookup) -> Truth:
        """`not unknown` is unknown."""
        return not_(self.operand.truth(lookup))


class Expression:
    """A parsed condition."""

    def __init__(self, text: str, root: Node) -> None:
        self.text = text
        self.root = root

    @cached_property
    def names(self) -> frozenset[str]:
        """All facts and events that the condition asks for."""
        return frozenset(node.name for node in self.root.walk() if isinstance(node, Name))

    def evaluate(self, lookup: Lookup) -> Truth:
        """True, false or unknown, with what `lookup` knows."""
        return self.root.truth(lookup)

    def unknowns(self, lookup: Lookup) -> frozenset[str]:
        """Names whose value is unknown and matters for the result; empty once the result is decided."""
        return frozenset(self.root.unknowns(lookup)) if self.evaluate(lookup) is None else frozenset()


@lru_cache(maxsize=16384)
def parse(text: str) -> Expression:
    """The condition that `text` states; ExpressionError with the column otherwise."""
    from firstfault.knowledge.grammar import read_condition

    return Expression(text, read_condition(text))


def _equal(left: Quantity, right: Quantity) -> Truth:
    a, b = left.value, right.value
    if isinstance(a, tuple) and isinstance(b, tuple):
        return frozenset(a) == frozenset(b)
    if isinstance(a, tuple):
        return or_(_equal(Quantity(item), right) for item in a)
    if isinstance(b, tuple):
        return or_(_equal(left, Quantity(item)) for item in b)
    if _is_number(a) and _is_number(b):
        return None if _too_close(left, right) else a == b
    if _is_number(a) or _is_number(b):
        return None
    # An enum may mix words with true and false: those are different values, not incomparable ones.
    return type(a) is type(b) and a == b


def _ordered(left: Quantity, operator: Operator, right: Quantity) -> Truth:
    a, b = left.value, right.value
    if isinstance(a, bool | str | tuple) or isinstance(b, bool | str | tuple) or _too_close(left, right):
        return None
    if operator == "<":
        return a < b
    if operator == "<=":
        return a <= b
    return a > b if operator == ">" else a >= b


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _too_close(left: Quantity, right: Quantity) -> bool:
    if isinstance(left.value, str | tuple) or isinstance(right.value, str | tuple):
        return False
    return abs(left.value - right.value) < left.error + right.error
