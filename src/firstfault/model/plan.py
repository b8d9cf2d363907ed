"""What a launch command will really start, as it is printed in JSON (`firstfault.plan/1`)."""

from __future__ import annotations

from typing import Literal

import msgspec

from firstfault.model.diagnosis import Fix, Verdict

PLAN_SCHEMA = "firstfault.plan/1"

Source = Literal["flag", "variable", "file", "default", "derived"]
Scalar = bool | int | float | str | None


class PlannedError(msgspec.Struct, frozen=True, kw_only=True):
    """How the launcher stops before it starts anything: the exception's type and its exact text; `code` of a usage error."""

    type: str
    message: str
    code: int | None = None


class Overridden(msgspec.Struct, frozen=True, kw_only=True):
    """A value that lost against another one, with its place."""

    value: Scalar
    source: Source
    where: str


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """One value of the plan and the place that decided it.

    `where` is `--num_processes`, `CUDA_VISIBLE_DEVICES`, `default.yaml:3` or, for `default` and `derived`, the reason in words.
    """

    name: str
    value: Scalar
    source: Source
    where: str
    overrode: tuple[Overridden, ...] = ()


class NoEffect(msgspec.Struct, frozen=True, kw_only=True):
    """A key, flag or variable that was given and changes nothing, its place (`default.yaml:8`), and why.

    `rule` names the loss where it surprises: the key is never taken from a file, is not known (`meant` is then the nearest
    known one), belongs to a mode that is off, as an option or in a table of the file, or a file beats the option.
    """

    key: str
    where: str
    why: str
    rule: Literal["", "never_read", "unknown_key", "mode_off", "table_off", "file_wins"] = ""
    meant: str = ""


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """One process on this machine. `rank` and `local_rank` are None where no launcher gives them.

    `visible` are the GPUs of the machine that it sees, as ids or UUIDs, None while their number is not known. `env` are the
    variables that differ from process to process.
    """

    rank: int | None = None
    local_rank: int | None = None
    visible: tuple[str, ...] | None = None
    device: str | None = None
    env: dict[str, str] = {}


class Rank0(msgspec.Struct, frozen=True, kw_only=True):
    """What the first process decides in Python: accelerate's state and, if it is used, transformers' Trainer.

    `train_batch_size_of_this_process` counts with a per-device batch of `per_device_batch`; `effective_batch` are the samples
    of one optimizer step over all processes and accumulated steps. None is unknown.
    """

    device: str | None = None
    distributed_type: str | None = None
    n_gpu: int | None = None
    parallel_mode: str | None = None
    visible_gpus: int | None = None
    per_device_batch: int = 4
    train_batch_size_of_this_process: int | None = None
    effective_batch: int | None = None
    trainer_world_size: int | None = None
    wraps_in_DataParallel: bool | None = None  # noqa: N815
    wraps_in_DistributedDataParallel: bool | None = None  # noqa: N815
    compiles: bool | None = None
    init_process_group: str | None = None
    init_missing_env: tuple[str, ...] = ()
    error: PlannedError | None = None


class Lightning(msgspec.Struct, frozen=True, kw_only=True):
    """What a Trainer of Lightning decides in the first process. `starts` are the processes that it starts besides itself.

    `environment` is `TorchElastic`, `SLURM` or `Lightning` (none of the others). None is unknown.
    """

    environment: str
    accelerator: str | None = None
    devices: int | None = None
    strategy: str | None = None
    starts: int | None = None
    world_size: int | None = None
    error: PlannedError | None = None


class Spawn(msgspec.Struct, frozen=True, kw_only=True):
    """The call that starts the processes: `popen` with its words, or `elastic_launch` with torchelastic's own settings."""

    kind: Literal["popen", "elastic_launch"]
    argv: tuple[str, ...]
    entrypoint: str | None = None
    config: dict[str, Scalar | dict[str, Scalar]] | None = None


class PlanFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that will not go as meant: the entry of the encyclopedia, how sure, this command's numbers, and the fix."""

    entry: str
    verdict: Verdict
    text: str
    title: str = ""
    where: str = ""
    fix: tuple[Fix, ...] = ()


class UnknownFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that the plan depends on and that was not given: its name, what it decides, and the command that shows it."""

    fact: str
    why: str
    command: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The whole plan of one command on one machine; None is unknown.

    `env_set` holds the variables that the launcher adds or changes for its children, `*` standing for a value that is drawn
    anew each time (ports, ids). `nnodes` is a pair for an elastic range. `variants` holds the plan by GPU count where the
    count matters and is not known; what all variants share stands in the plan itself.
    """

    schema: str = PLAN_SCHEMA
    tool: str | None = None
    command: tuple[str, ...] = ()
    versions: dict[str, str] = {}
    gpus: int | None = None
    launcher: str | None = None
    starter: Literal["python", "torchelastic", "deepspeed", "mpirun", "srun"] | None = None
    nnodes: int | tuple[int, int] | None = None
    node_rank: int | None = None
    nproc_per_node: int | None = None
    world_size: int | None = None
    processes: tuple[Process, ...] = ()
    rdzv_backend: str | None = None
    rdzv_endpoint: str | None = None
    env_set: dict[str, str] = {}
    env_removed: tuple[str, ...] = ()
    error: PlannedError | None = None
    warnings: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    rank0: Rank0 | None = None
    lightning: Lightning | None = None
    spawn: Spawn | None = None
    origins: tuple[Origin, ...] = ()
    no_effect: tuple[NoEffect, ...] = ()
    findings: tuple[PlanFinding, ...] = ()
    unknown: tuple[UnknownFact, ...] = ()
    notes: tuple[str, ...] = ()
    variants: dict[int, Plan] = {}
