"""The plan of a command by the launcher that its first word names."""

from __future__ import annotations

import re

import msgspec

from firstfault.launch.request import Request, program_name
from firstfault.model.plan import Plan, UnknownFact

_PYTHON = re.compile(r"python[\d.]*\Z")
_TORCH_MODULES = ("torch.distributed.run", "torch.distributed.launch")
_MPI = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun")


MAX_NESTING = 8
_LOOK = "pgrep -af python; tr '\\0' '\\n' < /proc/PID/environ | grep -E 'RANK|WORLD_SIZE|CUDA_VISIBLE'"


def plan_start(request: Request, depth: int = 0) -> Plan:
    """What the launcher starts, `rank0` and the processes of torchelastic left to `worker.complete`.

    The planners are imported when they are needed: a plain `python` loads none of the others. Programs before a launcher are
    taken off, as behind `srun`; words that lead to no launcher give a plan without `tool`.
    """
    name = program_name(request.words[0]) if request.words else ""
    if _PYTHON.match(name):
        return _python(request)
    if name == "torchrun":
        from firstfault.launch.torchrun import plan_torchrun

        return plan_torchrun(request)
    if name in ("accelerate", "accelerate-launch"):
        from firstfault.launch.accelerate_launch import plan_accelerate

        return plan_accelerate(request)
    if name == "deepspeed":
        from firstfault.launch.deepspeed import plan_deepspeed

        return plan_deepspeed(request)
    if name == "srun":
        from firstfault.launch.slurm import plan_srun

        return plan_srun(request, lambda inner: plan_start(inner, depth + 1))
    if name in _MPI:
        from firstfault.launch.mpi import plan_mpi

        return plan_mpi(request)
    return _wrapped(request, depth)


def _wrapped(request: Request, depth: int) -> Plan:
    from firstfault.launch.worker import complete

    found = behind_wrappers(request) if depth < MAX_NESTING else None
    if found is None:
        name = next(iter(request.words), "") or "an empty word"
        note = f"{name} is no launcher that is known here: what it starts is not known"
        asked = UnknownFact(
            fact="launcher", why=f"what {name} starts is not known here: look while it runs, on each machine", command=_LOOK
        )
        return Plan(command=request.words, gpus=request.machine.gpus, notes=(note,), unknown=(asked,))
    inner, notes = found
    planned = complete(plan_start(inner, depth + 1), inner)
    return msgspec.structs.replace(planned, notes=(*notes, *planned.notes))


def behind_wrappers(request: Request) -> tuple[Request, tuple[str, ...]] | None:
    """The request of the launcher behind the programs that only run it, with what was passed on the way; None without one."""
    from firstfault.launch.script import launch_of
    from firstfault.launch.wrappers import unwrap

    command = launch_of(unwrap(request.words, request.environment, read=request.read))
    if command is None:
        return None
    return msgspec.structs.replace(request, words=command.words, environment=command.environment), command.notes


def _python(request: Request) -> Plan:
    from firstfault.launch.python import plan_python, script_at, without_interpreter

    at = script_at(request.words)
    if at is not None and request.words[at] == "-m" and at + 1 < len(request.words):
        if request.words[at + 1] in _TORCH_MODULES:
            from firstfault.launch.torchrun import plan_torchrun

            return plan_torchrun(request)
        launcher = without_interpreter(request)
        if launcher is not None:
            return msgspec.structs.replace(plan_start(launcher), command=request.words)
    return plan_python(request)
