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
