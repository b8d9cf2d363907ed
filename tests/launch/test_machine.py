from __future__ import annotations

import pytest

from firstfault.launch.machine import PRODUCES, machine_facts
from firstfault.model.fact import Setting
from firstfault.model.span import SourceSpan


def setting(family: str, key: str, value: str | int) -> Setting:
    return Setting(family=family, key=key, value=value, span=SourceSpan("env.txt", 1, 0), text="")


def values(*settings: Setting) -> dict[str, object]:
    found = machine_facts(settings)
    assert {fact.name for fact in found} <= set(PRODUCES)
    return {fact.name: fact.value for fact in found}


def test_the_smallest_memory_counts() -> None:
    both = (setting("environment", "host.ram_bytes", 9), setting("environment", "host.ram_bytes", 5))
    assert values(*both) == {"host.ram_bytes": 5}


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("2.5.1+cu121", {"lib.torch_has_cuda": True}),
        ("2.5.1+cpu", {"lib.torch_has_cuda": False}),
        ("2.5.1", {}),
        ("2.5.1+rocm6", {}),
    ],
)
def test_the_build_of_torch(version: str, expected: dict[str, object]) -> None:
    assert values(setting("package", "torch", version)) == expected


def test_builds_that_differ_decide_nothing() -> None:
    assert values(setting("package", "torch", "2.5+cpu"), setting("package", "torch", "2.5+cu121")) == {}


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ((64,), {"host.memlock_limited": True}),
        (("unlimited",), {"host.memlock_limited": False}),
        ((64, "unlimited"), {}),
        ((), {}),
    ],
)
def test_limit_of_locked_memory(limits: tuple[str | int, ...], expected: dict[str, object]) -> None:
    assert values(*(setting("environment", "limit.locked_memory", one) for one in limits)) == expected


REASONS = ("sw_power_cap", "hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")


@pytest.mark.parametrize(
    ("active", "shown", "expected"),
    [
        (("hw_slowdown", "hw_thermal_slowdown"), REASONS, {"gpu.throttle": "thermal"}),
        (("hw_slowdown",), REASONS, {"gpu.throttle": "hw_slowdown"}),
        (("hw_slowdown", "hw_power_brake_slowdown"), REASONS, {"gpu.throttle": "power"}),
        ((), REASONS, {"gpu.throttle": "none"}),
        ((), REASONS[:3], {}),
        ((), (), {}),
    ],
)
def test_reason_of_a_slowdown(active: tuple[str, ...], shown: tuple[str, ...], expected: dict[str, object]) -> None:
    assert values(*(setting("environment", f"gpu.slowdown.{one}", one in active) for one in shown)) == expected


@pytest.mark.parametrize(
    ("used", "on", "expected"),
    [
        ((30, 10, 11), (0, 1, 2), {"memory.gpu0_excess": True}),
        ((12, 10, 11), (0, 1, 2), {"memory.gpu0_excess": False}),
        ((30, 10, 11), (0, 1), {}),
        ((30,), (0,), {}),
    ],
)
def test_gpu_0_holds_more_than_the_others(used: tuple[int, ...], on: tuple[int, ...], expected: dict[str, object]) -> None:
    memory = [setting("environment", f"gpu.{index}.memory_used_bytes", size) for index, size in enumerate(used)]
    processes = [setting("environment", f"gpu.{index}.process.77", 5) for index in on]
    assert values(*memory, *processes) == expected
