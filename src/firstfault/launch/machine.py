"""Facts of the machine and the software on it that a listing states outright."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Fact, Setting

PRODUCES = ("gpu.throttle", "host.memlock_limited", "host.ram_bytes", "lib.torch_has_cuda", "memory.gpu0_excess")

_SLOWDOWN = "gpu.slowdown."
# What heat does shows as the general reason too: the first that is active is the most exact.
_REASONS = {
    "hw_thermal_slowdown": "thermal",
    "sw_thermal_slowdown": "thermal",
    "hw_power_brake_slowdown": "power",
    "hw_slowdown": "hw_slowdown",
    "sw_power_cap": "power",
}
_USED = lazy_pattern(r"gpu\.(\d+)\.memory_used_bytes\Z")
_PROCESS = lazy_pattern(r"gpu\.(\d+)\.process\.(\d+)\Z")
_EXCESS = 1.3


def machine_facts(settings: Sequence[Setting]) -> tuple[Fact, ...]:
    """Memory of the host (the smallest that is stated), the build of torch, and the limits and loads that listings show."""
    facts: list[Fact] = []
    sizes = [
        (setting.value, setting)
        for setting in settings
        if setting.family == "environment" and setting.key == "host.ram_bytes" and isinstance(setting.value, int)
    ]
    if sizes:
        size, setting = min(sizes, key=lambda pair: pair[0])
        facts.append(Fact(name="host.ram_bytes", value=size, origin="memory of the host", spans=(setting.span,)))
    builds = [setting for setting in settings if setting.family == "package" and setting.key == "torch"]
    kinds = {_build_kind(str(setting.value)) for setting in builds}
    if kinds in ({"cpu"}, {"cuda"}):
        facts.append(
            Fact(
                name="lib.torch_has_cuda",
                value=kinds == {"cuda"},
                origin="version of torch",
                spans=tuple(setting.span for setting in builds),
            )
        )
    facts.extend(fact for fact in (_locked_memory(settings), _throttle(settings), *_gpu0_excess(settings)) if fact)
    return tuple(facts)


def _locked_memory(settings: Sequence[Setting]) -> Fact | None:
    found = [setting for setting in settings if (setting.family, setting.key) == ("environment", "limit.locked_memory")]
    kinds = {setting.value != "unlimited" for setting in found}
    if len(kinds) != 1:
        return None
    spans = tuple(setting.span for setting in found[:3])
    return Fact(name="host.memlock_limited", value=kinds.pop(), origin="limit of locked memory", spans=spans)


def _throttle(settings: Sequence[Setting]) -> Fact | None:
    """The most exact reason that is active on any GPU; none only where every reason was listed."""
    shown = [setting for setting in settings if setting.family == "environment" and setting.key.startswith(_SLOWDOWN)]
    for reason, value in _REASONS.items():
        active = next((one for one in shown if one.key == _SLOWDOWN + reason and one.value is True), None)
        if active is not None:
            return Fact(name="gpu.throttle", value=value, origin=reason.replace("_", " "), spans=(active.span,))
    if {setting.key.removeprefix(_SLOWDOWN) for setting in shown} < set(_REASONS):
        return None
    return Fact(name="gpu.throttle", value="none", origin="no reason is active", spans=(shown[0].span,))


def _gpu0_excess(settings: Sequence[Setting]) -> Iterator[Fact]:
    """Whether GPU 0 holds clearly more than the others, and one process works on all of them."""
    used: dict[int, Setting] = {}
    devices: dict[str, set[int]] = {}
    for setting in settings:
        if setting.family != "environment":
            continue
        if (gpu := _USED.match(setting.key)) and isinstance(setting.value, int):
            used[int(gpu[1])] = setting
        elif process := _PROCESS.match(setting.key):
            devices.setdefault(process[2], set()).add(int(process[1]))
    first, others = used.get(0), [int(str(one.value)) for index, one in used.items() if index]
    if first is None or not others:
        return
    spans = (first.span, *(one.span for index, one in used.items() if index))[:3]
    if int(str(first.value)) <= _EXCESS * _median(others):
        yield Fact(name="memory.gpu0_excess", value=False, origin="memory in use on each GPU", spans=spans, basis="derived")
    elif any(found == set(used) for found in devices.values()):
        origin = "memory in use on each GPU, and one process on all of them"
        yield Fact(name="memory.gpu0_excess", value=True, origin=origin, spans=spans, basis="derived")


def _build_kind(version: str) -> str:
    """`cuda` for `2.5.1+cu121`, `cpu` for `2.5.1+cpu`; a version without such a part may be either."""
    local = version.partition("+")[2]
    if local.startswith("cpu"):
        return "cpu"
    return "cuda" if local.startswith("cu") else ""


def _median(values: Sequence[int]) -> float:
    """The middle value; importing `statistics` for it would cost as much as a reader."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return float(ordered[half]) if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
