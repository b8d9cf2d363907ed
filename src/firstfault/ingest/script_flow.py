"""In which order the statements of a script run, as far as the syntax tree alone says."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from firstfault.ingest.script_tree import Function, Script

MAX_STEPS = 20_000
MAX_CALLS_DEEP = 12


class Step(NamedTuple):
    """A call or a simple statement at its turn; `sure` unless a condition, a loop or an error may leave it out."""

    node: ast.stmt | ast.Call
    sure: bool


def flows(script: Script) -> tuple[tuple[Step, ...], ...]:
    """The module from its first line on, through the functions it calls; then each function that nothing calls."""
    reader = _Reader(script)
    found = [tuple(reader.run(script.tree.body))]
    for function in script.functions.values():
        if function not in reader.entered:
            found.append(tuple(reader.run(function.body)))
    return tuple(flow for flow in found if flow)


class _Reader:
    def __init__(self, script: Script) -> None:
        self._script = script
        self._left = MAX_STEPS
        self._stack: list[Function] = []
        self.entered: set[Function] = set()

    def run(self, body: Sequence[ast.stmt], sure: bool = True) -> Iterator[Step]:
        for statement in body:
            if self._left <= 0:
                return
            yield from self._statement(statement, sure)
            if isinstance(statement, (ast.Return, ast.Raise, ast.Break, ast.Continue)):
                return

    def _statement(self, statement: ast.stmt, sure: bool) -> Iterator[Step]:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return
        if isinstance(statement, ast.If):
            yield from self._calls(statement.test, sure)
            yield from self.run(statement.body, sure and _is_main_guard(statement.test))
            yield from self.run(statement.orelse, False)
        elif isinstance(statement, (ast.For, ast.AsyncFor, ast.While)):
            yield from self._calls(statement.test if isinstance(statement, ast.While) else statement.iter, sure)
            yield from self.run([*statement.body, *statement.orelse], False)
        elif isinstance(statement, (ast.With, ast.AsyncWith)):
            for item in statement.items:
                yield from self._calls(item.context_expr, sure)
            yield from self.run(statement.body, sure)
        elif isinstance(statement, (ast.Try, ast.TryStar)):
            yield from self.run(statement.body, sure)
            for handler in statement.handlers:
                yield from self.run(handler.body, False)
            yield from self.run(statement.orelse, sure)
            yield from self.run(statement.finalbody, sure)
        elif isinstance(statement, ast.Match):
            yield from self._calls(statement.subject, sure)
            for case in statement.cases:
                yield from self.run(case.body, False)
        else:
            yield from self._calls(statement, sure)
            self._left -= 1
            yield Step(statement, sure)

    def _calls(self, node: ast.AST, sure: bool) -> Iterator[Step]:
        """Calls below `node`, inner ones first; the body of a function of the script follows its call."""
        for call, certain in sorted(
            _calls_below(node), key=lambda pair: (pair[0].end_lineno or 0, pair[0].end_col_offset or 0)
        ):
            if self._left <= 0:
                return
            self._left -= 1
            yield Step(call, sure and certain)
            function = self._called(call)
            if function is not None and function not in self._stack and len(self._stack) < MAX_CALLS_DEEP:
                self.entered.add(function)
                self._stack.append(function)
                yield from self.run(function.body, sure and certain)
                self._stack.pop()

    def _called(self, call: ast.Call) -> Function | None:
        """The script's own function that is called: by its name, by its class, or as a method of `self`."""
        function = call.func
        if isinstance(function, ast.Name):
            if function.id in self._classes:
                return self._classes[function.id]
            return self._script.functions.get(function.id)
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "self":
            return self._script.functions.get(function.attr)
        return None

    @cached_property
    def _classes(self) -> dict[str, Function]:
        """The `__init__` of each class."""
        return {
            node.name: inner
            for node in self._script.nodes
            if isinstance(node, ast.ClassDef)
            for inner in node.body
            if isinstance(inner, ast.FunctionDef) and inner.name == "__init__"
        }


def _is_main_guard(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def _calls_below(top: ast.AST) -> Iterator[tuple[ast.Call, bool]]:
    """Calls that run with `top`; those behind `and`, `or` or a conditional are not certain, those of a lambda run later."""
    waiting: list[tuple[ast.AST, bool]] = [(top, True)]
    while waiting:
        node, sure = waiting.pop()
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.Call):
            yield node, sure
        if isinstance(node, ast.BoolOp):
            waiting.append((node.values[0], sure))
            waiting.extend((value, False) for value in node.values[1:])
        elif isinstance(node, ast.IfExp):
            waiting += [(node.test, sure), (node.body, False), (node.orelse, False)]
        else:
            certain = sure and not isinstance(node, (ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp))
            waiting.extend((child, certain) for child in ast.iter_child_nodes(node))
