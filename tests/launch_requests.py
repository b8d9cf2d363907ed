"""Requests for tests, from a command line as it is typed."""

from __future__ import annotations

import shlex
from typing import Any

from firstfault.launch.plan import plan_known
from firstfault.launch.request import Machine, Request
from firstfault.launch.values import Given
from firstfault.model.plan import Plan, Rank0


def request(line: str, *, gpus: int | None = 4, files: dict[str, str] | None = None, **machine: Any) -> Request:
    """The request of `VAR=1 command ...` on a machine of so many GPUs, with these files at hand."""
    words = shlex.split(line)
    environment = {}
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        environment[name] = Given(value, "variable", name)
    versions = machine.pop("versions", {"accelerate": "1.15.0", "torch": "2.13.0"})
    return Request(
        words=tuple(words),
        environment=environment,
        machine=Machine(gpus=gpus, **{"cpus": 8, **machine}),
        versions=versions,
        read=(files or {}).get,
    )


def plan_of(line: str, **known: Any) -> Plan:
    """The plan of the command line."""
    return plan_known(request(line, **known))


def rank0(line: str, **known: Any) -> Rank0:
    """What the first process decides."""
    found = plan_of(line, **known).rank0
    assert found is not None
    return found
