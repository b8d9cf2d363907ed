"""The plan of a command by the launcher that its first word names."""

from __future__ import annotations

import re

import msgspec

from firstfault.launch.request import Request
from firstfault.model.plan import Plan

_PYTHON = re.compile(r"python[\d.]*\Z")
_TORCH_MODULES = ("torch.distributed.run", "torch.distributed.launch")
_MPI = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun")


def plan_start(request: Request) -> Plan:
    """What the launcher starts, `rank0` and the processes of torchelastic left to `worker.complete`.

    The planners are imported when they are needed: a plain `python` loads none of the others. A first word that is no launcher
    gives a plan without `tool`.
    """
    name = request.words[0].rpartition("/")[2] if request.words else ""
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

        return plan_srun(request, plan_start)
    if name in _MPI:
        from firstfault.launch.mpi import plan_mpi

        return plan_mpi(request)
    note = f"{name or 'nothing'} is no launcher that is known here: what it starts is not known"
    return Plan(command=request.words, gpus=request.machine.gpus, notes=(note,))


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
