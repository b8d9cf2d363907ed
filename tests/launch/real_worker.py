"""Run by the interpreter that has torch, accelerate and transformers: what the real TrainingArguments decide for each case.

Reads cases as JSON lines on stdin (`env`, `gpus`, `use_cpu`), writes one JSON line a case behind `@@`. GPUs are pretended, and
no process group is opened: the variables that torch would miss raise torch's own error.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from typing import Any

import accelerate.state
import torch
import transformers.training_args
from torch import distributed

OURS = ("ACCELERATE", "LOCAL", "RANK", "WORLD", "MASTER", "OMPI", "PMI", "MPI_", "MV2", "FORK_", "FSDP", "OMP_")
MISSING = "Error initializing torch.distributed using env:// rendezvous: environment variable {} expected, but not set"

gpus = 0
group: dict[str, Any] = {}


def opened(backend: str | None = None, **given: Any) -> None:
    """Stands for `init_process_group`."""
    group["backend"] = str(backend)
    # As torch's env:// handler does: each is asked for, then read.
    for name, told in (("RANK", "rank"), ("WORLD_SIZE", "world_size"), ("MASTER_ADDR", ""), ("MASTER_PORT", "")):
        if told in given:
            continue
        if name not in os.environ:
            raise ValueError(MISSING.format(name))
        if name != "MASTER_ADDR":
            int(os.environ[name])
    group["size"] = given.get("world_size", int(os.environ.get("WORLD_SIZE", "1")))
    group["rank"] = given.get("rank", int(os.environ.get("RANK", "0")))


def observe(case: dict[str, Any], folder: str) -> dict[str, Any]:
    """What the real code decided, or its error."""
    global gpus
    group.clear()
    before = dict(os.environ)
    for name in before:
        if name.startswith(OURS):
            del os.environ[name]
    os.environ.update(case["env"])
    # torch itself reads CUDA_VISIBLE_DEVICES; only the number of cards is pretended.
    torch.cuda._raw_device_count_nvml = lambda: case["gpus"]
    gpus = max(torch.cuda._device_count_nvml(), 0) if case["gpus"] else 0
    accelerate.state.AcceleratorState._reset_state(True)
    try:
        told = transformers.training_args.TrainingArguments(
            output_dir=folder, per_device_train_batch_size=4, use_cpu=case["use_cpu"], report_to=[]
        )
        found: dict[str, Any] = {
            "device": str(told.device),
            "distributed_type": str(told.distributed_state.distributed_type),
            "n_gpu": told.n_gpu,
            "parallel_mode": str(told.parallel_mode),
            "trainer_world_size": told.world_size,
            "train_batch_size_of_this_process": told.train_batch_size,
        }
    except Exception as error:
        found = {"error": [type(error).__name__, str(error)]}
    finally:
        os.environ.clear()
        os.environ.update(before)
    return {**found, "init_process_group": group.get("backend")}


def pretend() -> None:
    """GPUs that are not there, and a group that is never opened."""
    torch.cuda.device_count = lambda: gpus
    torch.cuda.is_available = lambda: gpus > 0
    torch.cuda.set_device = lambda _: None
    accelerate.state.check_cuda_p2p_ib_support = lambda: True
    distributed.init_process_group = opened
    distributed.is_initialized = lambda: "size" in group
    distributed.get_world_size = lambda *_: group["size"]
    distributed.get_rank = lambda *_: group["rank"]
    distributed.is_mpi_available = lambda: False


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    pretend()
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            print("@@" + json.dumps(observe(json.loads(line), folder)), flush=True)
