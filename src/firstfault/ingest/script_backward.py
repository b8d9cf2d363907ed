"""Where a script calls backward, what it adds up or stores from iteration to iteration, and where the model runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from firstfault.ingest.script_tree import Function, Loop, Script, keyword, names_in
from firstfault.lazy_pattern import lazy_pattern

MAX_KEPT = 50
MAX_BACKWARDS = 50
MAX_CHAIN = 20

_TAKES_LOSS = lazy_pattern(r"(?:^|[._])(?:accelerator|fabric|engine|model|strategy)$|^torch\.autograd$")
_MODEL = lazy_pattern(
    r"(?:\w+_)?(?:model|net|network|llm|lm|transformer|module|engine|policy|unet|actor|student|ddp|fsdp)(?:_\w+)?$"
    r"|(?:compute_loss|training_step|forward_step|forward)$"
)
_NO_GRAPH_METHODS = frozenset({"item", "detach", "cpu", "tolist", "numpy", "argmax"})
_NO_GRAPH_CALLS = frozenset({"float", "int", "len", "str", "bool", "round"})
_NO_GRAD = ("no_grad", "inference_mode")


class Backward(NamedTuple):
    """A call of backward and the value whose graph it walks."""

    call: ast.Call
    operand: ast.expr


class Kept(NamedTuple):
    """A statement in a loop that adds `value` to `target`: a sum, or an `append` to a list."""

    target: str
    statement: ast.stmt
    value: ast.expr
    loop: Loop


class Graphs:
    """Backward calls and sums of a script."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self._run_model: dict[Function, bool] = {}
        self._fresh: dict[ast.stmt, bool] = {}

    @cached_property
    def backwards(self) -> tuple[Backward, ...]:
        """The calls of backward, in the order of their lines."""
        return tuple(found for call in self.script.calls if (found := self._backward(call)) is not None)[:MAX_BACKWARDS]

    def _backward(self, call: ast.Call) -> Backward | None:
        function = call.func
        if not isinstance(function, ast.Attribute) or function.attr not in ("backward", "manual_backward"):
            return None
        receiver = function.value
        if function.attr == "manual_backward" or _TAKES_LOSS.search(self.script.dotted(receiver)):
            operand = call.args[0] if call.args else keyword(call, "loss") or keyword(call, "tensors")
            return Backward(call, operand) if operand is not None else None
        if isinstance(receiver, ast.Call) and isinstance(receiver.func, ast.Attribute) and receiver.func.attr == "scale":
            return Backward(call, receiver.args[0]) if receiver.args else None
        return Backward(call, receiver)

    @cached_property
    def kept(self) -> tuple[Kept, ...]:
        """What loops add up or store with its graph."""
        found = []
        for node in self.script.nodes:
            pair = self._added(node)
            loops = self.script.loops(node) if pair else ()
            if pair and loops and isinstance(node, ast.stmt) and not has_no_graph(pair[1]) and not self.under_no_grad(node):
                found.append(Kept(pair[0], node, pair[1], loops[0]))
            if len(found) >= MAX_KEPT:
                break
        return tuple(found)

    def _added(self, node: ast.AST) -> tuple[str, ast.expr] | None:
        """The target of a sum or of a list, and what is added."""
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            target = self.script.dotted(node.target)
            return (target, node.value) if target else None
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.BinOp):
            target = self.script.dotted(node.targets[0])
            terms = list(_terms(node.value))
            others = [term for term in terms if self.script.dotted(term) != target]
            return (target, others[0]) if target and len(others) == 1 and len(terms) == 2 else None
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = node.value
            if isinstance(call.func, ast.Attribute) and call.func.attr == "append" and len(call.args) == 1:
                target = self.script.dotted(call.func.value)
                return (target, call.args[0]) if target else None
        return None

    def under_no_grad(self, node: ast.AST) -> bool:
        """True where no graph is recorded."""
        for outer in self.script.above(node):
            if isinstance(outer, (ast.With, ast.AsyncWith)):
                entered = [item.context_expr for item in outer.items]
            elif isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef)):
                entered = list(outer.decorator_list)
            else:
                continue
            called = [expr.func if isinstance(expr, ast.Call) else expr for expr in entered]
            if any(self.script.dotted(expr).endswith(_NO_GRAD) for expr in called):
                return True
        return False

    def runs_model(self, node: ast.AST) -> bool:
        """True if `node` holds a call of something named like a model, or of a function of the script that does."""
        for call in ast.walk(node):
            if not isinstance(call, ast.Call):
                continue
            name = call.func.attr if isinstance(call.func, ast.Attribute) else self.script.dotted(call.func)
            if _MODEL.match(name.rpartition(".")[2]) or (len(call.args) > 1 and self._is_model(call.args[0])):
                return True
            own = self.script.functions.get(name) if isinstance(call.func, ast.Name) else None
            if own is not None and self._function_runs_model(own):
                return True
        return False

    def _is_model(self, node: ast.expr) -> bool:
        return bool(_MODEL.match(self.script.dotted(node).rpartition(".")[2]))

    def _function_runs_model(self, function: Function) -> bool:
        if function not in self._run_model:
            # A function that calls itself is asked once.
            self._run_model[function] = False
            self._run_model[function] = any(self.runs_model(statement) for statement in function.body)
        return self._run_model[function]

    def fresh_forward(self, kept: Kept) -> bool:
        """True if what is added comes from passes of the model, each over other data and none over the result of another."""
        if kept.statement not in self._fresh:
            self._fresh[kept.statement] = self._is_fresh(kept)
        return self._fresh[kept.statement]

    def _is_fresh(self, kept: Kept) -> bool:
        assigned = list(_assignments(kept.loop))
        results = {name for names, value in assigned if self.runs_model(value) for name in names}
        for _ in range(MAX_CHAIN):
            further = {name for names, value in assigned if names_in(value) & results for name in names}
            if further <= results:
                break
            results |= further
        changing = {name for names, _ in assigned for name in names}
        if isinstance(kept.loop, (ast.For, ast.AsyncFor)):
            changing |= _stored(kept.loop.target)
        passes = [value for _, value in assigned if self.runs_model(value)]
        if self.runs_model(kept.value):
            passes.append(kept.value)
        recurrent = any(names_in(value) & (results - {kept.target}) for value in passes)
        from_model = self.runs_model(kept.value) or bool(names_in(kept.value) & results)
        return from_model and not recurrent and any(names_in(value) & changing for value in passes)


def has_no_graph(value: ast.expr) -> bool:
    """True if a value is a plain number, or passes through something that cuts it from its graph."""
    for node in ast.walk(value):
        if isinstance(node, ast.Attribute) and (node.attr == "data" or node.attr in _NO_GRAPH_METHODS):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _NO_GRAPH_CALLS:
            return True
    return not names_in(value)


def _terms(value: ast.expr) -> Iterator[ast.expr]:
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        yield from _terms(value.left)
        yield from _terms(value.right)
    else:
        yield value


def _assignments(loop: Loop) -> Iterator[tuple[set[str], ast.expr]]:
    for node in _walk(loop.body):
        if isinstance(node, ast.Assign):
            yield set().union(*(_stored(target) for target in node.targets)), node.value
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)) and node.value is not None:
            yield _stored(node.target), node.value
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            yield _stored(node.target), node.iter


def _stored(target: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


def _walk(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    for statement in body:
        yield from ast.walk(statement)
