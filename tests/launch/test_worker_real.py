"""What a process decides, against the real accelerate and transformers with pretended GPUs and random variables."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from firstfault.launch.request import Machine, Request
from firstfault.launch.worker import decide

CASES = int(os.environ.get("FIRSTFAULT_LAUNCH_CASES", "200"))
SEED = int(os.environ.get("FIRSTFAULT_LAUNCH_SEED", "4"))
NO_PACKAGE = "ModuleNotFoundError"

OFTEN: dict[str, tuple[str, ...]] = {
    "LOCAL_RANK": ("0", "0", "3", "-1", "", "x", "-2"),
    "RANK": ("0", "3", "0", "x"),
    "WORLD_SIZE": ("1", "4", "0", "x"),
    "MASTER_ADDR": ("node-0",),
    "MASTER_PORT": ("1", "1", "x"),
}
RARELY: dict[str, tuple[str, ...]] = {
    "ACCELERATE_USE_CPU": ("true", "1", "False", "maybe", ""),
    "ACCELERATE_TORCH_DEVICE": ("cuda:1", "cpu", "foo", "mps"),
    "ACCELERATE_USE_FSDP": ("true", "1"),
    "FSDP_OFFLOAD_PARAMS": ("true",),
    "FSDP_STATE_DICT_TYPE": ("FULL_STATE_DICT",),
    "OMPI_COMM_WORLD_SIZE": ("2", "x"),
    "OMPI_COMM_WORLD_LOCAL_SIZE": ("2",),
    "OMPI_COMM_WORLD_RANK": ("1",),
    "LOCAL_WORLD_SIZE": ("4",),
    "OMP_NUM_THREADS": ("1",),
    "ACCELERATE_USE_DEEPSPEED": ("false", "0", "maybe", "true"),
    "ACCELERATE_MIXED_PRECISION": ("fp16", "no", "int4", "bf16"),
    "ACCELERATE_DYNAMO_BACKEND": ("INDUCTOR", "no", "foo"),
    "ACCELERATE_CPU_AFFINITY": ("0", "2"),
    "ACCELERATE_DEBUG_MODE": ("true", "maybe"),
    "FORK_LAUNCHED": ("1", "x"),
    "PMI_LOCAL_RANK": ("1",),
    "MPI_LOCALRANKID": ("1", "x"),
    "FSDP_VERSION": ("2", "x"),
    "PMI_SIZE": ("2",),
    "PMI_RANK": ("1", "x"),
    "MV2_COMM_WORLD_SIZE": ("2",),
    "SLURM_PROCID": ("1",),
    "SLURM_NTASKS": ("4",),
    "CUDA_VISIBLE_DEVICES": ("", "0", "0,1", "9", "x", "0,x"),
    "TORCHELASTIC_RUN_ID": ("none",),
    "NODE_RANK": ("1",),
}


def _case(chance: random.Random) -> dict[str, Any]:
    env = {name: chance.choice(values) for name, values in OFTEN.items() if chance.random() < 0.6}
    env |= {name: chance.choice(values) for name, values in RARELY.items() if chance.random() < 0.2}
    return {"env": env, "gpus": chance.choice((0, 1, 4)), "use_cpu": chance.random() < 0.15}


def _decided(case: dict[str, Any]) -> dict[str, Any]:
    request = Request(words=("python",), machine=Machine(gpus=case["gpus"]), versions={"accelerate": "1.15.0", "deepspeed": ""})
    found = decide(case["env"], request, ("train.py", *(("--use_cpu",) if case["use_cpu"] else ())))
    backend = {"init_process_group": found.init_process_group}
    if found.error is not None:
        return {"error": [found.error.type, found.error.message], **backend}
    names = ("device", "distributed_type", "n_gpu", "parallel_mode", "trainer_world_size", "train_batch_size_of_this_process")
    return {name: getattr(found, name) for name in names} | backend


def test_every_random_environment_is_decided_as_the_trainer_decides_it() -> None:
    interpreter = os.environ.get("FIRSTFAULT_TORCH_PYTHON")
    if interpreter is None:
        pytest.skip("FIRSTFAULT_TORCH_PYTHON names no interpreter with torch")
    chance = random.Random(SEED)
    cases = [_case(chance) for _ in range(CASES)]
    script = Path(__file__).with_name("real_worker.py")
    asked = "\n".join(json.dumps(case) for case in cases)
    done = subprocess.run([interpreter, str(script)], input=asked, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode and NO_PACKAGE in done.stderr:
        pytest.skip("the interpreter has no transformers")
    real = [json.loads(line[2:]) for line in done.stdout.splitlines() if line.startswith("@@")]
    assert len(real) == len(cases), done.stderr[-2_000:]
    wrong = [(case, was, own) for case, was, own in zip(cases, real, map(_decided, cases), strict=True) if was != own]
    assert not wrong, f"{len(wrong)} of {len(cases)}: {wrong[:3]}"
