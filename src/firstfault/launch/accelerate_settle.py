"""What each option of `accelerate launch` is in the end: the command line, the configuration file and the machine put together.

Follows `_validate_launch_command` of accelerate/commands/launch.py. It computes with whatever the user wrote, so values of a
wrong type fail here with the exception that accelerate raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from firstfault.launch.accelerate_config import Config, default_path, load
from firstfault.launch.accelerate_names import SEVERAL_DEVICES
from firstfault.launch.flag_table import Arguments
from firstfault.launch.request import Request, Version
from firstfault.launch.values import Given, settle
from firstfault.launch.visible import visible_devices

MODES = ("multi_gpu", "tpu", "tpu_use_cluster", "use_deepspeed", "use_fsdp", "use_tp", "use_megatron_lm")

_LOGGER = "accelerate.commands.launch: "
_PREFIXES = {"fsdp_config": "fsdp", "fp8_config": "fp8", "dynamo_config": "dynamo_"}
# These are settled by rules of their own.
_APART = ("compute_environment", "mixed_precision", "distributed_type")


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """The options as the launcher goes on with them. `precision_of_file` says that the file decided mixed_precision."""

    arguments: Arguments
    config: Config | None
    log: tuple[str, ...]
    precision_of_file: bool = False


class Unknown(Exception):
    """The launcher asks for a fact about the machine that was not given."""

    def __init__(self, fact: str) -> None:
        super().__init__(fact)
        self.fact = fact


def read_config(arguments: Arguments, request: Request, version: Version) -> Config | None:
    """The file that the launch reads: the one it names, else the default one unless `--cpu` stands there."""
    named = arguments.value("config_file")
    if named is not None:
        text = request.read(named)
        if text is None:
            the = "the the" if version < (0, 28) else "the"
            raise FileNotFoundError(
                f"The passed configuration file `{named}` does not exist. Please pass an existing file to `accelerate launch`, "
                f"or use {the} default one created through `accelerate config` and run `accelerate launch` without the "
                "`--config_file` argument."
            )
        return load(named, text, version)
    path = default_path(request)
    text = None if arguments.value("cpu") else request.read(path)
    return None if text is None else load(path, text, version)


def settle_options(
    arguments: Arguments,
    request: Request,
    version: Version,
    find: Callable[[Arguments, Request, Version], Config | None] = read_config,
) -> Settled:
    """All options with their final values; raises what accelerate raises, and Unknown where the machine decides.

    `find` gives the configuration where it does not lie in a file.
    """
    _check_modes(arguments, version)
    config = find(arguments, request, version)
    warned: list[str] = []
    precision_of_file = False
    if config is not None:
        _take_mode(arguments, config, version)
        _take_gpu_ids(arguments, config, version)
        if config.value("compute_environment") == "LOCAL_MACHINE":
            _take_values(arguments, config, version)
        precision_of_file = _take_rest(arguments, config, request, version)
    else:
        _without_config(arguments, request, version, warned)
    _take_threads(arguments, config, request, version, warned)
    log = _deprecated(arguments, version)
    if warned:
        log.append(
            _LOGGER
            + "The following values were not passed to `accelerate launch` and had defaults used instead:\n"
            + "\n".join(warned)
            + "\nTo avoid this warning pass in values for each of the problematic parameters or run `accelerate config`."
        )
    return Settled(arguments=arguments, config=config, log=tuple(log), precision_of_file=precision_of_file)


def visible_count(request: Request) -> int:
    """GPUs that the launcher itself counts; raises Unknown."""
    visible = visible_devices(request.variable("CUDA_VISIBLE_DEVICES"), request.machine.gpus)
    if visible is None or request.machine.gpus is None:
        raise Unknown("gpus")
    return len(visible)


def _check_modes(arguments: Arguments, version: Version) -> None:
    exclusive = ["multi_gpu", "cpu", "tpu", "use_deepspeed", "use_fsdp"]
    listed = "`--cpu`, `--multi_gpu`, `--tpu`, `--use_deepspeed`, `--use_fsdp`"
    if (1, 4) <= version < (1, 7):
        exclusive.append("use_tp")
        listed += ", `--use_tp`"
    if sum(arguments.value(name) for name in exclusive) > 1:
        raise ValueError(f"You can only use one of {listed} at a time.")
    processes = arguments.value("num_processes")
    if arguments.value("multi_gpu") and processes is not None and processes < 2:
        raise ValueError("You need to use at least 2 processes to use `--multi_gpu`.")
    # The package compares with the number 1 what is a text, so `--fsdp_version 1` passes.
    if version >= (1, 10) and not arguments.value("use_fsdp") and arguments.value("use_parallelism_config"):
        raise ValueError("You cannot use `--use_parallelism_config` without `--use_fsdp` and `--fsdp_version=2`. ")


def _take_mode(arguments: Arguments, config: Config, version: Version) -> None:
    """The mode comes from the file only if no flag names one."""
    if any(arguments.get(mode) for mode in MODES):
        return
    kind = config.value("distributed_type")
    where = config.values["distributed_type"].where
    kind = kind if isinstance(kind, str) else None
    several = {"MULTI_GPU"} if version < (0, 21) else SEVERAL_DEVICES
    arguments.given["use_deepspeed"] = Given(kind == "DEEPSPEED", "file", where)
    arguments.given["multi_gpu"] = Given(kind in several, "file", where)
    arguments.given["tpu"] = Given(kind in ("TPU", "XLA"), "file", where)
    arguments.given["use_fsdp"] = Given(kind == "FSDP", "file", where)
    arguments.given["use_megatron_lm"] = Given(kind == "MEGATRON_LM", "file", where)
    if (1, 4) <= version < (1, 7):
        arguments.given["use_tp"] = Given(kind == "TP", "file", where)
    cluster = config.value("tpu_use_cluster") if arguments.value("tpu") else False
    arguments.given["tpu_use_cluster"] = Given(cluster, "file", where)
    if version >= (1, 10):
        parallel = config.value("parallelism_config")
        arguments.given["use_parallelism_config"] = Given(parallel != {}, "file", config.values["parallelism_config"].where)


def _take_gpu_ids(arguments: Arguments, config: Config, version: Version) -> None:
    if arguments.value("gpu_ids") is None:
        ids = config.value("gpu_ids")
        arguments.given["gpu_ids"] = (
            config.values["gpu_ids"] if ids is not None else Given("all", "default", f"built in: no flag, not in {config.path}")
        )
    if arguments.value("multi_gpu") and arguments.value("num_machines") is None:
        _take(arguments, config, "num_machines")
    ids = arguments.value("gpu_ids")
    few = len(ids.split(",")) < 2 and ids != "all" and arguments.value("multi_gpu")
    if few and arguments.value("num_machines") <= 1:
        on = "on" if version >= (1, 15) else "on on"
        raise ValueError(
            f"Less than two GPU ids were configured and tried to run {on} multiple GPUs. "
            "Please ensure at least two are specified for `--gpu_ids`, or use `--gpu_ids='all'`."
        )


def _take(arguments: Arguments, config: Config, name: str) -> None:
    """The file's value for an option that the command line left open."""
    arguments.given[name] = config.values[name]


def _take_values(arguments: Arguments, config: Config, version: Version) -> None:
    """Keys at the top count where the option is still None; those of nested tables by the rule of the version."""
    for name, given in config.values.items():
        if isinstance(given.value, dict):
            if version >= (1, 5) or _nested_taken(name, version):
                _take_nested(arguments, config, name, version)
        elif name not in _APART and arguments.get(name) is None:
            arguments.given[name] = given
        elif name not in _APART and name in config.given and arguments.given[name].source == "flag":
            arguments.given[name] = settle((arguments.given[name], given)) or given


def _nested_taken(name: str, version: Version) -> bool:
    """Before 1.5 the tables were copied by name."""
    return name != "fp8_config" or version >= (1, 4)


def _take_nested(arguments: Arguments, config: Config, table: str, version: Version) -> None:
    for written, value in config.value(table).items():
        key: Any = written
        prefix = _PREFIXES.get(table)
        if version >= (1, 5):
            if prefix and (table != "dynamo_config" or version >= (1, 14)) and not key.startswith(prefix):
                key = f"{prefix.rstrip('_')}_{key}"
        elif prefix and table != "dynamo_config" and prefix not in key:
            key = f"{prefix}_{key}"
        where = config.given.get(f"{table}.{written}", config.values[table]).where
        mine = Given(value, "file", where)
        named = arguments.given.get(key) if key in arguments.named else None
        if named is None:
            arguments.given[key] = mine
        elif version >= (1, 5):
            arguments.given[key] = settle((named, mine)) or mine
        else:
            arguments.given[key] = settle((mine, named)) or mine


def _take_rest(arguments: Arguments, config: Config, request: Request, version: Version) -> bool:
    """debug, mixed_precision and the backend; True if the precision is the file's."""
    if version >= (0, 22) and not arguments.value("debug"):
        _take(arguments, config, "debug")
    from_file = False
    if not arguments.value("mixed_precision"):
        from_file = config.value("mixed_precision") is not None
        arguments.given["mixed_precision"] = (
            config.values["mixed_precision"]
            if from_file
            else Given("no", "default", f"built in: no flag, not in {config.path}")
        )
    else:
        _check_bf16(arguments, request, version)
        if "mixed_precision" in config.given:
            both = settle((arguments.given["mixed_precision"], config.values["mixed_precision"]))
            arguments.given["mixed_precision"] = both or arguments.given["mixed_precision"]
    if arguments.value("dynamo_backend") is None:
        arguments.given["dynamo_backend"] = Given("no", "default", f"built in: no flag, not in {config.path}")
    if version >= (0, 34) and arguments.value("num_processes") == -1:
        raise ValueError("You need to manually pass in `--num_processes` using this config yaml.")
    return from_file


def _check_bf16(arguments: Arguments, request: Request, version: Version) -> None:
    """Only a flag is checked against the hardware, not the file."""
    if arguments.value("mixed_precision") != "bf16" or version < (0, 21):
        return
    if version < (1, 6) and arguments.value("use_cpu"):
        return
    if not request.machine.bf16 and visible_count(request) > 0:
        raise ValueError("bf16 mixed precision requires PyTorch >= 1.10 and a supported device.")


def _without_config(arguments: Arguments, request: Request, version: Version, warned: list[str]) -> None:
    if arguments.value("num_processes") is None:
        count = visible_count(request)
        arguments.put("num_processes", count, where="GPUs that are visible: no flag, no configuration file")
        warned.append(f"\t`--num_processes` was set to a value of `{count}`")
    enough = version < (0, 33) or arguments.value("num_processes") > 1
    if not arguments.value("multi_gpu") and enough and visible_count(request) > 1:
        warned.append(
            "\t\tMore than one GPU was found, enabling multi-GPU training.\n"
            "\t\tIf this was unintended please pass in `--num_processes=1`."
        )
        arguments.put("multi_gpu", True, where="several GPUs are visible and there is no configuration file")
    if arguments.value("num_machines") is None:
        warned.append("\t`--num_machines` was set to a value of `1`")
        _default(arguments, "num_machines", 1)
    for name in ("mixed_precision", "dynamo_backend"):
        if arguments.value(name) is None:
            warned.append(f"\t`--{name}` was set to a value of `'no'`")
            _default(arguments, name, "no")
        if name == "mixed_precision" and arguments.get("use_cpu") is None:
            arguments.given["use_cpu"] = arguments.given["cpu"]


def _default(arguments: Arguments, name: str, value: object) -> None:
    arguments.given[name] = Given(value, "default", "built in: no flag, no configuration file")


def _take_threads(arguments: Arguments, config: Config | None, request: Request, version: Version, warned: list[str]) -> None:
    """OMP_NUM_THREADS of each process: the flag, the variable, a share of the CPU's cores where the CPU trains, else 1."""
    if config is not None and config.value("compute_environment") == "AMAZON_SAGEMAKER":
        return
    if arguments.value("num_cpu_threads_per_process") is not None:
        return
    reads_variable = version >= (0, 30)
    threads = _number(request, ("OMP_NUM_THREADS",), 1) if reads_variable else 1
    arguments.put("num_cpu_threads_per_process", threads, where="OMP_NUM_THREADS" if threads != 1 else "built in")
    open_ = not reads_variable or _number(request, ("OMP_NUM_THREADS",), 0) == 0
    if not (arguments.value("use_cpu") and arguments.value("num_processes") >= 1 and open_):
        return
    share = 1
    if version >= (0, 34):
        share = max(int(arguments.value("num_processes") / arguments.value("num_machines")), 1)
    local = _number(request, ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"), share)
    if request.machine.cores is None:
        arguments.put("num_cpu_threads_per_process", "*", where="physical cores over the processes of this machine")
        return
    threads = int(request.machine.cores / local)
    if threads > 1:
        arguments.put("num_cpu_threads_per_process", threads, where="physical cores over the processes of this machine")
        warned.append(
            f"\t`--num_cpu_threads_per_process` was set to `{threads}` to improve out-of-box performance when training on CPUs"
        )


def _number(request: Request, names: tuple[str, ...], default: int) -> int:
    """The first of the variables that is no negative number; a text fails as `int` does."""
    for name in names:
        number = int(request.variable(name) or ("-1" if request.variable(name) is None else ""))
        if number >= 0:
            return number
    return default


def _deprecated(arguments: Arguments, version: Version) -> list[str]:
    """Messages about options that the version is about to drop; `--ipex` is never None, so its message always comes."""
    log = []
    if (1, 8) <= version < (1, 10) and arguments.value("ipex") is not None:
        log.append(
            _LOGGER + "ipex flag is deprecated, will be removed in Accelerate v1.10. "
            "From 2.7.0, PyTorch has all needed optimizations for Intel CPU and XPU."
        )
    if (1, 6) <= version < (1, 13) and arguments.value("use_xpu"):
        log.append(
            _LOGGER + "use_xpu is deprecated and ignored, will be removed in Accelerate v1.20. "
            "XPU is a PyTorch native citizen now, we don't need extra argument to enable it any more."
        )
    return log
