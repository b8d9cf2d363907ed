"""The plan of any launch command: which launcher it is, its plan, and what each process then decides."""

from __future__ import annotations

import msgspec

from firstfault.launch.launchers import plan_start
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
    start = msgspec.structs.replace(
        plan_start(request), versions={name: text for name, text in request.versions.items() if text}
    )
    return complete(start, request)


def _with_gpus(request: Request, count: int) -> Request:
    return msgspec.structs.replace(request, machine=msgspec.structs.replace(request.machine, gpus=count))
