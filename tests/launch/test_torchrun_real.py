"""`plan` against the real torchrun: random command lines and variables, both sides compared."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from firstfault.launch.plan import plan_known
from firstfault.launch.request import Machine, Request
from firstfault.launch.values import Given
from firstfault.model.plan import Plan

CASES = int(os.environ.get("FIRSTFAULT_LAUNCH_CASES", "120"))
SEED = int(os.environ.get("FIRSTFAULT_LAUNCH_SEED", "5"))
CPUS = 8

FLAGS: dict[str, tuple[str, ...]] = {
    "--nproc_per_node": ("1", "2", "0", "-1", "gpu", "cpu", "auto", "xpu", "all", "4 ", "1e3"),
    "--nproc-per-node": ("3", "gpu"),
    "--nproc": ("2", "auto"),
    "--nnodes": ("1", "2", "1:4", "2:1", "0", "x", "1:2:3", "", "2:2"),
    "--node_rank": ("0", "1", "x"),
    "--rdzv_backend": ("c10d", "static", "etcd"),
    "--rdzv_endpoint": ("10.0.0.1:29400", "localhost:0", "host", ""),
    "--rdzv_id": ("7", "job"),
    "--rdzv_conf": ("timeout=5", "timeout", "a=1,b=2", "=1", " ", "a=b=c,"),
    "--master_addr": ("10.0.0.1", "[::1]"),
    "--master_port": ("29501", "0", "x"),
    "--master": ("1",),
    "--max_restarts": ("3", "-1", "x"),
    "--max-r": ("2",),
    "--monitor_interval": ("1", "0.5", "x"),
    "--start_method": ("fork", "thread"),
    "--role": ("trainer",),
    "--redirects": ("3", "0:1,1:2", "4", "x"),
    "-r": ("1",),
    "--tee": ("3", "9"),
    "-t": ("0:3",),
    "--log_dir": ("logs",),
    "--local_ranks_filter": ("0", "0,1", "a", "0,"),
    "--local_addr": ("10.0.0.2",),
    "--numa_binding": ("node", "bad"),
    "--signals_to_handle": ("SIGTERM",),
    "--shutdown_timeout": ("5", "-2", "x"),
    "--logs_specs": ("none_such",),
    "--event_log_handler": ("console",),
    "--duplicate_stdout_filters": ("a", "a,,b,c"),
    "--duplicate-stderr-filters": ("x",),
    "--nnodes=": ("1",),
    "--nproc_per_node ": ("2",),
}
SWITCHES = (
    "--standalone", "-m", "--module", "--no_python", "--no-python", "--run_path", "--virtual_local_rank", "--virtual", "--nope",
)  # fmt: skip
VARIABLES: dict[str, tuple[str, ...]] = {
    "PET_NPROC_PER_NODE": ("2", "gpu", "zero"),
    "PET_NNODES": ("2", "1:2"),
    "PET_NODE_RANK": ("1", "x"),
    "PET_MASTER_ADDR": ("10.0.0.3",),
    "PET_MASTER_PORT": ("23456", ""),
    "PET_STANDALONE": ("1", "0", "true", ""),
    "PET_RDZV_BACKEND": ("c10d",),
    "PET_RDZV_ENDPOINT": ("10.0.0.9:1",),
    "PET_RDZV_ID": ("a",),
    "PET_MAX_RESTARTS": ("2", "two"),
    "PET_REDIRECTS": ("3",),
    "PET_VIRTUAL_LOCAL_RANK": ("1",),
    "PET_NO_PYTHON": ("1",),
    "PET_USE_ENV": ("1",),
    "PET_MODULE": ("1", "x"),
    "PET_RUN_PATH": ("1",),
    "PET_RDZV_CONF": ("timeout=5", "bad"),
    "PET_MONITOR_INTERVAL": ("1", "x"),
    "PET_START_METHOD": ("fork", "thread"),
    "PET_ROLE": ("r",),
    "PET_LOG_DIR": ("logs",),
    "PET_TEE": ("3", "9"),
    "PET_LOCAL_ADDR": ("10.0.0.3",),
    "PET_LOCAL_RANKS_FILTER": ("0,1", "a"),
    "PET_EVENT_LOG_HANDLER": ("console",),
    "PET_SIGNALS_TO_HANDLE": ("SIGTERM",),
    "PET_SHUTDOWN_TIMEOUT": ("5", "-1", "x"),
    "PET_NUMA_BINDING": ("node",),
    "PET_DUPLICATE_STDOUT_FILTERS": ("a,b",),
    "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": ("9", "-1", "x"),
    "CUDA_VISIBLE_DEVICES": ("", "0", "0,1", "9", "-1", "1,1"),
    "NPROC_PER_NODE": ("3",),
    "OMP_NUM_THREADS": ("4",),
    "PYTHON_EXEC": ("/opt/python",),
    "MASTER_ADDR": ("10.1.1.1",),
    "WORLD_SIZE": ("8",),
    "LOCAL_RANK": ("1",),
}
MODULES = ("torch.distributed.run", "torch.distributed.run", "torch.distributed.run", "torch.distributed.launch")


def _case(chance: random.Random) -> dict[str, Any]:
    argv: list[str] = []
    for name in chance.sample(sorted(FLAGS), chance.choice((0, 1, 1, 2, 2, 3, 4))):
        value = chance.choice(FLAGS[name])
        argv += [f"{name}={value}"] if chance.random() < 0.3 and name.startswith("--") else [name, value]
    argv += chance.sample(SWITCHES, chance.choice((0, 0, 0, 0, 1, 1, 2)))
    module = chance.choice(MODULES)
    if module.endswith("launch") and chance.random() < 0.4:
        argv.append("--use_env")
    if chance.random() < 0.95:
        argv += ["train.py", *chance.choice(((), ("--lr", "1"), ("--nproc_per_node", "9")))]
    names = chance.sample(sorted(VARIABLES), chance.choice((0, 0, 0, 1, 2)))
    env = {name: chance.choice(VARIABLES[name]) for name in names}
    return {"argv": argv, "env": env, "gpus": chance.choice((0, 1, 4)), "module": module}


def _planned(case: dict[str, Any]) -> dict[str, Any]:
    request = Request(
        words=("python", "-m", case["module"], *case["argv"]),
        environment={name: Given(value, "variable", name) for name, value in case["env"].items()},
        machine=Machine(gpus=case["gpus"], cpus=CPUS),
        versions={"torch": "2.13.0"},
    )
    plan: Plan = plan_known(request)
    error = None
    if plan.error is not None:
        error = {"type": plan.error.type, "message": plan.error.message.partition(": error: ")[2] or plan.error.message}
        if plan.error.code is not None:
            error["code"] = plan.error.code
    found: dict[str, Any] = {"error": error, "log": [text for text in plan.log if text.startswith("torch.")]}
    if plan.spawn is not None:
        found |= {"config": plan.spawn.config, "entrypoint": plan.spawn.entrypoint, "argv": list(plan.spawn.argv)}
        found["threads"] = plan.env_set.get("OMP_NUM_THREADS")
    return found


def _recorded(found: dict[str, Any]) -> dict[str, Any]:
    """The real answer with what is drawn anew replaced by its placeholder."""
    if "config" not in found:
        return {"error": found["error"], "log": found["log"]}
    run_id = found["config"]["run_id"]
    found["config"]["run_id"] = "<uuid>" if len(run_id) == 36 else run_id
    if "/bin/python" in found["entrypoint"]:
        found["entrypoint"] = "<python>"
    return found


@pytest.fixture(scope="module")
def interpreter() -> str:
    """An interpreter with torch; without one the comparison cannot be made here."""
    named = os.environ.get("FIRSTFAULT_TORCH_PYTHON")
    if named is None:
        pytest.skip("FIRSTFAULT_TORCH_PYTHON names no interpreter with torch")
    return named


def test_every_random_command_line_is_planned_as_torchrun_takes_it(interpreter: str) -> None:
    chance = random.Random(SEED)
    cases = [_case(chance) for _ in range(CASES)]
    script = Path(__file__).with_name("real_torchrun.py")
    asked = "\n".join(json.dumps(case) for case in cases)
    done = subprocess.run([interpreter, str(script)], input=asked, capture_output=True, text=True, timeout=600, check=True)
    real = [_recorded(json.loads(line)) for line in done.stdout.splitlines()]
    assert len(real) == len(cases)
    wrong = [(case, was, plan) for case, was, plan in zip(cases, real, map(_planned, cases), strict=True) if was != plan]
    assert not wrong, f"{len(wrong)} of {len(cases)}: {wrong[:3]}"


# In one write: workers share the pipe, and `print` may write the end of its line apart.
SHOWN = "import json, os; os.write(1, ('SEEN ' + json.dumps(dict(os.environ)) + chr(10)).encode())"


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        (("--nproc_per_node", "2"), {}),
        (("--nproc_per_node", "2", "--virtual_local_rank"), {"CUDA_VISIBLE_DEVICES": "2,3"}),
        (("--nproc_per_node", "2", "--master_port", "0", "--max_restarts", "2", "--role", "r"), {"OMP_NUM_THREADS": "3"}),
    ],
)
def test_workers_really_get_the_variables_of_the_plan(
    interpreter: str, tmp_path: Path, options: tuple[str, ...], variables: dict[str, str]
) -> None:
    (tmp_path / "shown.py").write_text(SHOWN)
    words = ("-m", "torch.distributed.run", *options, "shown.py")
    outer = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "CUDA_", "PET_"))}
    done = subprocess.run(
        [interpreter, *words], cwd=tmp_path, env={**outer, **variables}, capture_output=True, text=True, timeout=120, check=True
    )
    seen = [json.loads(line.partition("SEEN ")[2]) for line in done.stdout.splitlines() if "SEEN " in line]
    environment = {name: Given(value, "variable", name) for name, value in variables.items()}
    plan = plan_known(Request(words=("python", *words), environment=environment, machine=Machine(gpus=4)))
    assert len(seen) == len(plan.processes) == 2
    for process in plan.processes:
        same = next(found for found in seen if found["RANK"] == str(process.rank))
        differing = {name: (value, same.get(name)) for name, value in process.env.items() if value not in ("*", same.get(name))}
        assert not differing
        given = {name for name in same if name.startswith(("TORCH", "MASTER", "ROLE", "GROUP", "LOCAL", "OMP", "CUDA_VIS"))}
        assert given <= {*process.env, "TORCHELASTIC_ERROR_FILE", *variables}
