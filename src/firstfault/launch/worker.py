"""What each started process then decides: GPUs it sees, accelerate's state, and the Trainer of transformers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from firstfault.launch.elastic_workers import DRAWN, elastic_process, elastic_processes, virtual_rank_error
from firstfault.launch.lightning import decide_lightning
from firstfault.launch.request import Request, Version, version_numbers
from firstfault.launch.visible import visible_devices
from firstfault.launch.worker_values import (
    TRUE,
    device_error,
    expected,
    is_no_truth,
    number,
    number_error,
    rendezvous_error,
)
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.plan import Plan, PlannedError, Process, Rank0

PER_DEVICE_BATCH = 4
"""Samples a device and step that the batch is counted with where the command does not say."""
ABSENT = ""
"""The version of a package that is known not to be installed."""

GROUP_UNUSED = (
    "transformers.training_args: torch.distributed process group is initialized, but parallel_mode !="
    " ParallelMode.DISTRIBUTED. In order to use Torch DDP, launch your script with `python -m torch.distributed.launch"
)
MPI_ADDS = (
    "rank0 is what the launcher's variables decide; mpirun adds OMPI_COMM_WORLD_* or PMI_*, with which accelerate on CPU"
    " joins all processes (MULTI_CPU)"
)
_RANKED = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": DRAWN, "MASTER_ADDR": DRAWN, "MASTER_PORT": DRAWN}
_NO_ADDRESS = (
    "Tried to launch on distributed with multinode, but `MASTER_ADDR` env was not set, please try exporting rank 0's"
    " hostname as `MASTER_ADDR`"
)
_NO_NVML = "To set CPU affinity on CUDA GPUs the `nvidia-ml-py` package must be available. (`pip install nvidia-ml-py`)"
_IMPORT_DEEPSPEED = "DeepSpeed is not available => install it using `pip3 install deepspeed` or build it from source"
_NO_DEEPSPEED = (
    "No package metadata was found for The 'deepspeed>=0.9.3' distribution was not found and is required by this application. "
)
_RTX_4000 = (
    "Using RTX 4000 series doesn't support faster communication broadband via P2P or IB. Please set"
    ' `NCCL_P2P_DISABLE="1"` and `NCCL_IB_DISABLE="1" or use `accelerate launch` which will do this automatically.'
)
_WRITTEN = lazy_pattern(
    r"\b(per_device_train_batch_size|gradient_accumulation_steps|use_cpu|no_cuda|torch_compile)\s*=\s*(True|\d{1,6})\b"
)

# Versions of accelerate, read in its releases: from this one on the rule is the new one.
DEVICE_MODULO_SINCE: Version = (0, 33)
DDP_NEEDS_TWO_SINCE: Version = (1, 10)


def complete(plan: Plan, request: Request) -> Plan:
    """The plan with its processes and what the first of them decides; one that ends in an error or has them stays as it is."""
    if plan.error is not None or plan.starter is None or plan.rank0 is not None:
        return plan
    environment = child_environment(plan, request)
    gpus = request.machine.gpus
    script = plan.spawn.argv if plan.spawn else plan.command
    text = _script_text(script, request)
    script = (*_written(text), *script)
    if plan.starter == "torchelastic":
        error = virtual_rank_error(plan, environment)
        if error is not None:
            return msgspec.structs.replace(plan, error=error)
        processes = elastic_processes(plan, environment, gpus)
        first = elastic_process(plan, environment, gpus, 0)
    else:
        processes = plan.processes or _alone(plan, environment, gpus)
        first = processes[0] if processes else Process(env=_RANKED if plan.starter == "deepspeed" else {})
    rank0 = decide({**environment, **first.env}, request, script)
    processes = tuple(_seen(process, {**environment, **process.env}, request, script) for process in processes)
    notes = (*plan.notes, MPI_ADDS) if plan.starter == "mpirun" and not processes else plan.notes
    lightning = decide_lightning({**environment, **first.env}, rank0.visible_gpus, text)
    joined = rank0.init_process_group is not None and rank0.parallel_mode not in (None, "ParallelMode.DISTRIBUTED")
    log = (*plan.log, GROUP_UNUSED) if joined else plan.log
    return msgspec.structs.replace(plan, processes=processes, rank0=rank0, log=log, notes=notes, lightning=lightning)


def _script_text(script: Sequence[str], request: Request) -> str:
    """The text of the Python file that the words start; empty where it is not at hand."""
    path = next((word for word in script if word.endswith(".py")), None)
    return (request.read(path) or "") if path else ""


def _written(text: str) -> Iterator[str]:
    """The arguments of a Trainer that stand in its script as plain values, as options of a command line.

    A script that reads its command line may still be told otherwise there.
    """
    if "TrainingArguments(" not in text and "Config(" not in text:
        return
    values: dict[str, set[str]] = {}
    for found in _WRITTEN.finditer(text):
        if "#" not in text[text.rfind("\n", 0, found.start()) + 1 : found.start()]:
            values.setdefault(found[1], set()).add(found[2])
    yield from (f"--{name}={next(iter(given)).lower()}" for name, given in values.items() if len(given) == 1)


def _seen(process: Process, environment: Mapping[str, str], request: Request, script: Sequence[str]) -> Process:
    """The process with its device and, where the start does not narrow them, the GPUs that its variables leave it."""
    visible = process.visible if process.visible is not None else _visible(environment, request.machine.gpus)
    return msgspec.structs.replace(process, visible=visible, device=decide(environment, request, script).device)


def child_environment(plan: Plan, request: Request) -> dict[str, str]:
    """The variables that every started process inherits: the launcher's own and what it adds, without what it removes."""
    inherited = {name: str(given.value) for name, given in request.environment.items()}
    for name in plan.env_removed:
        inherited.pop(name, None)
    return {**inherited, **plan.env_set}


def _alone(plan: Plan, environment: Mapping[str, str], gpus: int | None) -> tuple[Process, ...]:
    """The one process of a start without ranks; ranks that stand in its environment are its own."""
    if plan.starter != "python":
        return ()
    local, rank = number(environment.get("LOCAL_RANK"), -1), number(environment.get("RANK"), -1)
    return (
        Process(
            rank=rank if rank is not None and rank >= 0 else None,
            local_rank=local if local is not None and local >= 0 else None,
            visible=_visible(environment, gpus),
        ),
    )


def _visible(environment: Mapping[str, str], gpus: int | None) -> tuple[str, ...] | None:
    return visible_devices(environment.get("CUDA_VISIBLE_DEVICES"), gpus)


def decide(environment: Mapping[str, str], request: Request, script: Sequence[str] = ()) -> Rank0:
    """What a process with these variables decides (accelerate/state.py, transformers/training_args.py).

    `script` are the words of the script with its arguments: `--per_device_train_batch_size`, `--use_cpu` and `--deepspeed`
    of a Trainer's script are read there. Fields are None where a variable or the number of GPUs is not known.
    """
    return _Worker(environment, request, script).state()


class _Worker:
    """The decisions of one process, in the order in which they are made."""

    def __init__(self, environment: Mapping[str, str], request: Request, script: Sequence[str]) -> None:
        self._environment = environment
        self._machine = request.machine
        self._versions = request.versions
        accelerate = request.versions.get("accelerate")
        self._accelerate = version_numbers(accelerate) if accelerate else None
        visible = _visible(environment, request.machine.gpus)
        self._gpus = None if visible is None else len(visible)
        self._arguments = script_arguments(script)
        self._batch = _batch(self._arguments)
        self._told_cpu = any(_flag(self._arguments.get(name)) for name in ("use_cpu", "no_cuda"))
        self._cpu = self._told_cpu or self._on("ACCELERATE_USE_CPU")
        self._deepspeed = self._true("ACCELERATE_USE_DEEPSPEED") or "deepspeed" in self._arguments

    def state(self) -> Rank0:
        """The whole decision."""
        malformed = self._malformed()
        if malformed is not None:
            return self._failed(malformed, None)
        state = self._decided()
        for name in ("ACCELERATE_CPU_AFFINITY", "FORK_LAUNCHED"):
            text = self._environment.get(name, "False")
            if state.device is not None and is_no_truth(text):
                error = PlannedError(type="ValueError", message=f"invalid truth value {text.lower()}")
                return self._failed(error, state.init_process_group)
        return self._with_deepspeed(state)

    def _with_deepspeed(self, state: Rank0) -> Rank0:
        """ACCELERATE_USE_DEEPSPEED is read again by the Trainer's arguments, also where no group was opened."""
        text = self._environment.get("ACCELERATE_USE_DEEPSPEED", "false")
        if state.device is None:
            return state
        if is_no_truth(text):
            error = PlannedError(type="ValueError", message=f"invalid truth value {text.lower()!r}")
            return self._failed(error, state.init_process_group)
        if not self._on("ACCELERATE_USE_DEEPSPEED") or state.distributed_type == "DistributedType.DEEPSPEED":
            return state
        if self._versions.get("deepspeed") == ABSENT:
            return self._failed(PlannedError(type="PackageNotFoundError", message=_NO_DEEPSPEED), state.init_process_group)
        # What the Trainer makes of DeepSpeed without ranks is DeepSpeed's own affair.
        return self._unknown(None)

    def _decided(self) -> Rank0:
        local = number(self._environment.get("LOCAL_RANK"), -1)
        if local is None or (self._gpus is None and not self._cpu) or self._true("ACCELERATE_USE_SAGEMAKER"):
            # What Amazon's own library of collectives decides is not known here.
            return self._unknown(None if self._true("ACCELERATE_USE_SAGEMAKER") else local)
        if local != -1 and not self._cpu:
            return self._distributed(local)
        if self._cpu and (local != -1 or (self._integer("PMI_SIZE", *_SIZES, "WORLD_SIZE", default=1) or 1) > 1):
            return self._several_on_cpu()
        return self._single(None)

    def _malformed(self) -> PlannedError | None:
        """The first variable that is read before any group is opened and is no value of its kind."""
        asked = self._environment.get("ACCELERATE_USE_CPU", "False")
        if not self._told_cpu and is_no_truth(asked):
            return PlannedError(type="ValueError", message=f"invalid truth value {asked.lower()!r}")
        device = device_error(self._environment.get("ACCELERATE_TORCH_DEVICE"))
        if device is not None:
            return device
        debug = self._environment.get("ACCELERATE_DEBUG_MODE", "False")
        if is_no_truth(debug):
            return PlannedError(type="ValueError", message=f"invalid truth value {debug.lower()}")
        local = self._environment.get("LOCAL_RANK", "-1")
        return number_error(local) or (self._malformed_size(number(local, -1)) if self._cpu else None)

    def _malformed_size(self, local: int | None) -> PlannedError | None:
        """On CPU the sizes and ranks are read one behind the other, each only until one is a number of 0 or more."""
        groups: tuple[tuple[str, ...], ...] = _CPU_READS
        if local == -1:
            first = ("PMI_SIZE", *_SIZES, "WORLD_SIZE")
            groups = (first, *groups) if (self._integer(*first, default=1) or 1) > 1 else (first,)
        for names in groups:
            for name in names:
                text = self._environment.get(name, "-1")
                if (error := number_error(text)) is not None:
                    return error
                found = number(text, -1)
                if found is None or found >= 0:
                    break
        return None

    def _unknown(self, local: int | None) -> Rank0:
        """Without a count of GPUs only what holds for every count of at least one."""
        alone = local == -1
        return Rank0(
            visible_gpus=self._gpus,
            per_device_batch=self._batch,
            distributed_type="DistributedType.NO" if alone else None,
            trainer_world_size=1 if alone else None,
        )

    def _distributed(self, local: int) -> Rank0:
        """LOCAL_RANK is set: a process group is opened, and without a GPU accelerate does not use it."""
        gpus = self._gpus or 0
        backend = "None" if gpus == 0 else "cuda:nccl,cpu:gloo" if self._needs_gloo() else "nccl"
        if self._true("ACCELERATE_USE_DEEPSPEED") and self._versions.get("deepspeed") == ABSENT:
            return self._failed(PlannedError(type="ImportError", message=_IMPORT_DEEPSPEED), None)
        stopped = rendezvous_error(self._environment)
        if stopped is not None:
            return self._failed(stopped[0], backend, stopped[1])
        if gpus == 0 and not self._deepspeed:
            return self._single(backend)
        index = local % gpus if gpus else local
        if gpus and local >= gpus and self._accelerate is not None and self._accelerate < DEVICE_MODULO_SINCE:
            return self._failed(PlannedError(type="RuntimeError", message="CUDA error: invalid device ordinal"), backend)
        device = self._environment.get("ACCELERATE_TORCH_DEVICE") or (f"cuda:{index}" if gpus else "cpu")
        kind = "DEEPSPEED" if self._deepspeed else "MULTI_GPU"
        world = number(self._environment.get("WORLD_SIZE"), 1) if gpus else 1
        return self._checked(self._result(kind, device, 1, world, backend))

    def _several_on_cpu(self) -> Rank0:
        world = self._integer("WORLD_SIZE", "PMI_SIZE", *_SIZES, default=1)
        here = self._integer("LOCAL_WORLD_SIZE", "MPI_LOCALNRANKS", *_LOCAL_SIZES, default=1)
        if not self._environment.get("MASTER_ADDR"):
            if here != world:
                return self._failed(PlannedError(type="ValueError", message=_NO_ADDRESS), None)
            return self._failed(expected("MASTER_ADDR"), "gloo", ("MASTER_ADDR",))
        if (error := number_error(self._environment.get("MASTER_PORT", "0"))) is not None:
            return self._failed(error, "gloo")
        device = self._environment.get("ACCELERATE_TORCH_DEVICE") or "cpu:0"
        return self._result("MULTI_CPU", device, 0, world, "gloo")

    def _single(self, backend: str | None) -> Rank0:
        """No group: the Trainer takes every GPU it sees, whatever ACCELERATE_USE_CPU says."""
        if self._told_cpu:
            return self._result("NO", "cpu", 0, 1, backend)
        gpus = self._gpus
        if gpus is None:
            return self._unknown(-1)
        device = "cuda:0" if gpus else self._environment.get("ACCELERATE_TORCH_DEVICE", "cpu")
        return self._checked(self._result("NO", device, gpus, 1, backend))

    def _result(self, kind: str, device: str, n_gpu: int, world: int | None, backend: str | None) -> Rank0:
        mode = "DISTRIBUTED" if kind != "NO" else "NOT_DISTRIBUTED" if n_gpu > 1 else "NOT_PARALLEL"
        return Rank0(
            device=device,
            distributed_type=f"DistributedType.{kind}",
            n_gpu=n_gpu,
            parallel_mode=f"ParallelMode.{mode}",
            visible_gpus=self._gpus,
            per_device_batch=self._batch,
            train_batch_size_of_this_process=self._batch * max(1, n_gpu),
            effective_batch=self._effective(n_gpu, world),
            trainer_world_size=world,
            wraps_in_DataParallel=n_gpu > 1,
            wraps_in_DistributedDataParallel=self._wraps(kind, world),
            compiles=self._compiles(n_gpu),
            init_process_group=backend,
        )

    def _effective(self, n_gpu: int, world: int | None) -> int | None:
        text = self._arguments.get("gradient_accumulation_steps", "1")
        steps = int(text) if text.isdecimal() and len(text) < 7 else None
        return None if steps is None or world is None else self._batch * max(1, n_gpu) * steps * world

    def _wraps(self, kind: str, world: int | None) -> bool | None:
        """DistributedDataParallel: not with FSDP or DeepSpeed, and at world size 1 only before accelerate 1.10."""
        if kind not in ("MULTI_GPU", "MULTI_CPU") or self._true("ACCELERATE_USE_FSDP"):
            return False
        if kind == "MULTI_CPU" or world is None or world > 1:
            return None if world is None else True
        return None if self._accelerate is None else self._accelerate < DDP_NEEDS_TWO_SINCE

    def _compiles(self, n_gpu: int) -> bool:
        """A backend of dynamo acts where accelerate prepares the model, which it does not inside nn.DataParallel."""
        backend = self._environment.get("ACCELERATE_DYNAMO_BACKEND", "NO").upper()
        asked = backend != "NO" or any(_flag(self._arguments.get(name)) for name in ("torch_compile",))
        return asked and n_gpu <= 1

    def _checked(self, state: Rank0) -> Rank0:
        """The state, or the error of the checks that stand behind the choice of the device."""
        if not self._gpus:
            return state
        if self._on("ACCELERATE_CPU_AFFINITY") and self._versions.get("nvidia-ml-py") == ABSENT:
            return self._failed(PlannedError(type="ImportError", message=_NO_NVML), state.init_process_group)
        silenced = "NCCL_P2P_DISABLE" in self._environment and "NCCL_IB_DISABLE" in self._environment
        if self._without_peer_access() and not silenced:
            return self._failed(PlannedError(type="NotImplementedError", message=_RTX_4000), state.init_process_group)
        return state

    def _without_peer_access(self) -> bool:
        """Several RTX 40 cards under a driver before 550.40.07."""
        name, driver = self._machine.gpu_name or "", self._machine.driver
        several = (self._machine.gpus or 0) > 1
        return several and "RTX 40" in name and driver is not None and version_numbers(driver) < (550, 40, 7)

    def _needs_gloo(self) -> bool:
        """FSDP that keeps parameters on the CPU, or gathers whole checkpoints there."""
        if not self._true("ACCELERATE_USE_FSDP"):
            return False
        whole = self._environment.get("FSDP_STATE_DICT_TYPE", "SHARDED_STATE_DICT") == "FULL_STATE_DICT"
        return whole or self._environment.get("FSDP_OFFLOAD_PARAMS", "false").lower() == "true"

    def _failed(self, error: PlannedError, backend: str | None, missing: tuple[str, ...] = ()) -> Rank0:
        return Rank0(error=error, init_process_group=backend, init_missing_env=missing, per_device_batch=self._batch)

    def _on(self, name: str) -> bool:
        return self._environment.get(name, "").lower() in TRUE

    def _true(self, name: str) -> bool:
        """For variables of which accelerate knows this one word."""
        return self._environment.get(name, "").lower() == "true"

    def _integer(self, *names: str, default: int) -> int | None:
        """The first variable that holds a number of 0 or more, as accelerate looks for it."""
        for name in names:
            found = number(self._environment.get(name), -1)
            if found is None or found >= 0:
                return found
        return default


_SIZES = ("OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
_CPU_READS = (
    ("RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK"),
    ("WORLD_SIZE", "PMI_SIZE", *_SIZES),
    ("LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK"),
    ("LOCAL_WORLD_SIZE", "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"),
)
_LOCAL_SIZES = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE")


def script_arguments(words: Sequence[str]) -> dict[str, str]:
    """The options among the words of a script, without dashes and with underscores; an option without a value is `true`."""
    found: dict[str, str] = {}
    for position, word in enumerate(words):
        if not word.startswith("--"):
            continue
        name, equals, value = word[2:].partition("=")
        following = words[position + 1] if position + 1 < len(words) else "--"
        found[name.replace("-", "_")] = value if equals else "true" if following.startswith("--") else following
    return found


def _flag(text: str | None) -> bool:
    return text is not None and text.lower() in TRUE


def _batch(arguments: Mapping[str, str]) -> int:
    text = arguments.get("per_device_train_batch_size", "")
    return int(text) if text.isdecimal() and len(text) < 7 else PER_DEVICE_BATCH
