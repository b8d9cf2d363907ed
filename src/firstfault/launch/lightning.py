"""What a Trainer of Lightning decides in a started process: devices, strategy, and what it starts itself.

Read in lightning 2.6.6 (accelerator_connector.py, the cluster environments, subprocess_script.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.plan import Lightning, PlannedError

MAX_SCRIPT_CHARS = 1 << 20
MAX_CALL_CHARS = 4_000

_IMPORTS = lazy_pattern(r"^\s*(?:import|from)\s+(?:lightning|pytorch_lightning|lightning_fabric)\b", re.M)
_TRAINER = lazy_pattern(r"\bTrainer\(", needs="Trainer(")
_ARGUMENT = lazy_pattern(r"\b(devices|num_nodes|accelerator|strategy)\s*=\s*(?:(-?[0-9]{1,6})|[\"']([\w-]{1,40})[\"']|(\S))")
_INTERACTIVE = ("bash", "interactive")
_AUTO: dict[str, str | None] = {"devices": "auto", "num_nodes": "1", "accelerator": "auto", "strategy": "auto"}


def decide_lightning(environment: Mapping[str, str], gpus: int | None, script: str) -> Lightning | None:
    """The decision of a process that sees `gpus` GPUs; None unless the script imports Lightning.

    Numbers and names that stand in the one call of `Trainer(...)` count; an argument that is computed there is unknown.
    """
    script = script[:MAX_SCRIPT_CHARS]
    if not _IMPORTS.search(script):
        return None
    given = _arguments(script)
    kind = _environment(environment)
    accelerator = _accelerator(given["accelerator"], gpus)
    devices = _devices(given["devices"], accelerator, gpus)
    nodes = _number(given["num_nodes"])
    if devices is None or nodes is None or accelerator is None:
        return Lightning(environment=kind, accelerator=accelerator, devices=devices)
    strategy = given["strategy"]
    if strategy == "auto":
        strategy = "ddp" if nodes > 1 or devices > 1 else "single_device"
    error = _refused(environment, kind, strategy, devices, nodes)
    outside = kind != "Lightning" or "LOCAL_RANK" in environment
    alone = strategy == "single_device"
    return Lightning(
        environment=kind,
        accelerator=accelerator,
        devices=devices,
        strategy=strategy,
        starts=0 if outside or alone or error else devices - 1,
        world_size=1 if alone else devices * nodes,
        error=error,
    )


def _arguments(script: str) -> dict[str, str | None]:
    """The arguments of the call, defaults where there is none; all unknown where calls differ."""
    calls = [script[found.end() : found.end() + MAX_CALL_CHARS] for found in _TRAINER.finditer(script)][:20]
    read = [_AUTO | {found[1]: found[2] or found[3] for found in _ARGUMENT.finditer(_call(call))} for call in calls]
    if not read or any(other != read[0] for other in read):
        return dict(_AUTO) if not read else dict.fromkeys(_AUTO)
    return read[0]


def _call(text: str) -> str:
    """The text up to the bracket that closes the call."""
    depth = 1
    for position, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0:
            return text[:position]
    return text


def _environment(environment: Mapping[str, str]) -> str:
    if "TORCHELASTIC_RUN_ID" in environment:
        return "TorchElastic"
    srun = "SLURM_NTASKS" in environment and environment.get("SLURM_JOB_NAME") not in _INTERACTIVE
    return "SLURM" if srun else "Lightning"


def _accelerator(asked: str | None, gpus: int | None) -> str | None:
    if asked in ("auto", "gpu"):
        return None if gpus is None else "cuda" if gpus or asked == "gpu" else "cpu"
    return asked


def _devices(asked: str | None, accelerator: str | None, gpus: int | None) -> int | None:
    if asked in ("auto", "-1") and accelerator == "cuda":
        return gpus
    return 1 if asked == "auto" and accelerator == "cpu" else _number(asked)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _refused(environment: Mapping[str, str], kind: str, strategy: str | None, devices: int, nodes: int) -> PlannedError | None:
    """How Lightning stops where the launcher started another number of processes; a single device checks nothing."""
    if kind == "SLURM" and (_number(environment.get("SLURM_NTASKS")) or 1) > 1 and "SLURM_NTASKS_PER_NODE" not in environment:
        tasks = environment["SLURM_NTASKS"]
        message = (
            f"You set `--ntasks={tasks}` in your SLURM bash script, but this variable is not supported."
            f" HINT: Use `--ntasks-per-node={tasks}` instead."
        )
        return PlannedError(type="RuntimeError", message=message)
    if strategy == "single_device":
        return None
    if kind == "TorchElastic":
        world = _number(environment.get("WORLD_SIZE"))
        if world is not None and devices * nodes != world:
            message = (
                f"You set `devices={devices}` and `num_nodes={nodes}` in Lightning, but the product ({devices} * {nodes})"
                f" does not match the world size ({world})."
            )
            return PlannedError(type="ValueError", message=message)
    per_node = _number(environment.get("SLURM_NTASKS_PER_NODE")) if kind == "SLURM" else None
    if per_node is not None and per_node != devices:
        message = (
            f"You set `devices={devices}` in Lightning, but the number of tasks per node configured in SLURM"
            f" `--ntasks-per-node={per_node}` does not match. HINT: Set `devices={per_node}`."
        )
        return PlannedError(type="ValueError", message=message)
    return None
