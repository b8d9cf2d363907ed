"""Which path `accelerate launch` takes, and how many processes it starts on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from firstfault.launch.view import Launch, Value, basename, number
from firstfault.model.fact import Setting

Source = Literal["explicit", "default", "none"]
Path = Literal["simple", "elastic"]

_MODE_FLAGS = ("--multi_gpu", "--tpu", "--tpu_cluster", "--use_deepspeed", "--use_fsdp", "--use_megatron_lm")
_FLAG_TYPES = {
    "--use_deepspeed": "DEEPSPEED",
    "--use_fsdp": "FSDP",
    "--use_megatron_lm": "MEGATRON_LM",
    "--multi_gpu": "MULTI_GPU",
}
_ONE_MODE_ONLY = ("--cpu", "--multi_gpu", "--tpu", "--use_deepspeed", "--use_fsdp")
_ELASTIC_TYPES = frozenset(
    {
        "MULTI_GPU", "MULTI_NPU", "MULTI_XPU", "MULTI_MLU", "MULTI_MUSA", "MULTI_SDAA", "MULTI_HPU", "FSDP", "MEGATRON_LM",
        "DEEPSPEED",
    }
)  # fmt: skip
# Top-level keys of accelerate 0.20 to 1.15: another one stops the launch.
_KEYS = frozenset(
    {
        "compute_environment", "distributed_type", "mixed_precision", "use_cpu", "debug", "num_processes", "machine_rank",
        "num_machines", "gpu_ids", "main_process_ip", "main_process_port", "rdzv_backend", "same_network",
        "main_training_function", "enable_cpu_affinity", "deepspeed_config", "fsdp_config", "parallelism_config",
        "megatron_lm_config", "mpirun_config", "fp8_config", "dynamo_config", "dynamo_backend", "fp16", "downcast_bf16",
        "tpu_name", "tpu_zone", "tpu_use_cluster", "tpu_use_sudo", "command_file", "commands", "tpu_vm", "tpu_env",
    }
)  # fmt: skip


_PRECISIONS = frozenset({"no", "fp16", "bf16", "fp8", "NO", "FP16", "BF16", "FP8"})


def type_name(setting: Setting) -> str:
    """The value of `distributed_type`; an unquoted `NO` is false to YAML and means the same."""
    return "NO" if setting.value is False else str(setting.value)


class Config(msgspec.Struct, frozen=True):
    """The configuration that the launch reads: where it comes from (None: not known) and its settings (None: not at hand)."""

    source: Source | None
    settings: Mapping[str, Setting] | None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What the launch starts; None is unknown, also where accelerate would refuse."""

    path: Path | None = None
    distributed_type: str | None = None
    processes: Value | None = None
    asked: Value | None = None
    machines: Value | None = None


def find_config(launch: Launch | None, settings: Sequence[Setting]) -> Config:
    """The accelerate configuration of the launch; without a command, the only one that was handed over."""
    files = _files(settings)
    only = files[0][1] if len(files) == 1 else None
    if launch is None:
        return Config(None, only)
    if launch.name != "accelerate":
        return Config(None, None)
    named = launch.options.get("--config_file")
    if named is not None:
        same = [found for path, found in files if basename(path) == basename(named.value)]
        if len(same) == 1:
            return Config("explicit", same[0])
        # A configuration quoted in a log or paste has no file name of its own.
        quoted = [found for path, found in files if not path.endswith((".yaml", ".yml", ".json"))]
        return Config("explicit", quoted[0] if len(quoted) == 1 and only is not None else None)
    if launch.elided:
        return Config(None, None)
    if "--cpu" in launch.options:
        return Config("none", {})
    default = [found for path, found in files if basename(path).startswith("default_config.")]
    if len(default) == 1:
        return Config("default", default[0])
    if not files and any(setting.family == "file" and setting.value is None for setting in settings):
        return Config("none", {})
    # A configuration handed over with a command that names none can only have been read as the default one.
    return Config(None, only)


def _files(settings: Sequence[Setting]) -> list[tuple[str, dict[str, Setting]]]:
    """The configurations by path, or by the name under which a command printed them."""
    shown = {
        (setting.span.source, setting.source_id): setting.value
        for setting in settings
        if setting.family == "file" and isinstance(setting.value, str)
    }
    files: dict[tuple[str, str], dict[str, Setting]] = {}
    for setting in settings:
        if setting.family == "accelerate":
            files.setdefault((setting.span.source, setting.source_id), {})[setting.key] = setting
    return [(str(shown.get(place, place[0])), found) for place, found in files.items()]


def plan(launch: Launch, config: Config) -> Plan:
    """The path of the launch and its processes, as far as flags and configuration decide them."""
    settings = config.settings
    if launch.elided or (settings is not None and _refused(settings)):
        return Plan()
    options = launch.options
    if sum(flag in options for flag in _ONE_MODE_ONLY) > 1 or "--use_parallelism_config" in options:
        return Plan()
    given = settings or {}
    processes = options.get("--num_processes") or given.get("num_processes")
    machines_setting = options.get("--num_machines") or given.get("num_machines")
    machines = number(machines_setting)
    if machines_setting is None and settings is not None:
        machines = 1
    mode, kind = _mode(launch, config)
    machines_value = None
    if machines is not None and machines >= 1:
        machines_value = Value(machines, "machines of the launch", (machines_setting,) if machines_setting else ())
    count = number(processes)
    asked = None
    if count is not None and count >= 1 and machines_value is not None and processes is not None:
        asked = Value(count // machines_value.value, "num_processes", (processes,))
    basis = tuple(setting for setting in (mode, processes, machines_setting) if setting is not None)
    if kind is None or machines_value is None or _refused_count(launch, settings, kind, count):
        return Plan(distributed_type=kind, asked=asked, machines=machines_value)
    if kind not in _ELASTIC_TYPES:
        one = Value(1, "accelerate starts one process without LOCAL_RANK", basis) if machines == 1 else None
        return Plan(path="simple", distributed_type=kind, processes=one, asked=asked, machines=machines_value)
    started = None
    if count is not None and count >= 1 and (kind != "DEEPSPEED" or machines == 1):
        started = Value(count // machines_value.value, "accelerate starts workers through torchelastic", basis)
    return Plan(path="elastic", distributed_type=kind, processes=started, asked=asked, machines=machines_value)


def _mode(launch: Launch, config: Config) -> tuple[Setting | None, str | None]:
    """The setting that decides the mode, and the mode: one given as a flag drops that of the file."""
    if "--mpirun_hostfile" in launch.options:
        return None, None
    if "--cpu" in launch.options:
        return launch.options["--cpu"], "NO"
    flags = [flag for flag in _MODE_FLAGS if flag in launch.options]
    if flags:
        # The order in which accelerate asks.
        first = next((flag for flag in _FLAG_TYPES if flag in flags), None)
        return (launch.options[first], _FLAG_TYPES[first]) if first else (None, None)
    setting = (config.settings or {}).get("distributed_type")
    if setting is None:
        return None, None
    kind = type_name(setting)
    if kind == "MULTI_CPU" and "num_processes" not in (config.settings or ()) and "--num_processes" not in launch.options:
        return setting, None
    if kind == "MULTI_CPU" and any(key.startswith("mpirun_config.") for key in config.settings or ()):
        return setting, None
    return setting, kind if kind in _ELASTIC_TYPES or kind in ("NO", "MULTI_CPU") else None


def _refused(settings: Mapping[str, Setting]) -> bool:
    """True if accelerate may stop at this file, or reads it in a way that is not known here."""
    top = {key.partition(".")[0] for key in settings}
    environment = settings.get("compute_environment")
    if environment is not None and environment.value != "LOCAL_MACHINE":
        return True
    ids, precision, machines = settings.get("gpu_ids"), settings.get("mixed_precision"), settings.get("num_machines")
    return (
        not top <= _KEYS
        or any(key.startswith("parallelism_config.") for key in settings)
        or (ids is not None and ids.value is not None and not isinstance(ids.value, str))
        or (ids is not None and ids.text.partition(":")[2].strip()[:1] in ("[", ""))
        or (precision is not None and precision.value not in _PRECISIONS)
        or (machines is not None and not isinstance(machines.value, int))
    )


def _refused_count(launch: Launch, settings: Mapping[str, Setting] | None, kind: str, count: int | None) -> bool:
    """True for counts at which accelerate stops: `--multi_gpu` with one process, MULTI_GPU with a single GPU id."""
    ids = launch.options.get("--gpu_ids") or (settings or {}).get("gpu_ids")
    single = ids is not None and ids.value not in (None, "all", "") and "," not in str(ids.value)
    if kind == "MULTI_GPU" and single:
        return True
    return "--multi_gpu" in launch.options and count is not None and count < 2
