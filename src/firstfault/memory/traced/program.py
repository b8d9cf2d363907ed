"""The program: requests as lines of JSON on standard input, the events of each and a line `done` on standard output."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import warnings
from typing import Any

_LOCAL = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "TRANSFORMERS_VERBOSITY": "error"}

_SLOW = ("torch._dynamo", "transformers.modeling_utils", "transformers.models.auto.modeling_auto")
"""Half of the time of a trace goes into these imports: once for all requests."""


def main() -> None:
    """Answers every request; each in a process of its own where there is fork, so that an abort of torch ends only it."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # Whatever libraries print goes elsewhere.
    os.dup2(2, 1)
    os.environ.update(_LOCAL)
    warnings.simplefilter("ignore")
    try:
        for name in _SLOW:
            importlib.import_module(name)
    except ImportError as error:
        missing = getattr(error, "name", None) or str(error)
        _finish(out, {"failure": f"{type(error).__name__}: {str(error)[:300]}", "absent": missing})
        return
    for line in sys.stdin:
        request = json.loads(line)
        if not hasattr(os, "fork"):
            _answer(request, out)
            continue
        process = os.fork()
        if not process:
            _answer(request, out)
            # Tearing down half a million small objects takes longer than the trace.
            os._exit(0)
        _, status = os.waitpid(process, 0)
        if status:
            _finish(out, {"failure": f"the traced step ended with wait status {status}"})


def _answer(request: dict[str, Any], out: Any) -> None:
    started = time.perf_counter()
    _limit(request.get("memory_bytes"))
    import torch
    import transformers

    from .step import Step

    step = None
    failure = None
    try:
        step = Step(request["plan"], request["device"], request.get("kernel", ""))
        step.run()
    except Exception as error:
        place = f" (in {step.tracker.phase}, {step.tracker.modules[-1] or 'the model'})" if step is not None else ""
        failure = f"{type(error).__name__}: {str(error)[:500]}{place}"
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    done: dict[str, Any] = {"failure": failure, "versions": versions}
    if step is not None:
        for event in list(step.tracker.events):
            out.write(json.dumps(event, separators=(",", ":")) + "\n")
        done.update(
            operations=step.tracker.operations,
            parameters=step.parameters_of_base,
            trainable=sum(one.numel() for one in step.parameters),
            answers=step.tracker.answers,
            notes=step.notes,
            seconds=round(time.perf_counter() - started, 3),
        )
    _finish(out, done)


def _finish(out: Any, done: dict[str, Any]) -> None:
    out.write(json.dumps({"done": done}) + "\n")
    out.flush()


def _limit(memory_bytes: Any) -> None:
    """At most so many bytes of data for this process, where the system knows such a limit."""
    if not memory_bytes:
        return
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (int(memory_bytes), int(memory_bytes)))
    except (ImportError, ValueError, OSError):
        return
