"""What a script does with the graphs of its losses: one backward for a window, graphs retained, losses stored, no_sync."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from firstfault.ingest.script_backward import Backward, Graphs, Kept
from firstfault.ingest.script_said import Said
from firstfault.ingest.script_tree import Script, is_open, keyword, names_in

PRODUCES = ("script.backward_after_window", "script.loss_kept", "script.no_sync", "script.retain_graph")

_DEFERS = frozenset({"no_sync", "set_requires_gradient_sync"})
_DRIVERS = ("Trainer", "accumulate", "fit")


def read_gradient(script: Script) -> Iterator[Said]:
    """Facts of the training loop."""
    graphs = Graphs(script)
    for found in (_window(graphs), _retained(graphs), _stored(graphs), _no_sync(graphs)):
        if found is not None:
            yield found


def _window(graphs: Graphs) -> Said | None:
    name = "script.backward_after_window"
    for backward in graphs.backwards:
        for kept in graphs.kept:
            if _is_window(graphs, backward, kept):
                return Said(name, True, "backward of a sum that a loop over micro-batches made", backward.call, kept.statement)
    if graphs.script.whole and graphs.backwards and all(_each_time(graphs, backward) for backward in graphs.backwards):
        return Said(name, False, "every micro-batch has its own backward", graphs.backwards[0].call)
    return None


def _is_window(graphs: Graphs, backward: Backward, kept: Kept) -> bool:
    """True if `backward` takes what `kept` added up, once for several passes of the model."""
    script = graphs.script
    if script.scope(backward.call) is not script.scope(kept.statement) or kept.target not in _dotted_in(script, backward):
        return False
    loops = script.loops(backward.call)
    if kept.loop not in loops:
        behind = backward.call.lineno > (kept.loop.end_lineno or kept.loop.lineno)
        alone = not any(kept.loop in script.loops(other.call) for other in graphs.backwards)
        return behind and alone and graphs.fresh_forward(kept)
    guard = next((found for found in script.guards(backward.call, kept.loop) if _counts(found.test)), None)
    return (
        loops[0] is kept.loop
        and guard is not None
        and guard not in script.above(kept.statement)
        and not any(kept.loop in script.loops(other.call) and other is not backward for other in graphs.backwards)
        and graphs.fresh_forward(kept)
    )


def _counts(test: ast.expr) -> bool:
    return any(isinstance(node, ast.Mod) for node in ast.walk(test))


def _dotted_in(script: Script, backward: Backward) -> set[str]:
    chosen = (node for node in ast.walk(backward.operand) if isinstance(node, (ast.Name, ast.Attribute)))
    return {script.dotted(node) for node in chosen}


def _each_time(graphs: Graphs, backward: Backward) -> bool:
    """True if the value is made anew in the very loop in which backward is called."""
    script = graphs.script
    loops = script.loops(backward.call)
    names = names_in(backward.operand)
    if not loops or any(kept.target in names for kept in graphs.kept):
        return False
    made = {
        node.id
        for node in ast.walk(loops[0])
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and script.loops(node)[:1] == loops[:1]
    }
    return bool(names & made)


def _retained(graphs: Graphs) -> Said | None:
    script, name = graphs.script, "script.retain_graph"
    undecided = False
    for backward in graphs.backwards:
        value = keyword(backward.call, "retain_graph")
        if script.constant(value) is not True:
            undecided = undecided or is_open(backward.call) or (value is not None and script.constant(value) is not False)
            continue
        if not _needs_it(graphs, backward):
            return Said(name, True, "backward(retain_graph=True) with no other backward behind it", backward.call)
        undecided = True
    if script.whole and graphs.backwards and not undecided:
        return Said(name, False, "no backward retains its graph", graphs.backwards[0].call)
    return None


def _needs_it(graphs: Graphs, backward: Backward) -> bool:
    """True if another backward of the same iteration may walk the graph again: a loop over losses, or a call further down."""
    script = graphs.script
    loops = script.loops(backward.call)
    if loops and isinstance(loops[0], (ast.For, ast.AsyncFor)):
        over = {node.id for node in ast.walk(loops[0].target) if isinstance(node, ast.Name)}
        if over & names_in(backward.operand):
            return True
    return any(
        other is not backward
        and script.scope(other.call) is script.scope(backward.call)
        and (not loops or loops[0] in script.loops(other.call))
        for other in graphs.backwards
    )


def _stored(graphs: Graphs) -> Said | None:
    """A loss (or what it was made of) that is stored in a loop with a step of the optimizer, and lives on behind it."""
    script = graphs.script
    for kept in graphs.kept:
        if not _steps_in(kept) or not _outlives(script, kept):
            continue
        losses = {
            name
            for backward in graphs.backwards
            if kept.loop in script.loops(backward.call)
            for name in names_in(backward.operand)
        }
        stored = _plain_name(kept.value)
        if kept.target in losses or stored is None:
            continue
        if stored in losses or _made_from(kept, losses, stored):
            return Said("script.loss_kept", True, f"{kept.target} keeps {stored} with its graph", kept.statement)
    return None


def _steps_in(kept: Kept) -> bool:
    """True if each round of the loop is a step: an optimizer, or what stands for it, is stepped in it."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "step"
        and any(word in ast.unparse(node.func.value).lower() for word in ("optim", "opt", "engine", "scaler"))
        for statement in kept.loop.body
        for node in ast.walk(statement)
    )


def _outlives(script: Script, kept: Kept) -> bool:
    """True if the sum or list begins empty outside of the loop and is nowhere emptied, replaced or shortened inside."""
    begun = False
    own = script.scope(kept.statement)
    for node in script.nodes:
        if node is kept.statement:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        if any(script.dotted(target) == kept.target for target in targets):
            if "." not in kept.target and script.scope(node) is not own:
                continue
            if any(outer is kept.loop for outer in script.above(node)):
                return False
            begun = begun or _is_empty(getattr(node, "value", None))
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("clear", "pop", "popleft")
        ):
            if script.dotted(node.func.value) == kept.target:
                return False
        elif isinstance(node, ast.Delete) and kept.target.rpartition(".")[2] in ast.unparse(node):
            return False
    return begun


def _is_empty(value: ast.expr | None) -> bool:
    if isinstance(value, ast.List):
        return not value.elts
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "list" and not value.args
    return isinstance(value, ast.Constant) and value.value in (0, 0.0)


def _plain_name(value: ast.expr) -> str | None:
    """`loss` of `loss`, `loss / 4`, `outputs.loss` and `outputs.logits`."""
    while True:
        if isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Div, ast.Mult)):
            value = value.left
        elif isinstance(value, ast.Attribute) and value.attr in ("loss", "logits", "last_hidden_state"):
            value = value.value
        else:
            return value.id if isinstance(value, ast.Name) else None


def _made_from(kept: Kept, losses: set[str], stored: str) -> bool:
    """True if a loss is computed directly from `stored`, which a call made in the loop: so `stored` has the same graph."""
    made = feeds = False
    for statement in kept.loop.body:
        for node in ast.walk(statement):
            if not isinstance(node, ast.Assign):
                continue
            targets = {part.id for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name)}
            made = made or (stored in targets and isinstance(node.value, ast.Call))
            feeds = feeds or bool(targets & losses and _is_output(node.value, stored))
    return made and feeds


def _is_output(value: ast.expr, name: str) -> bool:
    """True for `name.loss`, and for a call whose first argument is `name` or its logits."""
    if isinstance(value, ast.Call) and value.args:
        return _plain_name(value.args[0]) == name
    return isinstance(value, ast.Attribute) and _plain_name(value) == name


def _no_sync(graphs: Graphs) -> Said | None:
    script, name = graphs.script, "script.no_sync"
    for node in script.nodes:
        if isinstance(node, ast.Attribute) and node.attr in _DEFERS:
            return Said(name, True, node.attr, node)
    mentions = {node.attr for node in script.nodes if isinstance(node, ast.Attribute)} | set(script.imports)
    driven = any(word.endswith(_DRIVERS) for word in mentions)
    if script.whole and not driven and any(script.loops(found.call) for found in graphs.backwards):
        return Said(name, False, "no no_sync around backward", graphs.backwards[0].call)
    return None
