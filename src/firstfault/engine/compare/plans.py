"""What the plans of two commands do otherwise, each value with its place."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.engine.compare.rows import ABSENT, UNKNOWN, Rows, known
from firstfault.launch.values import origin_of
from firstfault.model.comparison import SideValue
from firstfault.model.plan import Plan, Rank0, Scalar

# Rows of the start with the values of the plan that decide them, the first that is there giving the place.
_START: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("tool", "started by", ()),
    ("launcher", "launcher path", ("launcher",)),
    ("starter", "processes started by", ("launcher",)),
    ("nproc_per_node", "processes on a machine", ("num_processes", "nproc_per_node", "num_gpus", "srun.tasks_per_node")),
    ("nnodes", "machines", ("num_machines", "nnodes")),
    ("world_size", "processes in all", ("num_processes", "nproc_per_node", "num_gpus")),
    ("rdzv_backend", "rendezvous", ("rdzv_backend",)),
    ("rdzv_endpoint", "rendezvous endpoint", ("main_process_ip", "main_process_port", "rdzv_endpoint")),
)
_WORKER: tuple[tuple[str, str], ...] = (
    ("device", "device of the first process"),
    ("distributed_type", "distributed type"),
    ("parallel_mode", "Trainer: parallel mode"),
    ("n_gpu", "Trainer: GPUs of a process"),
    ("wraps_in_DataParallel", "nn.DataParallel"),
    ("wraps_in_DistributedDataParallel", "DDP"),
    ("compiles", "torch.compile"),
    ("init_process_group", "process group"),
)
_BATCH: tuple[tuple[str, str], ...] = (
    ("per_device_batch", "batch of a device"),
    ("train_batch_size_of_this_process", "batch of a process"),
    ("effective_batch", "effective batch"),
)
_NAMED = frozenset({"config_file", "launcher", "CUDA_VISIBLE_DEVICES", *(name for _, _, names in _START for name in names)})
_MODES = ("use_fsdp", "fsdp_version", "use_deepspeed", "zero_stage", "mixed_precision", "dynamo_backend")


def plan_rows(a: Plan, b: Plan, rows: Rows) -> None:
    """Adds what two commands start, what their first process decides, and the variables that they set."""
    for attribute, name, places in _START:
        rows.add("plan", f"plan.{attribute}", name, [_start(plan, attribute, places) for plan in (a, b)])
    rows.add("plan", "plan.visible", "GPUs a process sees", [_visible(a), _visible(b)])
    rows.add("plan", "plan.error", "stops with", [_error(a), _error(b)])
    for attribute, name in _WORKER:
        rows.add("plan", f"plan.{attribute}", name, [_worker(plan.rank0, attribute) for plan in (a, b)])
    for attribute, name in _BATCH:
        rows.add("batch", f"plan.{attribute}", name, [_batch(plan.rank0, attribute) for plan in (a, b)])
    _values(a, b, rows)
    _variables(a, b, rows)


def _start(plan: Plan, attribute: str, places: tuple[str, ...]) -> SideValue:
    value = getattr(plan, attribute)
    if isinstance(value, tuple):
        value = f"{value[0]} to {value[1]}"
    found = next((origin for name in places if (origin := origin_of(plan, name)) is not None), None)
    if value is None and attribute in ("launcher", "rdzv_backend", "rdzv_endpoint") and plan.starter is not None:
        return ABSENT
    return known(value, found.where if found is not None else "")


def _visible(plan: Plan) -> SideValue:
    seen = {process.visible for process in plan.processes}
    found = origin_of(plan, "CUDA_VISIBLE_DEVICES")
    if len(seen) != 1 or None in seen:
        return UNKNOWN if not seen or None in seen else known("each its own", found.where if found else "")
    ids = next(iter(seen)) or ()
    if found is None:
        own = plan.processes[0].env.get("CUDA_VISIBLE_DEVICES")
        return known(_ids(ids), "CUDA_VISIBLE_DEVICES" if own is not None else "")
    return known(_ids(ids), found.where)


def _ids(ids: tuple[str, ...]) -> str:
    return f"{len(ids)} ({','.join(ids)})" if ids else "none"


def _error(plan: Plan) -> SideValue:
    error = plan.error or (plan.rank0.error if plan.rank0 else None)
    if error is None:
        return ABSENT if plan.starter is not None else UNKNOWN
    return known(f"{error.type}: {error.message}")


def _worker(first: Rank0 | None, attribute: str) -> SideValue:
    value = getattr(first, attribute) if first is not None else None
    if attribute == "init_process_group" and first is not None and value is None:
        return ABSENT
    return known(value.rpartition(".")[2] if isinstance(value, str) else value)


def _batch(first: Rank0 | None, attribute: str) -> SideValue:
    value = getattr(first, attribute) if first is not None else None
    counted = f"with {first.per_device_batch} a device" if first is not None and attribute != "per_device_batch" else ""
    return known(value, counted)


def _values(a: Plan, b: Plan, rows: Rows) -> None:
    """The other values that a launcher settled; one that only one launcher knows is no difference by itself."""
    names = dict.fromkeys(origin.name for plan in (a, b) for origin in plan.origins)
    for name in names:
        left, right = origin_of(a, name), origin_of(b, name)
        if name in _NAMED or (None in (left, right) and name not in _MODES):
            continue
        sides = [known(found.value, found.where) if found else ABSENT for found in (left, right)]
        rows.add("plan", f"plan.value.{name}", name, sides)


def _variables(a: Plan, b: Plan, rows: Rows) -> None:
    for name in _names(a, b):
        rows.add("environment", f"plan.env.{name}", name, [_variable(plan, name) for plan in (a, b)])


def _names(a: Plan, b: Plan) -> Iterator[str]:
    yield from sorted({*a.env_set, *b.env_set, *a.env_removed, *b.env_removed})


def _variable(plan: Plan, name: str) -> SideValue:
    if name in plan.env_set:
        return SideValue(value=plan.env_set[name], where="launcher")
    if plan.starter is None:
        return UNKNOWN
    return SideValue(state="absent", where="launcher removes it" if name in plan.env_removed else "")


def variant_rows(a: Plan, b: Plan, rows: Rows) -> tuple[int, ...]:
    """Adds a row for each number of GPUs with which the two start something else, if the number is not known."""
    counts = sorted({*a.variants, *b.variants})
    apart = []
    for count in counts:
        left, right = a.variants.get(count, a), b.variants.get(count, b)
        name = f"with {count} GPU{'' if count == 1 else 's'}"
        if rows.add("plan", f"plan.gpus.{count}", name, [known(_in_short(plan)) for plan in (left, right)]):
            apart.append(count)
    return tuple(apart)


def _in_short(plan: Plan) -> str | None:
    if plan.error is not None:
        return f"stops with {plan.error.type}"
    first, count = plan.rank0, plan.nproc_per_node
    if count is None or first is None:
        return None
    processes = f"{count} process{'' if count == 1 else 'es'}"
    if first.wraps_in_DataParallel:
        return f"{processes}, DataParallel over {first.n_gpu}"
    mode = ", DDP" if first.wraps_in_DistributedDataParallel else ""
    return f"{processes}{mode}, {'CPU' if first.device == 'cpu' else 'a GPU each' if count > 1 else 'one GPU'}"


def essence(plan: Plan) -> tuple[Scalar, ...] | None:
    """What the processes of a start are to the training code; None while it is not known."""
    first = plan.rank0
    if first is None or first.n_gpu is None:
        return None
    return plan.nproc_per_node, plan.world_size, first.device, first.n_gpu, first.parallel_mode, first.wraps_in_DataParallel
