"""What a script does to the devices and ranks, seen together with what the run shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.fact import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.engine.derive.scope import Scope
    from firstfault.model.fact import FactSet, Setting

PRODUCES = ("gpu.count_torch", "script.map_location", "script.rank_guard_collective", "script.visible_devices_line")

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_SHARDED = frozenset({"fsdp1", "fsdp2", "zero1", "zero2", "zero3"})
_SHARDING_FRAMES = ("torch/distributed/fsdp/", "torch/distributed/_composable/fsdp/", "deepspeed/runtime/zero/")


def derive(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """Devices that torch counts, a selection that came too late, a sharded save on one rank, where a state is loaded to."""
    counted = _counted(scope)
    if counted is not None:
        facts.add(counted)
        yield counted
    for fact in (_too_late(scope, facts), _save_on_one_rank(scope, facts), _map_location(scope)):
        if fact is not None:
            yield fact


def _counted(scope: Scope) -> Fact | None:
    found = [setting for setting in scope.settings() if (setting.family, setting.key) == ("printed", "device_count")]
    counts = {setting.value for setting in found}
    count = counts.pop() if len(counts) == 1 else None
    if not isinstance(count, int):
        return None
    return Fact(name="gpu.count_torch", value=count, origin="device_count in the log", spans=(found[0].span,))


def _too_late(scope: Scope, facts: FactSet) -> Fact | None:
    """A selection without effect: torch counts more devices than the script leaves visible."""
    counted = facts.get("gpu.count_torch")
    chosen = _one(scope, _VISIBLE)
    if counted is None or chosen is None or not isinstance(counted.value, int):
        return None
    ids = [part.strip() for part in str(chosen.value).split(",")]
    if not all(part.isdigit() for part in ids) or counted.value <= len(ids):
        return None
    origin = f"torch counts {counted.value} devices, the script leaves {len(ids)} visible"
    spans = (chosen.span, *counted.spans)
    return Fact(name="script.visible_devices_line", value="after_cuda", origin=origin, spans=spans, basis="derived")


def _save_on_one_rank(scope: Scope, facts: FactSet) -> Fact | None:
    """A save under a rank guard needs all ranks if the run shards the model."""
    save = _one(scope, "save_under_rank_guard")
    if save is None:
        return None
    strategy = facts.get("run.strategy")
    if strategy is not None and isinstance(strategy.value, tuple) and _SHARDED & set(strategy.value):
        shown = strategy.spans
    elif printed := [one for one in scope.settings() if (one.family, one.key) == ("printed", "sharded_save")]:
        shown = (printed[0].span,)
    else:
        frames = [frame for frame in scope.frames if any(path in frame.path for path in _SHARDING_FRAMES)]
        shown = (frames[0].span,) if frames else ()
    if not shown:
        return None
    origin = f"{save.value} of a sharded model under a guard that lets one rank through"
    return Fact(name="script.rank_guard_collective", value=True, origin=origin, spans=(save.span, *shown), basis="derived")


def _map_location(scope: Scope) -> Fact | None:
    """The call of torch.load that stands in the traceback."""
    for frame in scope.frames:
        if "torch.load(" in frame.code and "site-packages" not in frame.path and "dist-packages" not in frame.path:
            from firstfault.ingest.script_device import map_location
            from firstfault.ingest.script_tree import Script

            said = map_location(Script(frame.code))
            if said is not None:
                return Fact(name=said.name, value=said.value, origin="source line of a frame", spans=(frame.span,))
    return None


def _one(scope: Scope, key: str) -> Setting | None:
    """The setting of that key that a script makes, if there is one value only."""
    found = [setting for setting in scope.settings() if (setting.family, setting.key) == ("script", key)]
    return found[0] if len({setting.value for setting in found}) == 1 else None
