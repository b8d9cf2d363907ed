"""What a launch command really starts: processes, GPUs of each, and the mode of the Trainer, as far as settings decide it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from firstfault.launch import accelerate
from firstfault.launch.devices import GRANTED, visible_gpus
from firstfault.launch.read_launch import content_of, plan_of_launch, settings_of, tasks_per_node
from firstfault.launch.strategy import strategy_facts
from firstfault.launch.values import origin_of
from firstfault.launch.view import Launch, Value, launches, number
from firstfault.model.fact import Fact, FactValue, Setting
from firstfault.model.plan import Plan
from firstfault.model.span import SourceSpan

PRODUCES = (
    "host.offload",
    "launch.config_source",
    "launch.nodes_asked",
    "launch.per_node_start",
    "launch.processes",
    "launch.processes_asked",
    "launch.slurm_tasks_per_node",
    "launch.starter",
    "launch.visible_gpus",
    "run.strategy",
    "run.zero_stage",
    "trainer.n_gpu",
)


def plan_facts(settings: Sequence[Setting], *, at: SourceSpan | None = None) -> tuple[Fact, ...]:
    """Facts of the launch that the settings alone decide, each with the settings it rests on.

    `at` is the place of the initiating event: the last command before it in the same file counts. Several commands give the
    facts on which all of them agree; what a refused or incomplete command would start stays unknown.
    """
    found = launches(settings, at)
    if not found:
        config = accelerate.find_config(None, settings)
        environment = {setting.key: setting for setting in settings if setting.family == "environment"}
        plan = accelerate.Plan(distributed_type=_type_of(config))
        facts = list(_device_facts(visible_gpus(None, environment, config.settings or {})))
        facts += _alone(config)
        return (*facts, *strategy_facts(None, plan, config, None, settings))
    plans = [{fact.name: fact for fact in _facts(launch, settings)} for launch in found]
    first, others = plans[0], plans[1:]
    return tuple(
        fact for name, fact in first.items() if all(name in other and other[name].value == fact.value for other in others)
    )


def _type_of(config: accelerate.Config) -> str | None:
    setting = (config.settings or {}).get("distributed_type")
    return None if setting is None else accelerate.type_name(setting)


def _alone(config: accelerate.Config) -> Iterator[Fact]:
    """A configuration whose mode starts one process, whatever command reads it and whatever num_processes says."""
    given = config.settings or {}
    kind, asked, machines = (given.get(key) for key in ("distributed_type", "num_processes", "num_machines"))
    if kind is None or accelerate.type_name(kind) != "NO" or (machines is not None and number(machines) != 1):
        return
    yield _fact("launch.processes", 1, "distributed_type NO starts one process", (kind,))
    count = number(asked)
    if asked is not None and count:
        yield _fact("launch.processes_asked", count, "num_processes", (asked,))
    if machines is not None:
        yield _fact("launch.nodes_asked", 1, "num_machines", (machines,))


def _facts(launch: Launch, settings: Sequence[Setting]) -> Iterator[Fact]:
    yield _fact("launch.starter", launch.name, "launch command", (launch.launcher,))
    config = accelerate.find_config(launch, settings)
    visible = visible_gpus(launch, launch.environment, config.settings or {})
    yield from _device_facts(visible)
    planned = None
    if launch.name == "accelerate":
        if config.settings is not None:
            content = content_of(config.settings)
            planned = plan_of_launch(launch, gpus=_present(launch, visible), content=content, version=_version(settings))
        plan = accelerate.plan(launch, config, planned)
        if config.source is not None:
            basis = [launch.options.get("--config_file") or launch.launcher]
            if config.source == "default" and config.settings:
                basis.append(next(iter(config.settings.values())))
            yield _fact("launch.config_source", config.source, "--config_file, else the default file unless --cpu", basis)
    else:
        planned = plan_of_launch(launch, gpus=_present(launch, visible))
        plan = _started(launch, planned, visible)
    for name, value in (
        ("launch.processes", plan.processes),
        ("launch.processes_asked", plan.asked),
        ("launch.nodes_asked", plan.machines),
    ):
        if value is not None and value.settings:
            yield _fact(name, value.value, value.rule, value.settings)
    yield from _trainer(launch, plan, planned, visible)
    yield from _slurm(launch)
    yield from strategy_facts(launch, plan, config, visible, settings)


def _present(launch: Launch, visible: Value | None) -> int | None:
    """GPUs of the machine: those that were listed, else those that Slurm grants a node."""
    counted = number(launch.environment.get("gpu.count"))
    return visible.value if counted is None and visible is not None and visible.rule == GRANTED else counted


def _version(settings: Sequence[Setting]) -> str:
    """The accelerate of the run, empty while it is not known."""
    found = {str(setting.value) for setting in settings if (setting.family, setting.key) == ("package", "accelerate")}
    return found.pop() if len(found) == 1 else ""


def _device_facts(visible: Value | None) -> Iterator[Fact]:
    if visible is not None:
        yield _fact("launch.visible_gpus", visible.value, visible.rule, visible.settings)


def _trainer(launch: Launch, plan: accelerate.Plan, planned: Plan | None, visible: Value | None) -> Iterator[Fact]:
    """GPUs that one Trainer process drives: all visible ones without LOCAL_RANK, else one."""
    if visible is None:
        return
    basis = (launch.launcher, *visible.settings)
    n_gpu = planned.rank0.n_gpu if planned is not None and planned.rank0 is not None else None
    rules = {
        "simple": "one process without LOCAL_RANK drives every visible GPU",
        "elastic": "a worker with LOCAL_RANK drives one GPU",
    }
    if n_gpu is not None:
        yield _fact("trainer.n_gpu", n_gpu, rules.get(plan.path or "", "the plan of the command"), basis)
    elif planned is None and plan.path is not None and "LOCAL_RANK" not in launch.environment:
        yield _fact("trainer.n_gpu", visible.value if plan.path == "simple" else min(visible.value, 1), rules[plan.path], basis)


def _started(launch: Launch, planned: Plan | None, visible: Value | None) -> accelerate.Plan:
    """What the plan of a starter that reads no configuration says, with the settings that decide it."""
    if launch.name == "mpirun":
        asked = launch.options.get("-np") or launch.options.get("-n")
        count = number(asked)
        return accelerate.Plan(asked=Value(count, "-np", (asked,)) if asked is not None and count else None)
    if planned is None:
        return accelerate.Plan()
    if launch.name == "srun":
        return _tasks(launch, planned)
    if launch.name == "python":
        one = Value(1, "python starts one process", (launch.launcher,))
        return accelerate.Plan(path="simple", processes=one if planned.nproc_per_node == 1 else None)
    return _workers(launch, planned, visible)


def _workers(launch: Launch, planned: Plan, visible: Value | None) -> accelerate.Plan:
    """Workers of torchrun or of deepspeed on this machine."""
    names = ("nproc_per_node",) if launch.name == "torchrun" else ("num_gpus", "include", "exclude")
    row = next((found for name in names if (found := origin_of(planned, name)) is not None), None)
    decides = settings_of(row, launch) or (launch.launcher,)
    typed = row is not None and row.source in ("flag", "variable")
    named = typed and row is not None and (row.name == "include" or str(row.value).isdecimal())
    processes, asked = None, None
    # A hostfile that is not at hand may name any number of slots.
    if planned.nproc_per_node and not any(option in launch.options for option in ("--hostfile", "-H")):
        basis = (
            decides
            if named or visible is None or (row is not None and row.source == "default")
            else (*decides, *visible.settings)
        )
        processes = Value(planned.nproc_per_node, row.where if row is not None else "one process for each GPU", basis)
        asked = processes if named else None
    nodes = origin_of(planned, "nnodes")
    machines = None
    if nodes is not None and isinstance(planned.nnodes, int) and planned.nnodes > 0:
        machines = Value(planned.nnodes, nodes.where, settings_of(nodes, launch))
    return accelerate.Plan(path="elastic", processes=processes, asked=asked, machines=machines)


def _tasks(launch: Launch, planned: Plan) -> accelerate.Plan:
    """Tasks of srun on a node: independent processes without LOCAL_RANK."""
    found, nodes = tasks_per_node(launch), origin_of(planned, "srun.nodes")
    tasks = Value(*found) if found is not None else None
    machines = None
    if nodes is not None and nodes.source != "default" and isinstance(planned.nnodes, int):
        machines = Value(planned.nnodes, "nodes of the job", settings_of(nodes, launch))
    return accelerate.Plan(path="simple", processes=tasks, asked=tasks, machines=machines)


def _slurm(launch: Launch) -> Iterator[Fact]:
    """How Slurm starts the command: tasks a node, and whether every node runs it."""
    wrapped = launch.options.get("wrapper")
    by_srun = launch.name == "srun" or (wrapped is not None and wrapped.value == "srun")
    tasks = tasks_per_node(launch)
    if tasks is not None:
        yield _fact("launch.slurm_tasks_per_node", *tasks)
    nodes = launch.batch.get("--nodes")
    if by_srun:
        yield _fact("launch.per_node_start", True, "srun starts the command on every node", (wrapped or launch.launcher,))
    elif nodes is not None and (number(nodes) or 1) > 1:
        yield _fact(
            "launch.per_node_start",
            False,
            "the batch script calls the launcher on its first node only",
            (launch.launcher, nodes),
        )


def _fact(name: str, value: FactValue, origin: str, settings: Sequence[Setting]) -> Fact:
    spans = tuple(dict.fromkeys(setting.span for setting in settings))
    return Fact(name=name, value=value, origin=origin, spans=spans, basis="derived")
