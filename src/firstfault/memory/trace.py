"""A step traced by the user's own torch and transformers: the program `traced` as a process of its interpreter."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import IO, Any

import msgspec

from firstfault.memory.plan import MemoryPlan

SECONDS = 600
MEMORY_BYTES = 8 << 30
_MOST_BYTES = 1 << 30
_LONGEST_LINE = 1 << 20
_START = """
import importlib.util, sys
sys.path[:] = [path for path in sys.path if path]
folder = sys.argv[1]
spec = importlib.util.spec_from_file_location("firstfault_traced", folder + "/__init__.py", submodule_search_locations=[folder])
sys.modules["firstfault_traced"] = package = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
from firstfault_traced import program
program.main()
"""
"""The folder of the working directory is taken off the path: nothing that lies there by chance is imported."""


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """What storages a step took and let go, in order: `("a", number, bytes, kind, module)`, `("f", number)`,
    `("k", number, kind)`, `("p", phase)`.

    `failure` says why there is none, or not all; `absent` names a package that the interpreter lacks. `answers` counts by
    place the questions about the content of a tensor, which were answered as for full batches.
    """

    events: list[list[Any]] = []
    failure: str | None = None
    absent: str | None = None
    parameters: int = 0
    trainable: int = 0
    operations: int = 0
    seconds: float = 0.0
    answers: dict[str, int] = {}
    notes: list[str] = []
    versions: dict[str, str] = {}


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One step to trace: on `meta`, or with real tensors on `cpu`; `kernel` forces one of attention."""

    plan: MemoryPlan
    device: str = "meta"
    kernel: str = ""
    memory_bytes: int | None = MEMORY_BYTES


def trace(plan: MemoryPlan, python: str, *, seconds: float = SECONDS) -> Trace:
    """The trace of one step; its `failure` says so where the interpreter does not answer within `seconds`."""
    return next(traces([Request(plan=plan)], python, seconds=seconds))


def traces(requests: Sequence[Request], python: str, *, seconds: float = SECONDS) -> Iterator[Trace]:
    """One trace a request, in their order, by one start of the interpreter."""
    import tempfile

    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "traced")  # noqa: PTH100,PTH118,PTH120
    sent = b"".join(msgspec.json.encode(request) + b"\n" for request in requests)
    with tempfile.TemporaryFile() as answered, tempfile.TemporaryFile() as told:
        why = _run([python, "-c", _START, folder], sent, answered, told, seconds)
        answered.seek(0)
        found = 0
        for found, one in enumerate(_read(answered), 1):  # noqa: B007
            yield one
            if one.absent:
                why = one.failure or ""
        for _ in range(found, len(requests)):
            yield Trace(failure=why or _last_line(told) or f"{python} does not answer")


def _run(command: list[str], sent: bytes, answered: IO[bytes], told: IO[bytes], seconds: float) -> str:
    """Runs the program to its end; why not, where it is not."""
    import signal
    import subprocess

    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=answered, stderr=told, start_new_session=True)
    except OSError as error:
        return f"{command[0]} cannot be started: {error.strerror or error}"
    try:
        process.communicate(sent, timeout=seconds)
    except subprocess.TimeoutExpired:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()
        return f"the traced step took longer than {seconds:g} s"
    return ""


def _read(file: IO[bytes]) -> Iterator[Trace]:
    events: list[list[Any]] = []
    decode = msgspec.json.Decoder().decode
    left = _MOST_BYTES
    while line := file.readline(_LONGEST_LINE):
        left -= len(line)
        try:
            one = decode(line)
        except msgspec.DecodeError:
            continue
        if isinstance(one, list) and left > 0:
            events.append(one)
        elif isinstance(one, dict) and isinstance(one.get("done"), dict):
            yield _done(one["done"], events)
            events = []


def _done(done: dict[str, Any], events: list[list[Any]]) -> Trace:
    try:
        return msgspec.convert({**done, "events": events}, Trace)
    except msgspec.ValidationError as error:
        return Trace(failure=f"an answer of the traced step is not understood: {error}")


def _last_line(told: IO[bytes]) -> str:
    told.seek(0, os.SEEK_END)
    told.seek(max(0, told.tell() - 4096))
    lines = told.read().decode("utf-8", "replace").split("\n")
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")
