"""The plan of any launch command: which launcher it is, its plan, and what each process then decides."""

from __future__ import annotations

import msgspec

from firstfault.launch.request import Request
from firstfault.launch.worker import complete
from firstfault.model.plan import Plan

GPU_COUNTS = (0, 1, 2, 4, 8)
"""The numbers of GPUs that a plan is made for where the number is not known."""


def plan(request: Request) -> Plan:
    """The plan of the command; where the GPU count matters and is not known, also that of each usual count (`variants`)."""
    known = plan_known(request)
    if request.machine.gpus is not None or known.error is not None:
        return known
    variants = {count: plan_known(_with_gpus(request, count)) for count in GPU_COUNTS}
    return msgspec.structs.replace(known, variants=variants)


def plan_known(request: Request) -> Plan:
    """The plan of the command with the GPU count that the request has."""
    start = msgspec.structs.replace(_start(request), versions={name: text for name, text in request.versions.items() if text})
    return complete(start, request)


def _with_gpus(request: Request, count: int) -> Request:
    return msgspec.structs.replace(request, machine=msgspec.structs.replace(request.machine, gpus=count))


def _start(request: Request) -> Plan:
    name = request.words[0].rpartition("/")[2]
    if name.startswith("python"):
        from firstfault.launch.python import plan_python, script_at, without_interpreter

        inner = without_interpreter(request)
        at = script_at(request.words)
        if inner is None and not (at is not None and request.words[at : at + 1] == ("-m",) and _is_torchrun(request, at + 1)):
            return plan_python(request)
        return _launched(inner or request)
    return _launched(request)


def _is_torchrun(request: Request, at: int) -> bool:
    from firstfault.launch.torchrun import MODULES

    return request.words[at : at + 1] != () and request.words[at] in MODULES


def _launched(request: Request) -> Plan:
    name = request.words[0].rpartition("/")[2]
    if name in ("accelerate", "accelerate-launch"):
        from firstfault.launch.accelerate_launch import plan_accelerate

        return plan_accelerate(request)
    if name == "deepspeed":
        from firstfault.launch.deepspeed import plan_deepspeed

        return plan_deepspeed(request)
    if name in ("mpirun", "mpiexec"):
        from firstfault.launch.mpi import plan_mpi

        return plan_mpi(request)
    from firstfault.launch.torchrun import plan_torchrun

    return plan_torchrun(request)
