"""How the model is spread and what is kept on the CPU, as configurations state it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from firstfault.launch.accelerate import Config, Plan
from firstfault.launch.view import Launch, Value, basename, number
from firstfault.model.fact import Fact, FactValue, Setting

_OFF = (None, False, "none", "None", "")


def strategy_facts(
    launch: Launch | None, plan: Plan, config: Config, visible: Value | None, settings: Sequence[Setting]
) -> Iterator[Fact]:
    """run.strategy, run.zero_stage and host.offload; a script may still decide otherwise, so a bare `torchrun` says nothing."""
    given = config.settings or {}
    options = launch.options if launch else {}
    deepspeed = _deepspeed_file(launch, plan, given, settings)
    if plan.distributed_type == "FSDP":
        yield from _fsdp(given, options)
    elif plan.distributed_type == "DEEPSPEED" or deepspeed:
        yield from _deepspeed(deepspeed, given, options)
    elif plan.processes is None:
        return
    elif plan.path == "elastic" and plan.distributed_type == "MULTI_GPU" and plan.processes.value > 1:
        yield _fact("run.strategy", ("ddp",), "MULTI_GPU with several processes", plan.processes.settings)
    elif plan.path == "simple" and plan.distributed_type == "NO" and visible is not None and visible.value == 1:
        basis = (*plan.processes.settings, *visible.settings)
        yield _fact("run.strategy", ("single",), "one process with one GPU", basis)


def _fsdp(given: Mapping[str, Setting], options: Mapping[str, Setting]) -> Iterator[Fact]:
    version = options.get("--fsdp_version") or given.get("fsdp_config.fsdp_version") or given.get("fsdp_config.version")
    mode = options.get("--use_fsdp") or given.get("distributed_type")
    basis = tuple(setting for setting in (version, mode) if setting is not None)
    if version is None or number(version) in (1, 2):
        yield _fact("run.strategy", (f"fsdp{number(version) or 1}",), "fsdp_version, 1 by default", basis)
    offload = options.get("--fsdp_offload_params") or given.get("fsdp_config.fsdp_offload_params")
    offload = offload or given.get("fsdp_config.offload_params")
    if offload is not None:
        on = str(offload.value).lower() == "true"
        yield _fact("host.offload", "both" if on else "none", "fsdp_offload_params", (offload,))


def _deepspeed_file(
    launch: Launch | None, plan: Plan, given: Mapping[str, Setting], settings: Sequence[Setting]
) -> dict[str, Setting]:
    """Settings of the DeepSpeed file that the launch uses: the one it names, or the only one where DeepSpeed is in use."""
    files: dict[str, dict[str, Setting]] = {}
    for setting in settings:
        if setting.family == "deepspeed":
            files.setdefault(setting.span.source, {})[setting.key] = setting
    options = launch.options if launch else {}
    arguments = launch.arguments if launch else {}
    names = [
        options.get("--deepspeed_config_file"),
        given.get("deepspeed_config.deepspeed_config_file"),
        arguments.get("deepspeed"),
        arguments.get("deepspeed_config"),
    ]
    for name in names:
        for path, found in files.items():
            if name is not None and basename(name.value) == basename(path):
                return found
    in_use = plan.distributed_type == "DEEPSPEED" or (launch is not None and launch.name == "deepspeed") or launch is None
    named = any(name is not None and name.value not in (True, None) for name in names)
    return next(iter(files.values())) if in_use and len(files) == 1 and not named else {}


def _deepspeed(file: Mapping[str, Setting], given: Mapping[str, Setting], options: Mapping[str, Setting]) -> Iterator[Fact]:
    """The JSON decides if there is one; accelerate's own keys only without it."""
    stage = file.get("zero_optimization.stage")
    if not file and "deepspeed_config.deepspeed_config_file" not in given and "--deepspeed_config_file" not in options:
        stage = options.get("--zero_stage") or given.get("deepspeed_config.zero_stage")
    level = number(stage)
    if stage is not None and level is not None and 0 <= level <= 3:
        yield _fact("run.zero_stage", level, "zero_optimization.stage", (stage,))
        yield _fact("run.strategy", (f"zero{level}" if level else "ddp",), "zero_optimization.stage", (stage,))
    if file:
        optimizer, parameters = (
            file.get("zero_optimization.offload_optimizer.device"),
            file.get("zero_optimization.offload_param.device"),
        )
    else:
        optimizer = options.get("--offload_optimizer_device") or given.get("deepspeed_config.offload_optimizer_device")
        parameters = options.get("--offload_param_device") or given.get("deepspeed_config.offload_param_device")
    on = [name for name, setting in (("optimizer", optimizer), ("param", parameters)) if setting and setting.value not in _OFF]
    basis = tuple(setting for setting in (optimizer, parameters, stage) if setting is not None)
    if on:
        yield _fact("host.offload", "both" if len(on) == 2 else on[0], "offload of ZeRO", basis)
    elif basis and (file or (optimizer is not None and parameters is not None)):
        yield _fact("host.offload", "none", "no offload in the DeepSpeed configuration", basis)


def _fact(name: str, value: FactValue, origin: str, settings: Sequence[Setting]) -> Fact:
    spans = tuple(dict.fromkeys(setting.span for setting in settings))
    return Fact(name=name, value=value, origin=origin, spans=spans, basis="derived")
