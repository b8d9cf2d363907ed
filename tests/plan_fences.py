"""Plan fences of entries: the command, the machine that its first line names, and the files beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from firstfault.launch.request import Machine, Request
from firstfault.launch.script import launch_of, read_script
from firstfault.launch.values import Given

_GPUS = re.compile(r"\b(\d+) GPUs?\b")
_PAIR = re.compile(r"\b(accelerate|torch|transformers|deepspeed) (\d[\w.]*)")
_PORT = re.compile(r"\bport (\d+)")
_FILE = re.compile(r"\bfile (\S+) with (.+)")
_CARD = re.compile(r"\bcard ([^,]+), driver ([\d.]+)")


def request_of(text: str, files: Mapping[str, str]) -> Request:
    """The request of a fence: `# 4 GPUs, accelerate 1.15.0` and below it a command with the variables before it."""
    first, _, command = text.partition("\n")
    files = {**files, **{path: f"{line}\n" for path, line in _FILE.findall(first)}}
    assert first.startswith("#"), "the first line names the machine: # 4 GPUs, accelerate 1.15.0"
    gpus, card = _GPUS.search(first), _CARD.search(first)
    found = launch_of(read_script(command, name="", read=files.get))
    assert found is not None, "no launch command"
    return Request(
        words=found.words,
        environment={name: Given(given.value, given.source, name) for name, given in found.environment.items()},
        machine=Machine(
            gpus=int(gpus[1]) if gpus else None,
            gpu_name=card[1] if card else None,
            driver=card[2] if card else None,
            cpus=8,
            ports_in_use=frozenset(int(port) for port in _PORT.findall(first)),
        ),
        versions=dict(_PAIR.findall(first)),
        read=files.get,
        home="/home/user",
    )
