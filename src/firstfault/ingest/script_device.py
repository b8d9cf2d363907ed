"""What a script says of devices: which it makes visible and when, which one a rank takes, where it loads a state to."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from firstfault.ingest.script_flow import Step
from firstfault.ingest.script_said import Said
from firstfault.ingest.script_tree import Script, is_open, keyword
from firstfault.lazy_pattern import lazy_pattern

PRODUCES = ("script.dataparallel", "script.map_location", "script.set_device", "script.visible_devices_line")

VISIBLE = "CUDA_VISIBLE_DEVICES"
# Functions of torch.cuda that make the driver read the variable; others wait for the first of these, or only ask NVML.
_INITIALISES = frozenset(
    {
        "init", "is_available", "current_device", "set_device", "get_device_name", "get_device_properties",
        "get_device_capability", "mem_get_info", "synchronize", "is_bf16_supported", "current_stream", "default_stream",
        "get_rng_state", "utilization", "can_device_access_peer", "get_arch_list", "ipc_collect",
    }
)  # fmt: skip
# Packages whose import is known to leave the driver alone.
_QUIET = frozenset({"torch", "numpy", "transformers", "datasets", "accelerate", "yaml", "tqdm", "wandb", "pandas", "scipy"})
_WRAPPERS = lazy_pattern(
    r"(?:^|\.)(?:DistributedDataParallel|FullyShardedDataParallel|FSDP|DDP|fully_shard)$|^deepspeed\.initialize$"
)
_DATAPARALLEL = lazy_pattern(r"^(?:torch\.)?nn\.(?:parallel\.)?(?:data_parallel\.)?DataParallel$")
_CUDA = lazy_pattern(r"cuda(?::\d+)?$")
_SEVERAL_DEVICES = lazy_pattern(r"^(?:torch\.cuda\.device_count\(\)|n_?gpus?|num_gpus|args\.n_?gpus?) > 1$")


def read_device(script: Script, flows: tuple[tuple[Step, ...], ...]) -> Iterator[Said]:
    """Facts of devices."""
    for found in (_dataparallel(script), _visible(script, flows), map_location(script), _set_device(script)):
        if found is not None:
            yield found


def assigned_devices(script: Script) -> tuple[str, ast.AST] | None:
    """The one constant that the script gives to CUDA_VISIBLE_DEVICES."""
    found = [(value, node) for node in script.nodes if (value := _assignment(node)) is not None]
    values = {script.constant(value) for value, _ in found}
    chosen = values.pop() if len(values) == 1 else None
    return (chosen, found[0][1]) if isinstance(chosen, str) else None


def _assignment(node: ast.AST) -> ast.expr | None:
    """The value that a statement or call gives to CUDA_VISIBLE_DEVICES in os.environ."""
    if isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Subscript)
        and ast.unparse(target.value).endswith("environ")
        and isinstance(target.slice, ast.Constant)
        and target.slice.value == VISIBLE
        for target in node.targets
    ):
        return node.value
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    method = node.func.attr
    if method in ("setdefault", "putenv") and len(node.args) == 2:
        first = node.args[0]
        return node.args[1] if isinstance(first, ast.Constant) and first.value == VISIBLE else None
    if method == "update" and ast.unparse(node.func.value).endswith("environ"):
        given = [pair for argument in node.args if isinstance(argument, ast.Dict) for pair in _items(argument)]
        return next((value for key, value in given if key == VISIBLE), keyword(node, VISIBLE))
    return None


def _items(mapping: ast.Dict) -> Iterator[tuple[object, ast.expr]]:
    for key, value in zip(mapping.keys, mapping.values, strict=True):
        if isinstance(key, ast.Constant):
            yield key.value, value


def _visible(script: Script, flows: tuple[tuple[Step, ...], ...]) -> Said | None:
    name = "script.visible_devices_line"
    for index, flow in enumerate(flows):
        # Before anything but the standard library is imported, no call can reach CUDA; a function runs behind the imports.
        quiet, cuda, bare = True, None, index == 0
        for step in flow:
            if _assignment(step.node) is not None:
                if not step.sure:
                    return None
                if cuda is not None:
                    return Said(
                        name, "after_cuda", "the assignment stands behind a call that initialises CUDA", step.node, cuda
                    )
                return Said(name, "before_cuda", "nothing before it initialises CUDA", step.node) if quiet else None
            if step.sure and cuda is None and isinstance(step.node, ast.Call) and _initialises(script, step.node):
                cuda = step.node
            bare = bare and (not isinstance(step.node, (ast.Import, ast.ImportFrom)) or _is_standard(step.node))
            quiet = quiet and (bare or _is_quiet(script, step.node))
    if any(isinstance(node, ast.Constant) and node.value == VISIBLE for node in script.nodes):
        return None
    # A file of helpers is not the place where it would stand.
    trains = any(
        isinstance(call.func, ast.Attribute) and call.func.attr in ("backward", "train", "fit") for call in script.calls
    )
    if script.whole and trains:
        return Said(name, "absent", f"{VISIBLE} does not occur in the script", script.tree.body[0])
    return None


def _initialises(script: Script, call: ast.Call) -> bool:
    """True if the call makes CUDA read which devices are visible."""
    name = script.callee(call)
    if name.startswith("torch.cuda."):
        return name.removeprefix("torch.cuda.") in _INITIALISES
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if method == "cuda" and name not in ("torch.cuda",):
        return True
    device = keyword(call, "device")
    if device is None and method == "to" and call.args:
        device = call.args[0]
    value = script.constant(device)
    return isinstance(value, str) and bool(_CUDA.match(value)) and (method == "to" or name.startswith("torch."))


def _is_standard(node: ast.Import | ast.ImportFrom) -> bool:
    return all(name in sys.stdlib_module_names for name in _packages(node))


def _packages(node: ast.Import | ast.ImportFrom) -> list[str]:
    modules = [name.name for name in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    return [module.partition(".")[0] for module in modules]


def _is_quiet(script: Script, node: ast.AST) -> bool:
    """True if a statement or call surely does not initialise CUDA."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return all(name in _QUIET or name in sys.stdlib_module_names for name in _packages(node))
    if isinstance(node, ast.Call):
        root = script.callee(node).partition(".")[0]
        return root in sys.stdlib_module_names or root in ("print", "str", "int", "len", "dict", "list")
    return True


def _dataparallel(script: Script) -> Said | None:
    name = "script.dataparallel"
    other: ast.Call | None = None
    for call in script.calls:
        callee = script.callee(call)
        if _DATAPARALLEL.match(callee):
            guards = script.guards(call)
            if all(_SEVERAL_DEVICES.match(ast.unparse(guard.test)) and script.is_under(call, guard) for guard in guards):
                return Said(name, True, "the script calls nn.DataParallel", call)
            return None
        if _WRAPPERS.search(callee):
            other = other or call
    mentioned = any(isinstance(node, ast.Attribute) and node.attr == "DataParallel" for node in script.nodes)
    if script.whole and other is not None and not mentioned and "DataParallel" not in script.imports:
        return Said(name, False, "the script wraps the model otherwise", other)
    return None


def map_location(script: Script) -> Said | None:
    """`map_location` of the script's torch.load calls, where all of them agree."""
    found: dict[str, ast.Call] = {}
    for call in script.calls:
        if script.callee(call) != "torch.load":
            continue
        kind = _location(script, call)
        if kind is None:
            return None
        found.setdefault(kind, call)
    if len(found) != 1:
        return None
    kind, call = next(iter(found.items()))
    origin = "torch.load without map_location" if kind == "absent" else "map_location of torch.load"
    return Said("script.map_location", kind, origin, call)


def _location(script: Script, call: ast.Call) -> str | None:
    value = call.args[1] if len(call.args) > 1 else keyword(call, "map_location")
    if value is None:
        return None if is_open(call) else "absent"
    if isinstance(value, ast.Call) and script.callee(value) == "torch.device" and value.args:
        value = value.args[0]
    if isinstance(value, ast.Constant) and value.value is None:
        return "absent"
    if isinstance(value, ast.JoinedStr):
        first = value.values[0] if value.values else None
        return "device" if isinstance(first, ast.Constant) and str(first.value).startswith("cuda") else None
    text = script.constant(value)
    if isinstance(text, str):
        return "cpu" if text == "cpu" else "device" if _CUDA.match(text) else None
    return None


def _set_device(script: Script) -> Said | None:
    """Whether a rank chooses its device, in a script that opens a process group for GPUs itself."""
    name = "script.set_device"
    groups = [call for call in script.calls if script.callee(call).endswith("init_process_group")]
    chosen = [call for call in script.calls if script.callee(call) == "torch.cuda.set_device"]
    if not groups:
        return None
    bound = next((call for call in groups if keyword(call, "device_id") is not None), None)
    if bound is not None:
        return Said(name, True, "device_id of init_process_group", bound)
    sure = [call for call in chosen if call.args and not script.guards(call) and script.constant(call.args[0]) is None]
    if sure:
        return Said(name, True, "torch.cuda.set_device", sure[0])
    backend = groups[0].args[0] if groups[0].args else keyword(groups[0], "backend")
    if script.whole and not chosen and script.constant(backend) == "nccl" and not any(is_open(call) for call in groups):
        return Said(name, False, "the process group is opened, and no device is set", groups[0])
    return None
