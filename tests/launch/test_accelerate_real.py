"""`plan` against the installed accelerate: its decisions with the spawn intercepted, and launches that really start."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from firstfault.launch.plan import plan_known
from firstfault.launch.request import Machine, Request
from firstfault.launch.values import Given

BENCH = Path(__file__).parents[2] / "bench"
SEED = int(os.environ.get("FIRSTFAULT_LAUNCH_SEED", "11"))
CASES = int(os.environ.get("FIRSTFAULT_LAUNCH_CASES", "64"))
PRETENDED = """\
import importlib.abc, importlib.util, os, sys
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "torch.cuda":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        real = spec.loader.exec_module
        def exec_module(module):
            real(module)
            module._raw_device_count_nvml = lambda: int(os.environ["PRETENDED_GPUS"])
            module.device_count = lambda: max(module._device_count_nvml(), 0)
            module.is_available = lambda: module.device_count() > 0
        spec.loader.exec_module = exec_module
        return spec
sys.meta_path.insert(0, Finder())
"""
# In one write: workers share the pipe, and `print` may write the end of its line apart.
SHOWN = "import json, os, sys; os.write(1, ('SEEN ' + json.dumps([dict(os.environ), sys.argv]) + chr(10)).encode())"


@pytest.fixture(scope="module")
def interpreter() -> str:
    """An interpreter with torch and accelerate; without one the comparison cannot be made here."""
    named = os.environ.get("FIRSTFAULT_TORCH_PYTHON")
    if named is not None:
        return named
    if importlib.util.find_spec("accelerate") is None:
        pytest.skip("accelerate is not installed, and FIRSTFAULT_TORCH_PYTHON names no interpreter that has it")
    return sys.executable


@pytest.fixture(scope="module")
def bench(monkeypatch_module: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch_module.syspath_prepend(str(BENCH))
    import launch_random

    return launch_random


@pytest.fixture(scope="module")
def monkeypatch_module() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def test_random_launches_are_planned_as_accelerate_takes_them(interpreter: str, bench: ModuleType) -> None:
    wrong = bench.compare(SEED, CASES, interpreter)
    assert not wrong, f"{len(wrong)} of {CASES}: {wrong[:3]}"


LAUNCHES: tuple[tuple[str, int, dict[str, Any] | None, dict[str, str]], ...] = (
    ("", 0, {"distributed_type": "NO", "num_processes": 1, "dynamo_config": {"dynamo_backend": "INDUCTOR"}}, {}),
    ("", 4, {"distributed_type": "NO", "num_processes": 4}, {}),
    ("--num_processes 1", 4, None, {}),
    ("", 2, None, {}),
    ("--multi_gpu --num_processes 2 --main_process_port 0", 0, None, {"RANK": "7", "WORLD_SIZE": "8"}),
    ("", 4, {"distributed_type": "MULTI_GPU", "num_processes": 2, "gpu_ids": "1,0", "mixed_precision": "fp16"}, {}),
    ("--use_fsdp --num_processes 2 --fsdp_offload_params true", 2, None, {"OMP_NUM_THREADS": "3"}),
    ("--cpu --num_processes 2", 2, None, {"CUDA_VISIBLE_DEVICES": "0"}),
)


@pytest.mark.parametrize(("options", "gpus", "config", "variables"), LAUNCHES)
def test_launches_that_really_start_match_the_plan(
    interpreter: str, tmp_path: Path, options: str, gpus: int, config: dict[str, Any] | None, variables: dict[str, str]
) -> None:
    (tmp_path / "sitecustomize.py").write_text(PRETENDED)
    (tmp_path / "shown.py").write_text(SHOWN)
    words = [*options.split(), "shown.py", "--lr", "1"]
    files = {}
    if config is not None:
        files["config.yaml"] = yaml.safe_dump(config)
        (tmp_path / "config.yaml").write_text(files["config.yaml"])
        words = ["--config_file", "config.yaml", *words]
    if not any(word == "--main_process_port" for word in words):
        words = ["--main_process_port", "0", *words]
    caller = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": str(tmp_path),
        "PRETENDED_GPUS": str(gpus),
        **variables,
    }
    done = subprocess.run(
        [interpreter, "-m", "accelerate.commands.accelerate_cli", "launch", *words],
        cwd=tmp_path, env=caller, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    seen = [json.loads(line.partition("SEEN ")[2]) for line in done.stdout.splitlines() if line.startswith("SEEN ")]
    request = Request(
        words=("accelerate", "launch", *words),
        environment={name: Given(value, "variable", name) for name, value in caller.items()},
        machine=Machine(gpus=gpus, cores=_cores(interpreter)),
        versions={"accelerate": "1.15.0"},
        read=files.get,
        home=str(tmp_path),
        directory=str(tmp_path),
    )
    plan = plan_known(request)
    assert len(seen) == plan.nproc_per_node == len(plan.processes)
    ranks = {process.env.get("RANK"): {**caller, **plan.env_set, **process.env} for process in plan.processes}
    for environment, argv in seen:
        expected = ranks[environment.get("RANK") if plan.starter == "torchelastic" else None]
        assert argv[1:] == ["--lr", "1"]
        for name, value in expected.items():
            assert _agrees(value, environment.get(name)), (name, value, environment.get(name))
        assert not {name for name in environment if name.startswith(("ACCELERATE_", "FSDP_"))} - set(expected)


def _agrees(planned: str, seen: str | None) -> bool:
    if planned in ("*", "<uuid>"):
        return seen is not None
    return planned == seen


def _cores(interpreter: str) -> int:
    asked = subprocess.run(
        [interpreter, "-c", "import psutil; print(psutil.cpu_count(logical=False))"], capture_output=True, text=True, check=True
    )
    return int(asked.stdout)
