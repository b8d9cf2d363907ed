"""What `python script.py` starts: one process, with everything that stands in the shell."""

from __future__ import annotations

import msgspec

from firstfault.launch.request import Request
from firstfault.launch.values import origin
from firstfault.model.plan import Origin, Plan, Spawn

_TAKES_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})
_ENDS = frozenset({"-m", "-c"})
# Read by the process itself: torch, accelerate and transformers find their place in the group here.
_DECIDING = (
    "CUDA_VISIBLE_DEVICES", "LOCAL_RANK", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS",
    "ACCELERATE_DYNAMO_BACKEND", "ACCELERATE_MIXED_PRECISION", "ACCELERATE_TORCH_DEVICE", "ACCELERATE_USE_CPU",
    "ACCELERATE_USE_DEEPSPEED", "ACCELERATE_USE_FSDP",
)  # fmt: skip
_INTERACTIVE = "python is given no script: what is typed or piped into it is not known here"


def plan_python(request: Request) -> Plan:
    """The plan of a plain start; `rank0` and `processes` are left to `worker.complete`.

    Ranks that some earlier launcher, a platform or the shell left in the environment are inherited: with all of RANK,
    LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT the one process waits for the others of that group.
    """
    return Plan(
        tool="python",
        command=request.words,
        gpus=request.machine.gpus,
        starter="python",
        nnodes=1,
        nproc_per_node=1,
        world_size=1,
        spawn=Spawn(kind="popen", argv=request.words),
        origins=deciding_variables(request),
        notes=(_INTERACTIVE,) if script_at(request.words) is None else (),
    )


def deciding_variables(request: Request) -> tuple[Origin, ...]:
    """The variables of the shell that the started process itself reads."""
    return tuple(origin(name, request.environment[name]) for name in _DECIDING if name in request.environment)


def script_at(words: tuple[str, ...]) -> int | None:
    """Where the script or `-m` stands behind `python` and its own options; None for an interpreter without a program."""
    position = 1
    while position < len(words):
        word = words[position]
        if word in _ENDS or not word.startswith("-") or word == "-":
            return position
        position += 2 if word in _TAKES_VALUE else 1
    return None


def without_interpreter(request: Request) -> Request | None:
    """The request with `python -m torch.distributed.run` and the like as the launcher's own words; None for a script."""
    at = script_at(request.words)
    if at is None or request.words[at] != "-m" or at + 1 >= len(request.words):
        return None
    module = MODULES.get(request.words[at + 1])
    return None if module is None else msgspec.structs.replace(request, words=(*module, *request.words[at + 2 :]))


MODULES = {
    "accelerate.commands.launch": ("accelerate", "launch"),
    "accelerate.commands.accelerate_cli": ("accelerate",),
    "deepspeed": ("deepspeed",),
    "deepspeed.launcher.runner": ("deepspeed",),
}
"""Modules that are a launcher; those of torch keep their words, since the module decides about `--local-rank`."""
