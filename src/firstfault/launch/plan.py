"""The plan of any launch command: which launcher it is, its plan, and what each process then decides."""

from __future__ import annotations

import msgspec

from firstfault.launch.expansion import holds_unknown
from firstfault.launch.launchers import plan_start
from firstfault.launch.request import Request
from firstfault.launch.worker import complete
from firstfault.model.plan import Plan, UnknownFact

GPU_COUNTS = (0, 1, 2, 4, 8)
"""The numbers of GPUs that a plan is made for where the number is not known."""
OTHER_VERSIONS = ("0.34.2", "1.4.0", "1.8.1")
"""Releases of accelerate, each the last one before rules that people meet changed; the newest rules are the plan's own."""

_GPUS = UnknownFact(
    fact="gpus",
    why="what starts, or what the framework makes of it, depends on how many GPUs the processes see",
    command="nvidia-smi -L",
)
_VERSION = UnknownFact(
    fact="accelerate",
    why="the versions of accelerate differ for this command",
    command='python -c "import accelerate; print(accelerate.__version__)"',
)


def plan(request: Request) -> Plan:
    """The plan of the command; where the GPU count or the version matters and is not known, also what it decides."""
    known = plan_known(request)
    unknown = [*known.unknown, *_selection(request, known)]
    notes = [*request.notes, *known.notes]
    variants: dict[int, Plan] = {}
    if request.machine.gpus is None and known.error is None:
        variants = {count: plan_known(_with_gpus(request, count)) for count in GPU_COUNTS}
        if len({_essence(variant) for variant in variants.values()}) > 1:
            unknown = [fact for fact in unknown if fact.fact != _GPUS.fact] + [_GPUS]
        else:
            variants = {}
    if known.tool == "accelerate" and request.version("accelerate") is None:
        differing = _by_version(request, known if known.starter or known.error else variants.get(GPU_COUNTS[-1], known))
        if differing:
            unknown.append(_VERSION)
            notes += differing
    return msgspec.structs.replace(known, variants=variants, unknown=tuple(unknown), notes=tuple(notes))


def _selection(request: Request, known: Plan) -> tuple[UnknownFact, ...]:
    """The GPUs that a variable of the shell selects and whose value is not known."""
    text = request.variable("CUDA_VISIBLE_DEVICES")
    if text is None or not holds_unknown(text) or known.error is not None:
        return ()
    why = f"CUDA_VISIBLE_DEVICES is {text}: which GPUs the processes see is not known here"
    return (UnknownFact(fact="CUDA_VISIBLE_DEVICES", why=why, command=f'echo "{text}"'),)


def plan_known(request: Request) -> Plan:
    """The plan of the command with the GPU count and the versions that the request has."""
    start = msgspec.structs.replace(
        plan_start(request), versions={name: text for name, text in request.versions.items() if text}
    )
    return complete(start, request)


def _with_gpus(request: Request, count: int) -> Request:
    return msgspec.structs.replace(request, machine=msgspec.structs.replace(request.machine, gpus=count))


def _essence(plan: Plan) -> tuple[object, ...]:
    """What a reader would call another start."""
    first = plan.rank0
    return (
        plan.launcher,
        plan.starter,
        plan.nproc_per_node,
        plan.error and plan.error.message,
        first and (first.wraps_in_DataParallel, first.device == "cpu"),
    )


def _by_version(request: Request, newest: Plan) -> list[str]:
    """Sentences on what older releases of accelerate do otherwise."""
    gpus = newest.gpus if newest.gpus is not None else request.machine.gpus
    notes: list[str] = []
    for version in OTHER_VERSIONS:
        older = msgspec.structs.replace(_with_gpus(request, gpus) if gpus is not None else request)
        found = plan_known(msgspec.structs.replace(older, versions={**request.versions, "accelerate": version}))
        differs = _differs(found, newest)
        if differs:
            notes.append(f"accelerate {version}: {differs}")
    return notes


def _differs(older: Plan, newest: Plan) -> str:
    if older.error != newest.error:
        return f"stops with {older.error.type}: {older.error.message}" if older.error else "starts"
    pairs = [
        ("launcher", older.launcher, newest.launcher),
        ("processes", older.nproc_per_node, newest.nproc_per_node),
        ("rendezvous", older.rdzv_backend, newest.rdzv_backend),
    ]
    # What hangs on a word that is not known differs by that word.
    changed = [f"{name} {old}, not {new}" for name, old, new in pairs if old != new and not (older.unknown and old is None)]
    names = sorted(name for name in older.env_set if older.env_set[name] != newest.env_set.get(name, older.env_set[name]))
    changed += [f"{name}={older.env_set[name]}, not {newest.env_set[name]}" for name in names]
    return "; ".join(changed)
