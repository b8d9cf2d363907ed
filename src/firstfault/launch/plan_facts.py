"""Facts of a plan, as the conditions of entries ask for them: what starts, and what was asked for.

`launch.*` and `trainer.*` mean what they mean in a diagnosis. What only a plan can show is `plan.*` (`plan_oddities`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from firstfault.ingest.plan_files import files_of
from firstfault.launch.launchers import behind_wrappers
from firstfault.launch.plan_script import Script, script_of
from firstfault.launch.request import Request
from firstfault.launch.values import origin_of
from firstfault.model.fact import Fact, FactSet, FactValue
from firstfault.model.plan import Origin, Plan
from firstfault.model.span import SourceSpan

ON_THIS_MACHINE = ("python", "torchelastic", "deepspeed")
_DISTRIBUTED = "ParallelMode.DISTRIBUTED"


def facts_of_plan(plan: Plan, request: Request) -> FactSet:
    """All facts of the plan; each with the word, variable or line of a file that decides it."""
    from firstfault.launch.plan_oddities import oddities

    inner = _inner(plan, request)
    script = script_of(plan, inner)
    facts = FactSet()
    for found in (
        *_files(plan, inner, script),
        *_start(plan),
        *_asked(plan),
        *_stop(plan),
        *_worker(plan, script),
        *oddities(plan, inner, request, script),
    ):
        facts.add(found)
    return facts


def fact(name: str, value: FactValue, origin: str, spans: Iterable[SourceSpan] = ()) -> Fact:
    """A derived fact; `origin` is the word, variable or file that decides it."""
    return Fact(name=name, value=value, origin=origin, spans=tuple(spans), basis="derived")


def at(found: Origin | None) -> tuple[str, tuple[SourceSpan, ...]]:
    """The place of a value of the plan: its words, and the line of a file if it has one."""
    return ("", ()) if found is None else (found.where, place(found.where))


def place(where: str) -> tuple[SourceSpan, ...]:
    """`default.yaml:3` as a span; empty for an option or a variable."""
    path, _, line = where.rpartition(":")
    return (SourceSpan(path, int(line), 0),) if path and line.isdecimal() and " " not in path else ()


def _files(plan: Plan, inner: Request, script: Script) -> Iterator[Fact]:
    for file in files_of(plan, inner.read):
        if file.source.kind == "deepspeed_config":
            from firstfault.launch.deepspeed_file import file_facts

            yield from file_facts(file, plan.world_size, script.framework)


def _inner(plan: Plan, request: Request) -> Request:
    """The request as the launcher itself gets it, with the variables that stand before its words."""
    if plan.command == request.words or plan.tool is None:
        return request
    found = behind_wrappers(request)
    return request if found is None else found[0]


def _start(plan: Plan) -> Iterator[Fact]:
    if plan.tool is not None:
        yield fact("launch.starter", plan.tool, plan.command[0] if plan.command else plan.tool)
        yield fact("launch.command", " ".join(plan.command), "launch command")
    if plan.starter is None:
        return
    # A plain start takes its number from the mode alone.
    names = ("launcher",) if plan.starter == "python" else ("num_processes", "nproc_per_node", "num_gpus")
    where, spans = at(next((found for name in names if (found := origin_of(plan, name)) is not None), None))
    if plan.nproc_per_node is not None:
        yield fact("launch.processes", plan.nproc_per_node, where, spans)
    machines = plan.nnodes[1] if isinstance(plan.nnodes, tuple) else plan.nnodes
    if machines is not None:
        yield fact("launch.nodes_asked", machines, *at(origin_of(plan, "num_machines") or origin_of(plan, "nnodes")))
    visible = _visible(plan)
    if visible is not None:
        yield fact("launch.visible_gpus", visible, *at(origin_of(plan, "CUDA_VISIBLE_DEVICES")))
    if plan.rdzv_endpoint is not None and plan.rdzv_endpoint.startswith("None:"):
        yield fact("launch.endpoint_none", True, "main_process_ip is not given")
    tasks = origin_of(plan, "srun.tasks_per_node")
    if tasks is not None and isinstance(tasks.value, int):
        yield fact("launch.slurm_tasks_per_node", tasks.value, *at(tasks))
        yield fact("launch.per_node_start", True, "srun")


def _visible(plan: Plan) -> int | None:
    """GPUs among which the processes of this machine choose theirs; unknown where each of several tasks gets its own."""
    config = (plan.spawn.config if plan.spawn else None) or {}
    if plan.starter not in ON_THIS_MACHINE and plan.nproc_per_node != 1:
        return None
    if config.get("virtual_local_rank"):
        return plan.gpus
    shown = plan.processes[0].visible if plan.processes else None
    return len(shown) if shown is not None else plan.rank0.visible_gpus if plan.rank0 else None


def _asked(plan: Plan) -> Iterator[Fact]:
    """How many processes of this machine the command or its file names, and which file that is."""
    machines = origin_of(plan, "num_machines")
    share = int(machines.value) if machines is not None and isinstance(machines.value, int) and machines.value > 1 else 1
    for name in ("num_processes", "nproc_per_node", "num_gpus"):
        found = origin_of(plan, name)
        number = _whole(found)
        if found is not None and number is not None and found.source in ("flag", "file", "variable"):
            yield fact("launch.processes_asked", number // share, *at(found))
            yield from _number_that_fits(plan, name, found)
            nodes = plan.nnodes if isinstance(plan.nnodes, int) else 1
            left = number - (plan.nproc_per_node or 0) * nodes
            if name == "num_processes" and plan.starter == "torchelastic" and nodes > 1:
                yield fact("plan.processes_dropped", max(left, 0), *at(found))
    file = origin_of(plan, "config_file")
    if plan.tool == "accelerate" and file is not None:
        source = "none" if file.value is None else "explicit" if file.source == "flag" else "default"
        yield fact("launch.config_source", source, file.where if file.value is None else str(file.value))


def _number_that_fits(plan: Plan, name: str, found: Origin) -> Iterator[Fact]:
    """Where the number of processes is written, and the one that gives each visible GPU a process."""
    visible = _visible(plan)
    if not visible or not isinstance(plan.nnodes, int):
        return
    # accelerate counts over all machines, the others on each.
    fitting = visible * (plan.nnodes if name == "num_processes" else 1)
    yield fact("plan.processes_fit", fitting, "visible GPUs" if fitting == visible else "machines x visible GPUs")
    yield fact("plan.processes_set_by", found.source, *at(found))
    yield fact("plan.processes_key", f"--{name}" if found.source == "flag" else name, *at(found))


def _whole(found: Origin | None) -> int | None:
    """A number of one or more, also as text."""
    text = str(found.value) if found is not None and not isinstance(found.value, bool) else ""
    return int(text) if text.isdecimal() and 0 < len(text) < 8 and int(text) else None


def _stop(plan: Plan) -> Iterator[Fact]:
    # `--help` ends well.
    stops = plan.error is not None and plan.error.code != 0
    yield fact("plan.stops", stops, plan.error.type if plan.error else "the launcher starts")
    if plan.error is not None:
        yield fact("plan.error_type", plan.error.type, plan.error.message)
        yield fact("plan.error", f"{plan.error.type}: {plan.error.message}", plan.error.message)


def _worker(plan: Plan, script: Script) -> Iterator[Fact]:
    """What the first process makes of its start, if its loop is the Trainer's or is not known."""
    framework = script.framework
    if framework is not None:
        yield fact("run.framework", framework, script.name)
    first = plan.rank0
    if first is None or first.error is not None or (plan.tool == "python" and not script.name):
        return
    if first.n_gpu is not None:
        yield fact("trainer.n_gpu", first.n_gpu, *at(origin_of(plan, "CUDA_VISIBLE_DEVICES")))
    if framework in (None, "transformers") and first.wraps_in_DataParallel is not None and script.spread is None:
        where, spans = at(origin_of(plan, "launcher"))
        yield fact("trainer.uses_dataparallel", first.wraps_in_DataParallel, where or "one process without LOCAL_RANK", spans)
    if "--fsdp" in script.words and first.parallel_mode not in (None, _DISTRIBUTED):
        yield fact("fsdp.not_distributed", True, "--fsdp")
