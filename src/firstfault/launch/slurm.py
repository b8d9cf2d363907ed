"""What `srun` starts: independent tasks, the GPUs that each of them sees, and the launcher that each of them may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from firstfault.launch.elastic_workers import DRAWN, MAX_PROCESSES
from firstfault.launch.request import Request
from firstfault.launch.values import Given, origin, settle
from firstfault.launch.worker import complete
from firstfault.model.plan import Origin, Plan, Process, Rank0, Spawn

_SHORT = {
    "-N": "--nodes", "-n": "--ntasks", "-c": "--cpus-per-task", "-G": "--gpus", "-t": "--time", "-p": "--partition",
    "-w": "--nodelist", "-x": "--exclude", "-J": "--job-name", "-o": "--output", "-e": "--error", "-A": "--account",
    "-q": "--qos", "-C": "--constraint", "-D": "--chdir", "-m": "--distribution", "-i": "--input", "-W": "--wait",
    "-r": "--relative", "-d": "--dependency",
}  # fmt: skip
_ALONE = frozenset(
    {
        "-l", "--label", "-u", "--unbuffered", "--exclusive", "--overlap", "--pty", "--exact", "-v", "--verbose", "-Q",
        "--quiet", "-O", "--overcommit", "-s", "--oversubscribe", "-Z", "--no-allocate", "--preserve-env", "-E", "-X",
        "--disable-status", "-H", "--hold", "--multi-prog", "--contiguous", "--spread-job", "--use-min-nodes", "-k", "-I",
        "--no-kill", "--immediate", "-K", "--kill-on-bad-exit",
    }
)  # fmt: skip
_LAUNCHERS = frozenset({"accelerate", "torchrun", "deepspeed"})

MAX_REPLANNED = 64

# What `sbatch` sets for its script from an option, and `srun` in it takes as its own default.
BATCH_VARIABLES = {
    "--nodes": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
    "--ntasks": ("SLURM_NTASKS", "SLURM_NPROCS"),
    "--ntasks-per-node": ("SLURM_NTASKS_PER_NODE",),
    "--cpus-per-task": ("SLURM_CPUS_PER_TASK",),
    "--gpus-per-task": ("SLURM_GPUS_PER_TASK",),
    "--gpus-per-node": ("SLURM_GPUS_PER_NODE",),
    "--gpus": ("SLURM_GPUS",),
    "--gpu-bind": ("SLURM_GPU_BIND",),
    "--gres": ("SLURM_JOB_GRES",),
}


class Srun(msgspec.Struct, frozen=True):
    """The options of `srun` under their long names, and the words of the program behind them."""

    options: Mapping[str, str]
    program: tuple[str, ...]


class Tasks(msgspec.Struct, frozen=True):
    """Nodes, tasks of all nodes and of one, each with its origin; None is not known."""

    nodes: Given
    total: Given | None
    per_node: Given | None


def read_srun(words: tuple[str, ...]) -> Srun:
    """The words of `srun`; `-N2` and `-N 2` are the same."""
    options: dict[str, str] = {}
    position = 1
    while position < len(words) and words[position].startswith("-") and words[position] != "--":
        word = words[position]
        position += 1
        name, equals, value = word.partition("=")
        if not word.startswith("--") and word[:2] in _SHORT:
            name, value = word[:2], word[2:].removeprefix("=")
            equals = value
        if not equals and name not in _ALONE and position < len(words):
            value = words[position]
            position += 1
        options[_SHORT.get(name, name)] = value or "true"
    return Srun(options, words[position + (words[position : position + 1] == ("--",)) :])


def batch_options(text: str) -> dict[str, str]:
    """The options of one `#SBATCH` line under their long names."""
    return dict(read_srun(("srun", *text.split())).options)


def task_numbers(options: Mapping[str, str], request: Request) -> Tasks:
    """How many tasks `srun` starts: its own options before those of the job, whose number of nodes is 1 where none is given."""
    nodes = _settled(options, request, "--nodes") or Given(1, "default", "one node where none is asked for")
    total, per_node = _settled(options, request, "--ntasks"), _settled(options, request, "--ntasks-per-node")
    count = nodes.value if isinstance(nodes.value, int) else None
    if total is not None and count and ("--ntasks" in options or per_node is None):
        per_node = Given(-(-_int(total) // count), "derived", f"{total.where} over {nodes.where}")
    elif per_node is None and total is None:
        per_node = Given(1, "default", "one task on each node")
    if total is None and per_node is not None and count:
        total = Given(_int(per_node) * count, "derived", f"{per_node.where} on {nodes.where}")
    return Tasks(nodes, total, per_node)


def task_gpus(options: Mapping[str, str], request: Request, tasks: int | None) -> tuple[tuple[str, ...] | None, str]:
    """The ids of the GPUs that one task sees, None if that is not known, and the rule.

    With `--gpus-per-task` Slurm binds and numbers them from 0, unless `--gpu-bind=none`.
    """
    bound = _text(options, request, "--gpu-bind")
    each = _count(_text(options, request, "--gpus-per-task"))
    granted = _granted(options, request)
    if bound is not None and bound.startswith(("single", "per_task")):
        ratio = bound.partition(":")[2]
        return (("0",), "--gpu-bind=single") if not ratio.isdecimal() or bound.startswith("single") else _ids(int(ratio), bound)
    if bound is not None and bound != "none":
        return None, f"--gpu-bind={bound}"
    if each is not None and bound is None:
        return _ids(each, "--gpus-per-task")
    if each is not None and tasks is not None:
        return _ids(each * tasks, "--gpus-per-task with --gpu-bind=none")
    return _ids(granted, "GPUs that Slurm grants a node") if granted is not None else (None, "")


def plan_srun(request: Request, plan_inner: Callable[[Request], Plan]) -> Plan:
    """The plan of the step. A launcher behind `srun` is planned by `plan_inner`, and started once for each task.

    SLURM_* is read by none of torch, accelerate and the Trainer of transformers: without a launcher, every task trains alone.
    """
    read = read_srun(request.words)
    tasks = task_numbers(read.options, request)
    per_node = _int(tasks.per_node) if tasks.per_node is not None else None
    visible, rule = task_gpus(read.options, request, per_node)
    total = _int(tasks.total) if tasks.total is not None else None
    first = _process(0, total, per_node, visible, rule)
    given = {name: Given(value, "derived", rule or "the first task of srun") for name, value in first.env.items()}
    inner = msgspec.structs.replace(request, words=read.program, environment={**request.environment, **given})
    planned = plan_inner(inner) if read.program else Plan()
    origins = (*_origins(tasks), *planned.origins)
    if planned.starter not in (None, "python") or planned.tool in _LAUNCHERS:
        note = f"srun starts this command {per_node if per_node is not None else '?'}x on each of its {tasks.nodes.value} nodes"
        planned = complete(planned, inner)
        return msgspec.structs.replace(
            planned, command=request.words, origins=origins, notes=(note, *planned.notes), env_set=_added(planned, visible)
        )
    processes = [_process(task, total, per_node, visible, rule) for task in range(min(per_node or 0, MAX_PROCESSES))]
    if planned.tool is None:
        planned = msgspec.structs.replace(planned, rank0=Rank0())
    elif planned.rank0 is not None:
        # The text behind `bash -c` may make ranks of SLURM_PROCID and its like: each task runs it on its own.
        processes = [_told(process, inner, plan_inner) for process in processes[:MAX_REPLANNED]]
    return Plan(
        tool="srun",
        command=request.words,
        gpus=request.machine.gpus,
        starter="srun",
        nnodes=tasks.nodes.value if isinstance(tasks.nodes.value, int) else None,
        nproc_per_node=per_node,
        world_size=total,
        processes=tuple(processes),
        spawn=Spawn(kind="popen", argv=read.program),
        origins=origins,
        notes=planned.notes,
        rank0=planned.rank0,
    )


def _added(planned: Plan, visible: tuple[str, ...] | None) -> dict[str, str]:
    if visible is None or "CUDA_VISIBLE_DEVICES" in planned.env_removed:
        return planned.env_set
    return {"CUDA_VISIBLE_DEVICES": ",".join(visible), **planned.env_set}


def _told(process: Process, inner: Request, plan_inner: Callable[[Request], Plan]) -> Process:
    """The task with the ranks, GPUs and device that its own run of the program gives it."""
    given = {name: Given(value, "derived", "srun") for name, value in process.env.items()}
    planned = plan_inner(msgspec.structs.replace(inner, environment={**inner.environment, **given}))
    found = planned.processes[0] if planned.processes else process
    return msgspec.structs.replace(found, env={**process.env, **found.env})


def _process(task: int, total: int | None, per_node: int | None, visible: tuple[str, ...] | None, rule: str) -> Process:
    env = {"SLURM_LOCALID": str(task), "SLURM_NODEID": "0", "SLURM_PROCID": str(task)}
    if total is not None:
        env["SLURM_NTASKS"] = str(total)
    if per_node is not None:
        env["SLURM_NTASKS_PER_NODE"] = str(per_node)
    if visible is not None or rule:
        env["CUDA_VISIBLE_DEVICES"] = DRAWN if visible is None else ",".join(visible)
    return Process(visible=visible, env=dict(sorted(env.items())))


def _settled(options: Mapping[str, str], request: Request, name: str) -> Given | None:
    """A whole number from the flag or from the job's variable; of a range `2-4` the lower one."""
    layers: list[Given | None] = []
    if name in options:
        layers.append(_number(Given(options[name], "flag", f"srun {name}")))
    layers += [_number(request.environment.get(variable)) for variable in BATCH_VARIABLES.get(name, ())[:1]]
    return settle(layers)


def _number(given: Given | None) -> Given | None:
    if given is None:
        return None
    text = str(given.value).partition("-")[0]
    return Given(int(text), given.source, given.where) if text.isdecimal() and 0 < len(text) < 8 else None


def _text(options: Mapping[str, str], request: Request, name: str) -> str | None:
    return options.get(name) or request.variable(BATCH_VARIABLES[name][0])


def _count(text: str | None) -> int | None:
    """`4`, `a100:4` -> 4."""
    last = (text or "").split(",")[0].rpartition(":")[2]
    return int(last) if last.isdecimal() and len(last) < 5 else None


def _granted(options: Mapping[str, str], request: Request) -> int | None:
    found = _count(_text(options, request, "--gpus-per-node"))
    gres = _text(options, request, "--gres")
    if found is None and gres is not None and gres.startswith("gpu"):
        found = 1 if gres == "gpu" else _count(gres)
    return found


def _ids(count: int, rule: str) -> tuple[tuple[str, ...], str]:
    return tuple(str(index) for index in range(min(count, MAX_PROCESSES))), rule


def _origins(tasks: Tasks) -> tuple[Origin, ...]:
    pairs = (("srun.nodes", tasks.nodes), ("srun.tasks", tasks.total), ("srun.tasks_per_node", tasks.per_node))
    return tuple(origin(name, given) for name, given in pairs if given is not None)


def _int(given: Given) -> int:
    return given.value if isinstance(given.value, int) else 0
