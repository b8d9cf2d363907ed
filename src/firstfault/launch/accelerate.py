"""Which path `accelerate launch` takes, and how many processes it starts on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from firstfault.launch.accelerate_names import SEVERAL_DEVICES
from firstfault.launch.view import Launch, Value, basename, number
from firstfault.model.fact import Setting

if TYPE_CHECKING:
    from firstfault.model.plan import Plan as WholePlan

Source = Literal["explicit", "default", "none"]
Path = Literal["simple", "elastic"]

_MODES = (
    ("use_deepspeed", "DEEPSPEED"),
    ("use_fsdp", "FSDP"),
    ("use_megatron_lm", "MEGATRON_LM"),
    ("multi_gpu", "MULTI_GPU"),
)
_MODE_FLAGS = ("multi_gpu", "tpu", "tpu_cluster", "use_deepspeed", "use_fsdp", "use_tp", "use_megatron_lm")
_ELASTIC = ("multi_gpu_launcher", "deepspeed_launcher")
_ELASTIC_TYPES = SEVERAL_DEVICES | {"FSDP", "MEGATRON_LM", "DEEPSPEED"}


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


def plan(launch: Launch, config: Config, planned: WholePlan | None) -> Plan:
    """The path of the launch and its processes: of its plan, or without its configuration what the flags alone decide."""
    if launch.elided or (config.settings and planned is None):
        return Plan()
    given = config.settings or {}
    processes = launch.options.get("--num_processes") or given.get("num_processes")
    machines_setting = launch.options.get("--num_machines") or given.get("num_machines")
    machines = number(machines_setting)
    if machines_setting is None and config.settings is not None:
        machines = 1
    mode, kind = _mode(launch, config)
    machines_value = None
    if machines is not None and machines >= 1:
        machines_value = Value(machines, "machines of the launch", (machines_setting,) if machines_setting else ())
    count = number(processes)
    asked = None
    if count is not None and count >= 1 and machines_value is not None and processes is not None:
        asked = Value(count // machines_value.value, "num_processes", (processes,))
    if planned is None or machines_value is None or kind is None:
        return _of_flags(launch, mode, kind, asked, machines_value)
    basis = tuple(setting for setting in (mode, processes, machines_setting) if setting is not None)
    started = None
    if planned.starter == "python":
        started = Value(1, "accelerate starts one process without LOCAL_RANK", basis) if machines == 1 else None
        return Plan(path="simple", distributed_type=kind, processes=started, asked=asked, machines=machines_value)
    if planned.launcher not in _ELASTIC:
        return Plan(distributed_type=kind, asked=asked, machines=machines_value)
    if asked is not None and planned.nproc_per_node is not None and (planned.starter == "torchelastic" or machines == 1):
        started = Value(planned.nproc_per_node, "accelerate starts workers through torchelastic", basis)
    return Plan(path="elastic", distributed_type=kind, processes=started, asked=asked, machines=machines_value)


def _of_flags(launch: Launch, mode: Setting | None, kind: str | None, asked: Value | None, machines: Value | None) -> Plan:
    """What a command whose configuration is not at hand says all the same: a mode that stands in it."""
    flag = mode is not None and mode in launch.options.values()
    alone = machines is not None and machines.value == 1
    if not flag or machines is None:
        return Plan(distributed_type=kind, asked=asked, machines=machines)
    if kind == "NO":
        one = Value(1, "accelerate starts one process without LOCAL_RANK", (mode,)) if mode and alone else None
        return Plan(path="simple", distributed_type=kind, processes=one, asked=asked, machines=machines)
    started = None
    if asked is not None and (kind != "DEEPSPEED" or alone):
        basis = (mode,) if mode else ()
        started = Value(asked.value, "accelerate starts workers through torchelastic", (*basis, *asked.settings))
    return Plan(path="elastic", distributed_type=kind, processes=started, asked=asked, machines=machines)


def _mode(launch: Launch, config: Config) -> tuple[Setting | None, str | None]:
    """The setting that decides the mode, and the mode: one given as a flag drops that of the file."""
    if "--mpirun_hostfile" in launch.options:
        return None, None
    if "--cpu" in launch.options:
        return launch.options["--cpu"], "NO"
    flags = [name for name in _MODE_FLAGS if f"--{name}" in launch.options]
    if flags:
        # The order in which accelerate asks.
        first = next(((name, kind) for name, kind in _MODES if name in flags), None)
        return (launch.options[f"--{first[0]}"], first[1]) if first else (None, None)
    setting = (config.settings or {}).get("distributed_type")
    if setting is None:
        return None, None
    kind = type_name(setting)
    return setting, kind if kind in _ELASTIC_TYPES or kind in ("NO", "MULTI_CPU") else None
