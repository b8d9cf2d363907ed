"""Reads a condition's text into its parts: a recursive-descent parser with bounded length and depth, and errors by column."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, get_args

from firstfault.errors import ExpressionError
from firstfault.knowledge.expression import Arithmetic, Comparison, Constant, Junction, Name, Negation, Node, Operator, Scalar
from firstfault.lazy_pattern import lazy_pattern

MAX_LENGTH = 2000
MAX_DEPTH = 20

_TOKEN = lazy_pattern(
    r"""\s*(?:
    (?P<number>-?[0-9]{1,18}(?:\.[0-9]{1,18})?(?:[eE][-+]?[0-9]{1,2})?(?![\w.]))
  | (?P<string>"[^"]*"|'[^']*')
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)
  | (?P<mark>==|!=|<=|>=|[<>()\[\],+*])
  )""",
    re.VERBOSE | re.ASCII,
)
_WORDS = frozenset({"and", "or", "not", "in", "true", "false"})
_COMPARATORS = frozenset(get_args(Operator))


class _Token(NamedTuple):
    kind: Literal["number", "string", "name", "mark", "word", "end"]
    text: str
    column: int


def read_condition(text: str) -> Node:
    """The parts of the condition; ExpressionError names the column where it leaves the grammar."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"a condition has at most {MAX_LENGTH} characters", column=MAX_LENGTH + 1)
    parser = _Parser(_tokens(text))
    node = parser.condition()
    parser.expect_end()
    if _kind(node) != "truth":
        raise ExpressionError("this is a value, not a condition: compare it with something", column=node.column)
    return node


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        found = _TOKEN.match(text, position)
        if not found or found.lastgroup is None:
            column = position + len(text[position:]) - len(text[position:].lstrip()) + 1
            raise ExpressionError(f"unexpected {text[column - 1]!r}", column=column)
        word = found[found.lastgroup]
        kind = "word" if found.lastgroup == "name" and word in _WORDS else found.lastgroup
        tokens.append(_Token(kind, word, found.start(found.lastgroup) + 1))  # type: ignore[arg-type]
        position = found.end()
    tokens.append(_Token("end", "", len(text) + 1))
    return tokens


def _kind(node: Node) -> Literal["truth", "number", "other", "name"]:
    """What a part stands for. A name may be anything; used alone it counts as a truth."""
    if isinstance(node, Junction | Negation | Comparison | Name):
        return "truth"
    if isinstance(node, Arithmetic):
        return "number"
    if isinstance(node, Constant):
        if isinstance(node.value, bool):
            return "truth"
        return "other" if isinstance(node.value, str | tuple) else "number"
    return "other"


class _Parser:
    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._next
        self._at += 1
        return token

    def _accept(self, *texts: str) -> _Token | None:
        token = self._next
        return self._take() if token.kind in ("mark", "word") and token.text in texts else None

    def _refuse(self, expected: str) -> ExpressionError:
        token = self._next
        found = f"{token.text!r}" if token.text else "the end"
        return ExpressionError(f"expected {expected}, found {found}", column=token.column)

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ExpressionError(f"nested deeper than {MAX_DEPTH}", column=self._next.column)

    def expect_end(self) -> None:
        if self._next.kind != "end":
            raise self._refuse("and, or, or the end")

    def condition(self) -> Node:
        return self._junction("or")

    def _junction(self, word: Literal["or", "and"]) -> Node:
        operands = [self._junction("and") if word == "or" else self._negation()]
        while self._accept(word):
            operands.append(self._junction("and") if word == "or" else self._negation())
        if len(operands) == 1:
            return operands[0]
        for operand in operands:
            self._need_truth(operand, word)
        return Junction(operands[0].column, word, tuple(operands))

    def _need_truth(self, node: Node, word: str) -> None:
        if _kind(node) != "truth":
            raise ExpressionError(f"`{word}` joins conditions, this is a value: compare it with something", column=node.column)

    def _negation(self) -> Node:
        token = self._accept("not")
        if not token:
            return self._comparison()
        self._deeper()
        operand = self._negation()
        self._depth -= 1
        self._need_truth(operand, "not")
        return Negation(token.column, operand)

    def _comparison(self) -> Node:
        left = self._sum()
        token = self._accept(*_COMPARATORS)
        if not token:
            return left
        right = self._sum()
        chained = self._accept(*_COMPARATORS)
        if chained:
            raise ExpressionError("comparisons do not chain: join two with `and`", column=chained.column)
        operator: Operator = token.text  # type: ignore[assignment]
        self._check_sides(left, operator, right, token.column)
        return Comparison(left.column, left, operator, right)

    def _check_sides(self, left: Node, operator: Operator, right: Node, column: int) -> None:
        is_list = isinstance(right, Constant) and isinstance(right.value, tuple)
        if operator == "in" and not is_list and not isinstance(right, Name):
            raise ExpressionError("`in` needs a list or a list-valued fact on its right", column=right.column)
        for side in (left,) if operator == "in" else (left, right):
            if isinstance(side, Constant) and isinstance(side.value, tuple):
                raise ExpressionError("a list may only stand to the right of `in`", column=side.column)
        if operator in ("<", "<=", ">", ">="):
            for side in (left, right):
                if not isinstance(side, Name | Arithmetic) and _kind(side) != "number":
                    raise ExpressionError(f"`{operator}` compares numbers", column=side.column)
        if isinstance(left, Constant) and isinstance(right, Constant):
            raise ExpressionError("two constants are compared: one side must be a fact", column=column)

    def _sum(self) -> Node:
        return self._arithmetic("+")

    def _arithmetic(self, mark: Literal["+", "*"]) -> Node:
        operands = [self._arithmetic("*") if mark == "+" else self._atom()]
        while self._accept(mark):
            operands.append(self._arithmetic("*") if mark == "+" else self._atom())
        if len(operands) == 1:
            return operands[0]
        for operand in operands:
            if not isinstance(operand, Name | Arithmetic) and _kind(operand) != "number":
                raise ExpressionError(f"`{mark}` needs numbers", column=operand.column)
        return Arithmetic(operands[0].column, mark, tuple(operands))

    def _atom(self) -> Node:
        token = self._next
        if token.kind == "name":
            return Name(self._take().column, token.text)
        if token.kind == "mark" and token.text == "(":
            self._take()
            self._deeper()
            node = self.condition()
            self._depth -= 1
            if not self._accept(")"):
                raise self._refuse("`)`")
            return node
        if token.kind == "mark" and token.text == "[":
            return self._list()
        return Constant(token.column, self._literal("a name, a literal or `(`"))

    def _list(self) -> Node:
        column = self._take().column
        items: list[Scalar] = []
        while not self._accept("]"):
            if items and not self._accept(","):
                raise self._refuse("`,` or `]`")
            items.append(self._literal("a literal"))
        if not items:
            raise ExpressionError("an empty list contains nothing", column=column)
        return Constant(column, tuple(items))

    def _literal(self, expected: str) -> Scalar:
        token = self._next
        if token.kind == "number":
            self._take()
            return int(token.text) if re.fullmatch(r"-?[0-9]+", token.text) else float(token.text)
        if token.kind == "string":
            return self._take().text[1:-1]
        if token.kind == "word" and token.text in ("true", "false"):
            return self._take().text == "true"
        raise self._refuse(expected)
