"""What a script lets only some ranks do, and whether generate() keeps the ranks together."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from firstfault.ingest.script_said import Said
from firstfault.ingest.script_tree import Script, is_open, keyword
from firstfault.lazy_pattern import lazy_pattern

PRODUCES = ("script.rank_guard_collective", "script.synced_gpus")

MAX_GUARDS = 100

_ONE_RANK = lazy_pattern(
    r"^(?:self\.)?(?:[\w.]*\.)?(?:is_main_process|is_local_main_process|is_global_zero|is_world_process_zero\(\)"
    r"|is_rank_zero|is_master|(?:(?:global_|local_|world_)?rank|get_(?:global_|local_)?rank\(\)|process_index) == 0)$"
)
_NOT_ONE_RANK = lazy_pattern(
    r"rank\w*(?:\(\))? (?:!=|>|not in)|\bnot [\w.]*(?:is_main|is_local_main|is_global_zero|is_world_pro|is_master)"
)
_COLLECTIVE = lazy_pattern(
    r"^torch\.distributed\.(?:barrier|monitored_barrier|all_\w+|broadcast\w*|reduce\w*|gather\w*|scatter\w*)$"
    r"|^(?:dist|torch\.distributed)\.barrier$|(?:^|\.)accelerator\.(?:wait_for_everyone|gather\w*|reduce|pad_across_processes)$"
)
_SHARDED_SAVE = lazy_pattern(
    r"(?:^|\.)accelerator\.(?:save_state|get_state_dict)$|(?:^|\.)(?:model_engine|engine|ds_engine)\.save_checkpoint$"
)
_SHARDS = lazy_pattern(
    r"(?:^|\.)(?:FullyShardedDataParallel|FSDP|fully_shard|FullyShardedDataParallelPlugin|DeepSpeedPlugin)$"
    r"|^deepspeed\.initialize$"
)
_GENERATES = lazy_pattern(r"model|unwrap|\.module$")


def read_ranks(script: Script) -> Iterator[Said]:
    """Facts of what the ranks do together."""
    for found in (_guarded(script), _synced(script)):
        if found is not None:
            yield found


def guarded_save(script: Script) -> ast.Call | None:
    """A save that every rank must take part in once the model is sharded, under a guard that lets one rank through."""
    return next((call for call in _under_guard(script) if _SHARDED_SAVE.search(script.callee(call))), None)


def _guarded(script: Script) -> Said | None:
    name = "script.rank_guard_collective"
    shards = any(_SHARDS.search(script.callee(call)) for call in script.calls)
    for call in _under_guard(script):
        callee = script.callee(call)
        if _COLLECTIVE.search(callee) or (shards and _SHARDED_SAVE.search(callee)):
            return Said(name, True, f"{callee} under a guard that lets one rank through", call)
    together = next((call for call in script.calls if _COLLECTIVE.search(script.callee(call))), None)
    guards = any(isinstance(node, ast.If) and _is_guard(node) for node in script.nodes)
    if script.whole and together is not None and not guards:
        return Said(name, False, "no guard lets one rank through alone", together)
    return None


def _under_guard(script: Script) -> Iterator[ast.Call]:
    """Calls that one rank makes alone, directly or in a function of the script; none with a twin for the others."""
    guards = [node for node in script.nodes if isinstance(node, ast.If) and _is_guard(node)][:MAX_GUARDS]
    opposite = [
        node
        for node in script.nodes
        if guards and isinstance(node, ast.If) and _NOT_ONE_RANK.search(ast.unparse(node.test)) and _together(script, node.body)
    ]
    for guard in guards:
        answered = any(other is not guard and script.scope(other) is script.scope(guard) for other in opposite)
        if answered or _together(script, guard.orelse):
            # The other ranks make a collective call of their own.
            continue
        for call in _calls(guard.body):
            yield call
            own = script.functions.get(call.func.id) if isinstance(call.func, ast.Name) else None
            if own is not None:
                yield from _calls(own.body)


def _is_guard(guard: ast.If) -> bool:
    """True for a test that only one rank passes; further conditions may stand beside it."""
    tests = guard.test.values if isinstance(guard.test, ast.BoolOp) and isinstance(guard.test.op, ast.And) else [guard.test]
    return any(_ONE_RANK.match(ast.unparse(test)) for test in tests)


def _together(script: Script, body: list[ast.stmt]) -> bool:
    return any(_COLLECTIVE.search(script.callee(call)) for call in _calls(body))


def _calls(body: list[ast.stmt]) -> Iterator[ast.Call]:
    """Calls that run with these statements: not those of functions that are only defined there."""
    waiting: list[ast.AST] = list(reversed(body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            continue
        if isinstance(node, ast.Call):
            yield node
        waiting.extend(reversed(list(ast.iter_child_nodes(node))))


def _synced(script: Script) -> Said | None:
    """`synced_gpus` of the generate() calls of models, where all of them agree."""
    found: dict[bool, ast.Call] = {}
    for call in script.calls:
        function = call.func
        if not isinstance(function, ast.Attribute) or function.attr != "generate":
            continue
        if not _GENERATES.search(ast.unparse(function.value)):
            continue
        value = keyword(call, "synced_gpus")
        stated = script.constant(value)
        if is_open(call) or (value is not None and not isinstance(stated, bool)):
            return None
        found.setdefault(bool(stated), call)
    if len(found) != 1:
        return None
    value_found, call = next(iter(found.items()))
    origin = "synced_gpus=True" if value_found else "generate() without synced_gpus=True"
    return Said("script.synced_gpus", value_found, origin, call)
