"""What a launch command really starts: processes, GPUs of each, and the mode of the Trainer, as far as settings decide it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from firstfault.launch import accelerate
from firstfault.launch.devices import visible_gpus
from firstfault.launch.strategy import strategy_facts
from firstfault.launch.view import Launch, Value, launches, number
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Fact, FactValue, Setting
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

_NODES = lazy_pattern(r"[1-9]\d{0,5}(?::[1-9]\d{0,5})?")


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
    plan = accelerate.Plan()
    if launch.name == "accelerate":
        plan = accelerate.plan(launch, config, None if visible is None else visible.value)
        if config.source is not None:
            basis = [launch.options.get("--config_file") or launch.launcher]
            if config.source == "default" and config.settings:
                basis.append(next(iter(config.settings.values())))
            yield _fact("launch.config_source", config.source, "--config_file, else the default file unless --cpu", basis)
    elif not launch.elided:
        plan = _plan(launch, visible)
    for name, value in (
        ("launch.processes", plan.processes),
        ("launch.processes_asked", plan.asked),
        ("launch.nodes_asked", plan.machines),
    ):
        if value is not None and value.settings:
            yield _fact(name, value.value, value.rule, value.settings)
    yield from _trainer(launch, plan, visible)
    yield from _slurm(launch)
    yield from strategy_facts(launch, plan, config, visible, settings)


def _device_facts(visible: Value | None) -> Iterator[Fact]:
    if visible is not None:
        yield _fact("launch.visible_gpus", visible.value, visible.rule, visible.settings)


def _trainer(launch: Launch, plan: accelerate.Plan, visible: Value | None) -> Iterator[Fact]:
    """GPUs that one Trainer process drives: all visible ones without LOCAL_RANK, else one."""
    if visible is None or "LOCAL_RANK" in launch.environment:
        return
    basis = (launch.launcher, *visible.settings)
    if plan.path == "simple":
        yield _fact("trainer.n_gpu", visible.value, "one process without LOCAL_RANK drives every visible GPU", basis)
    elif plan.path == "elastic":
        yield _fact("trainer.n_gpu", min(visible.value, 1), "a worker with LOCAL_RANK drives one GPU", basis)


def _plan(launch: Launch, visible: Value | None) -> accelerate.Plan:
    """The plan of the starters that read no configuration."""
    if launch.name == "python":
        one = Value(1, "python starts one process", (launch.launcher,))
        return accelerate.Plan(path="simple", processes=one)
    if launch.name == "torchrun":
        return _torchrun(launch, visible)
    if launch.name == "deepspeed":
        return _deepspeed(launch, visible)
    if launch.name == "srun":
        return _srun(launch)
    asked = launch.options.get("-np") or launch.options.get("-n")
    count = number(asked)
    return accelerate.Plan(asked=Value(count, "-np", (asked,)) if asked is not None and count else None)


def _torchrun(launch: Launch, visible: Value | None) -> accelerate.Plan:
    nodes = launch.options.get("--nnodes") or launch.environment.get("PET_NNODES")
    machines: Value | None = Value(1, "torchrun runs on one node by default", (launch.launcher,))
    if nodes is not None:
        if not _NODES.fullmatch(str(nodes.value)):
            return accelerate.Plan()
        count = number(nodes)
        machines = Value(count, "--nnodes", (nodes,)) if count is not None else None
    asked = launch.options.get("--nproc_per_node") or launch.environment.get("PET_NPROC_PER_NODE")
    if asked is None:
        one = Value(1, "--nproc_per_node is 1 by default", (launch.launcher,))
        return accelerate.Plan(path="elastic", processes=one, machines=machines)
    count = number(asked)
    if count is not None and count >= 1:
        value = Value(count, "--nproc_per_node", (asked,))
        return accelerate.Plan(path="elastic", processes=value, asked=value, machines=machines)
    started = None
    if asked.value in ("gpu", "auto") and visible is not None and visible.value >= 1:
        started = Value(visible.value, "one process for each visible GPU", (asked, *visible.settings))
    return accelerate.Plan(path="elastic", processes=started, machines=machines)


def _deepspeed(launch: Launch, visible: Value | None) -> accelerate.Plan:
    asked = launch.options.get("--num_gpus")
    count = number(asked)
    include = launch.options.get("--include")
    if asked is not None and count is not None and count >= 1:
        value = Value(count, "--num_gpus", (asked,))
        return accelerate.Plan(path="elastic", processes=value, asked=value)
    if include is not None and str(include.value).startswith("localhost:") and "@" not in str(include.value):
        slots = [slot for slot in str(include.value).removeprefix("localhost:").split(",") if slot.strip().isdecimal()]
        value = Value(len(slots), "--include", (include,))
        return accelerate.Plan(path="elastic", processes=value, asked=value)
    limits = ("--include", "--exclude", "--hostfile", "-H", "--num_nodes", "-i", "-e")
    if visible is not None and visible.value >= 1 and not any(option in launch.options for option in limits):
        started = Value(visible.value, "one process for each GPU of the machine", (launch.launcher, *visible.settings))
        return accelerate.Plan(path="elastic", processes=started)
    return accelerate.Plan(path="elastic")


def _srun(launch: Launch) -> accelerate.Plan:
    """Tasks of a node: independent processes without LOCAL_RANK."""
    per_node = _tasks_per_node(launch)
    nodes = launch.options.get("--nodes") or launch.batch.get("--nodes")
    count = number(nodes)
    machines = Value(count, "nodes of the job", (nodes,)) if nodes is not None and count else None
    return accelerate.Plan(path="simple", processes=per_node, asked=per_node, machines=machines)


def _tasks_per_node(launch: Launch) -> Value | None:
    """Tasks that Slurm starts on a node: the step's own option, else the job's."""
    places = (launch.options, {key.removeprefix("srun "): value for key, value in launch.options.items()}, launch.batch)
    for place in places:
        setting = place.get("--ntasks-per-node")
        count = number(setting)
        if setting is not None and count:
            return Value(count, "--ntasks-per-node", (setting,))
    for place in places:
        tasks, nodes = place.get("--ntasks"), place.get("--nodes") or launch.batch.get("--nodes")
        count, spread = number(tasks), number(nodes)
        if tasks is not None and nodes is not None and count and spread and count % spread == 0:
            return Value(count // spread, "--ntasks over --nodes", (tasks, nodes))
    return None


def _slurm(launch: Launch) -> Iterator[Fact]:
    """How Slurm starts the command: tasks a node, and whether every node runs it."""
    wrapped = launch.options.get("wrapper")
    by_srun = launch.name == "srun" or (wrapped is not None and wrapped.value == "srun")
    tasks = _tasks_per_node(launch)
    if tasks is not None and (by_srun or launch.batch):
        yield _fact("launch.slurm_tasks_per_node", tasks.value, tasks.rule, tasks.settings)
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
