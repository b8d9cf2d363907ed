"""Run by the interpreter that has torch: what the real torchrun would start for each case, the start itself intercepted.

Reads cases as JSON lines on stdin (`argv`, `env`, `gpus`, `module`), writes one JSON line a case. Only the standard library
and torch are needed; the GPU count is pretended.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import sys
import tempfile
from typing import Any

import torch
import torch.distributed.run as run
from torch.distributed.launcher.api import LaunchConfig

KEPT = (
    "local_addr", "max_nodes", "max_restarts", "min_nodes", "monitor_interval", "nproc_per_node", "rdzv_backend",
    "rdzv_configs", "rdzv_endpoint", "role", "run_id", "start_method", "virtual_local_rank",
)  # fmt: skip
CPUS = 8


class Spawned(Exception):
    """The start, instead of running it."""


class Elastic:
    """Stands for torch's `elastic_launch`."""

    def __init__(self, config: LaunchConfig, entrypoint: Any, **_: Any) -> None:
        self.config, self.entrypoint = config, entrypoint

    def __call__(self, *words: Any) -> None:
        name = self.entrypoint if isinstance(self.entrypoint, str) else self.entrypoint.__name__
        raise Spawned({name: getattr(self.config, name) for name in KEPT}, name, [str(word) for word in words])


class Kept(logging.Handler):
    """Warnings that were logged."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(f"{record.name}: {record.getMessage()}")


def observe(case: dict[str, Any]) -> dict[str, Any]:
    """What the real code did."""
    before = dict(os.environ)
    clean = {name: value for name, value in before.items() if not name.startswith(("PET_", "OMP_", "CUDA_", "PYTHON_EXEC"))}
    os.environ.clear()
    os.environ.update({**clean, **case["env"]})
    # torch itself reads CUDA_VISIBLE_DEVICES; only the number of cards is pretended.
    torch.cuda._raw_device_count_nvml = lambda: case["gpus"]
    count = max(torch.cuda._device_count_nvml(), 0) if case["gpus"] else 0
    torch.cuda.is_available = lambda: count > 0
    torch.cuda.device_count = lambda: count
    torch.accelerator.is_available = lambda: count > 0
    torch.accelerator.device_count = lambda: count
    torch.accelerator.current_accelerator = lambda *_, **__: torch.device("cuda")
    torch._utils.cpu_count = lambda: CPUS
    kept = Kept()
    run.logger.addHandler(kept)
    printed = io.StringIO()
    found: dict[str, Any] = {"error": None}
    try:
        with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(printed), tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            _main(case)
    except Spawned as spawned:
        found["config"], found["entrypoint"], found["argv"] = spawned.args
    except SystemExit as error:
        lines = [line for line in printed.getvalue().splitlines() if ": error: " in line]
        message = lines[-1].partition(": error: ")[2] if lines else ""
        found["error"] = {"type": "SystemExit", "message": message, "code": error.code}
    except BaseException as error:
        found["error"] = {"type": type(error).__name__, "message": str(error)}
    finally:
        os.chdir("/")
        run.logger.removeHandler(kept)
        threads = os.environ.get("OMP_NUM_THREADS")
        found["threads"] = threads if threads != case["env"].get("OMP_NUM_THREADS") else None
        os.environ.clear()
        os.environ.update(before)
    found["log"] = kept.texts
    return found


def _main(case: dict[str, Any]) -> None:
    if case["module"] == "torch.distributed.launch":
        import torch.distributed.launch as launch

        launch.launch(launch.parse_args(case["argv"]))
    else:
        run.run(run.parse_args(case["argv"]))


if __name__ == "__main__":
    run.elastic_launch = Elastic
    run.torch.multiprocessing._set_thread_name = lambda _: None
    for line in sys.stdin:
        print(json.dumps(observe(json.loads(line))), flush=True)
