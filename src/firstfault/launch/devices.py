"""How many GPUs a started process can see."""

from __future__ import annotations

from collections.abc import Mapping

from firstfault.launch.view import Launch, Value, number
from firstfault.launch.visible import visible_devices
from firstfault.model.fact import Setting

GRANTED = "GPUs that Slurm grants a node"


def visible_gpus(launch: Launch | None, environment: Mapping[str, Setting], config: Mapping[str, Setting]) -> Value | None:
    """GPUs visible to a process; None if neither the command, the variables, Slurm nor a listing of the machine says it."""
    options = launch.options if launch else {}
    counted = environment.get("gpu.count")
    present = number(counted)
    if launch is not None and "--virtual_local_rank" in options:
        return Value(1, "--virtual_local_rank gives each worker one GPU", (options["--virtual_local_rank"],))
    ids = options.get("--gpu_ids") or config.get("gpu_ids")
    if launch is not None and launch.name == "accelerate" and ids is not None and ids.value not in (None, "all", ""):
        return _of_ids(ids, present, "gpu_ids replaces CUDA_VISIBLE_DEVICES")
    selected = environment.get("CUDA_VISIBLE_DEVICES")
    if selected is not None and "$" not in str(selected.value):
        return _of_ids(selected, present, "CUDA_VISIBLE_DEVICES")
    if launch is not None:
        granted = _granted(launch)
        if granted is not None:
            return granted
    if counted is not None and present is not None:
        return Value(present, "GPUs of the machine, no CUDA_VISIBLE_DEVICES given", (counted,))
    return None


def _of_ids(setting: Setting, present: int | None, rule: str) -> Value | None:
    """Devices of a list of ids as CUDA reads it; None while a variable in it is not known."""
    visible = visible_devices(str(setting.value if setting.value is not None else ""), present)
    return None if visible is None else Value(len(visible), rule, (setting,))


def _granted(launch: Launch) -> Value | None:
    """GPUs that Slurm grants a node, where all of them are visible to each task."""
    if any(key in launch.batch or f"srun {key}" in launch.options for key in ("--gpus-per-task", "--gpu-bind")):
        return None
    for key in ("--gpus-per-node", "--gres"):
        setting = launch.batch.get(key)
        if setting is None:
            continue
        parts = str(setting.value).split(",")[0].split(":")
        if key == "--gres" and parts[0] != "gpu":
            continue
        if parts[-1].isdecimal() and len(parts[-1]) < 10:
            return Value(int(parts[-1]), GRANTED, (setting,))
        if parts == ["gpu"]:
            return Value(1, GRANTED, (setting,))
    return None
