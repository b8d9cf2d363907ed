"""Where the values of an `accelerate launch` come from, and what was given without effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from firstfault.launch.accelerate_config import Config
from firstfault.launch.accelerate_flags import FLAGS
from firstfault.launch.accelerate_names import DEFAULTS
from firstfault.launch.accelerate_settle import Settled
from firstfault.launch.accelerate_start import Start
from firstfault.launch.flag_table import Arguments
from firstfault.launch.request import Request, Version
from firstfault.launch.spelling import nearest
from firstfault.launch.values import Given, origin
from firstfault.model.plan import NoEffect, Origin, Plan

_SHOWN = ("num_processes", "num_machines", "machine_rank", "gpu_ids", "mixed_precision", "dynamo_backend")
_MEETING = ("main_process_ip", "main_process_port", "rdzv_backend", "same_network")
_NEVER_FROM_FILE = ("rdzv_backend", "same_network", "enable_cpu_affinity", "downcast_bf16", "tpu_use_sudo")
_TPU = (
    "tpu_name", "tpu_zone", "tpu_use_cluster", "tpu_use_sudo", "tpu_vm", "tpu_env", "command_file", "commands", "downcast_bf16",
    "vm", "env",
)  # fmt: skip
_DEEPSPEED = frozenset(
    {
        "zero_stage", "gradient_accumulation_steps", "gradient_clipping", "zero3_init_flag", "zero3_save_16bit_model",
        "offload_optimizer_device", "offload_param_device", "offload_optimizer_nvme_path", "offload_param_nvme_path",
    }
)  # fmt: skip
_UNREAD = ("offload_optimizer_nvme_path", "offload_param_nvme_path")
_COMMAND_LINE = "command line"
_UNKNOWN_KEY = "accelerate does not know this key and says nothing"
_FILE_WINS = "wins: before accelerate 1.5 the file beats the option"
_MODE_OFF = ("FSDP is not used", "DeepSpeed is not used", "Megatron-LM is not used")
_PREFIXES = {"fsdp_config": "fsdp_", "fp8_config": "fp8_", "dynamo_config": "dynamo_"}
Rule = Literal["", "never_read", "unknown_key", "mode_off", "table_off", "file_wins"]
_NAMES = frozenset(flag.name for flag in FLAGS) | {"fsdp_ignored_modules"}


def origins(settled: Settled, start: Start, request: Request) -> tuple[Origin, ...]:
    """The values that decide the start, each with its place and what it overrode."""
    arguments, config = settled.arguments, settled.config
    found: list[Origin] = []
    if config is None:
        where = (
            "no --config_file, and no default configuration" if not arguments.value("cpu") else "--cpu skips the default one"
        )
        found.append(origin("config_file", Given(None, "default", where)))
    else:
        named = arguments.given["config_file"]
        path = Given(config.path, "flag", named.where) if named.value is not None else Given(config.path, "default", "built in")
        found.append(origin("config_file", path))
        found.append(origin("distributed_type", config.values["distributed_type"]))
    found.append(origin("launcher", _launcher(settled, start)))
    names = list(_SHOWN)
    if start.plan.nnodes != 1 or start.launcher != "simple_launcher":
        names += _MEETING
    if arguments.get("use_fsdp") and start.launcher == "multi_gpu_launcher":
        names.append("fsdp_version")
    if start.launcher == "deepspeed_launcher":
        names += ("zero_stage", "deepspeed_config_file")
    for name in names:
        given = arguments.given.get(name)
        if given is not None and (given.value is not None or given.source != "default"):
            found.append(origin(name, given))
    found.append(_visible(arguments, request))
    found.append(_threads(arguments, start, request))
    return tuple(found)


def no_effect(settled: Settled, start: Start, version: Version) -> tuple[NoEffect, ...]:
    """Keys of the file and options that were given and change nothing of this start."""
    found: dict[str, NoEffect] = {}
    for key, where, why in (*_of_file(settled, start, version), *_of_flags(settled, start)):
        rule = _rule(key, where, why)
        found.setdefault(
            key, NoEffect(key=key, where=where, why=why, rule=rule, meant=_meant(key) if why == _UNKNOWN_KEY else "")
        )
    return tuple(found.values())


def _meant(key: str) -> str:
    """The known key of the same table that is nearest, written with or without the table's prefix as the user does."""
    table, _, inner = key.partition(".")
    prefix = _PREFIXES.get(table, "")
    known = {name for name in _NAMES if name.startswith(prefix)}
    if prefix and not inner.startswith(prefix):
        known = {name.removeprefix(prefix) for name in known}
    near = nearest(inner, known)
    return f"{table}.{near}" if near else ""


def _rule(key: str, where: str, why: str) -> Rule:
    """The kind of a loss that surprises."""
    if why in _MODE_OFF:
        return "mode_off" if where == _COMMAND_LINE else "table_off"
    if why.endswith(_FILE_WINS):
        return "file_wins"
    if why == _UNKNOWN_KEY:
        return "unknown_key"
    return "never_read" if key in _NEVER_FROM_FILE and where != _COMMAND_LINE else ""


def inherited_ranks(plan: Plan, request: Request) -> tuple[NoEffect, ...]:
    """Variables of the caller that the launcher replaces for its workers."""
    if plan.starter != "torchelastic":
        return ()
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    why = "torchelastic gives each worker its own"
    return tuple(
        NoEffect(key=name, where=request.environment[name].where, why=why) for name in names if name in request.environment
    )


def _launcher(settled: Settled, start: Start) -> Given:
    arguments = settled.arguments
    for mode in ("cpu", "use_deepspeed", "use_fsdp", "use_tp", "use_megatron_lm", "multi_gpu", "tpu"):
        given = arguments.given.get(mode)
        if given is not None and given.value:
            return Given(start.launcher, given.source, given.where)
    if settled.config is None:
        return Given(start.launcher, "derived", "no mode is asked for, and at most one GPU or process")
    kind = settled.config.values["distributed_type"]
    return Given(start.launcher, kind.source, kind.where)


def _visible(arguments: Arguments, request: Request) -> Origin:
    ids, variable = arguments.given.get("gpu_ids"), request.environment.get("CUDA_VISIBLE_DEVICES")
    if ids is not None and ids.value not in (None, "all"):
        lost = () if variable is None else (variable,)
        return origin("CUDA_VISIBLE_DEVICES", Given(ids.value, ids.source, ids.where, lost))
    if variable is not None:
        return origin("CUDA_VISIBLE_DEVICES", variable)
    return origin("CUDA_VISIBLE_DEVICES", Given(None, "default", "not set: all GPUs of the machine"))


def _threads(arguments: Arguments, start: Start, request: Request) -> Origin:
    given = arguments.given.get("num_cpu_threads_per_process")
    value = start.environment.get("OMP_NUM_THREADS")
    variable = request.environment.get("OMP_NUM_THREADS")
    if variable is not None and str(variable.value) == value:
        return origin("OMP_NUM_THREADS", variable)
    if given is None or start.launcher == "deepspeed_launcher":
        return origin("OMP_NUM_THREADS", Given(value, "default", "torch's: 1 with several workers"))
    return origin("OMP_NUM_THREADS", Given(value, given.source, given.where))


def _of_file(settled: Settled, start: Start, version: Version) -> Iterator[tuple[str, str, str]]:
    arguments, config = settled.arguments, settled.config
    if config is None or config.sagemaker:
        return
    for key, given in config.given.items():
        table, dot, inner = key.partition(".")
        if dot:
            why = _table_lost(table, settled, start) or _key_lost(table, inner, arguments, version)
        else:
            why = _top_lost(key, given, settled, start, config)
        if why:
            yield key, given.where, why


def _table_lost(table: str, settled: Settled, start: Start) -> str | None:
    """Why none of the keys of a nested table acts; None if they do."""
    arguments, launcher = settled.arguments, start.launcher
    reasons = {
        "fsdp_config": None if arguments.get("use_fsdp") and launcher == "multi_gpu_launcher" else _MODE_OFF[0],
        "deepspeed_config": None if launcher == "deepspeed_launcher" else _MODE_OFF[1],
        "megatron_lm_config": None if arguments.get("use_megatron_lm") and launcher == "multi_gpu_launcher" else _MODE_OFF[2],
        "mpirun_config": None if launcher == "simple_launcher" else "only the CPU path reads it",
        "dynamo_config": "deepspeed_launcher does not hand dynamo on" if launcher == "deepspeed_launcher" else None,
        "parallelism_config": None
        if arguments.get("use_parallelism_config") and launcher in ("multi_gpu_launcher", "deepspeed_launcher")
        else "the processes are not started for several devices",
        "fp8_config": None if str(arguments.get("mixed_precision")).lower() == "fp8" else "mixed_precision is not fp8",
        "ipex_config": "it is kept and never handed on",
    }
    return reasons.get(table)


def _key_lost(table: str, inner: str, arguments: Arguments, version: Version) -> str | None:
    prefix = _PREFIXES.get(table, "")
    prefixed = not inner.startswith(prefix) and (table != "dynamo_config" or version >= (1, 14))
    name = f"{prefix}{inner}" if prefixed else inner
    if name not in _NAMES:
        return _UNKNOWN_KEY
    if name in _UNREAD:
        return "it is never handed on"
    given = arguments.given.get(name)
    if given is not None and given.source == "flag":
        return f"{given.where} wins"
    return None


def _top_lost(key: str, given: Given, settled: Settled, start: Start, config: Config) -> str | None:
    arguments, launcher = settled.arguments, start.launcher
    used = arguments.given.get(key)
    if key in _NEVER_FROM_FILE:
        if used is None or used.value == given.value or given.value == DEFAULTS.get(key) or given.value == "no":
            return None
        return f"accelerate never takes it from a file; only --{key} on the command line acts"
    if key in _TPU and given.value not in (None, False, [], {}, "no"):
        return None if launcher in ("tpu_launcher", "tpu_pod_launcher") else "there is no TPU in this launch"
    if key == "distributed_type":
        flag = next((name for name in ("cpu", *_MODE_FLAGS) if _is_flag(arguments.given, name)), None)
        return f"{arguments.given[flag].where} decides the mode" if flag else None
    if used is not None and used.source == "flag" and used.value != given.value:
        return f"{used.where} wins"
    return _lost_on_one_machine(key, given, arguments, launcher)


_MODE_FLAGS = ("multi_gpu", "tpu", "tpu_use_cluster", "use_deepspeed", "use_fsdp", "use_tp", "use_megatron_lm")


def _is_flag(given: Mapping[str, Given], name: str) -> bool:
    return name in given and given[name].source == "flag" and bool(given[name].value)


def _lost_on_one_machine(key: str, given: Given, arguments: Arguments, launcher: str | None) -> str | None:
    machines = arguments.get("num_machines")
    alone = isinstance(machines, int) and machines <= 1
    if key == "num_processes" and launcher == "simple_launcher" and arguments.get("mpirun_hostfile") is None:
        # With one asked for, one is started: as meant.
        return None if given.value in (1, "1") else "simple_launcher starts one process, whatever num_processes says"
    if key in ("machine_rank", "main_process_ip") and alone and given.value not in (None, 0):
        several = isinstance(arguments.get("num_processes"), int) and arguments.get("num_processes") > 1
        if launcher == "simple_launcher" and key == "main_process_ip" and several:
            return None
        return "there is one machine"
    if key == "use_cpu" and given.value and launcher != "simple_launcher":
        return "only simple_launcher hands it on"
    return None


def _of_flags(settled: Settled, start: Start) -> Iterator[tuple[str, str, str]]:
    arguments = settled.arguments
    tables = {"fsdp_": "fsdp_config", "megatron_lm_": "megatron_lm_config", "parallelism_config_": "parallelism_config",
              "fp8_": "fp8_config"}  # fmt: skip
    for name in sorted(arguments.named):
        where = arguments.given[name].where
        lost = next((loser for loser in arguments.given[name].overrode if loser.source == "flag"), None)
        if lost is not None and arguments.given[name].source == "file" and lost.value != arguments.given[name].value:
            yield lost.where, _COMMAND_LINE, f"{where} {_FILE_WINS}"
        if not where.startswith("-"):
            continue
        table = next((table for prefix, table in tables.items() if name.startswith(prefix)), None)
        if name in _DEEPSPEED or name.startswith("deepspeed_"):
            table = "deepspeed_config"
        why = _table_lost(table, settled, start) if table else None
        if why is None and name.startswith("dynamo_"):
            why = _table_lost("dynamo_config", settled, start)
        if why is None:
            why = _lost_on_one_machine(name, arguments.given[name], arguments, start.launcher)
        if why:
            yield where, _COMMAND_LINE, why
