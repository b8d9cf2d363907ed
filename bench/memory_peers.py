"""The forecast beside other estimators: `FIRSTFAULT_TORCH_PYTHON=... python bench/memory_peers.py FILE.yaml`.

The interpreter needs torch, transformers and accelerate (and deepspeed for its column). Peers get the same model, built on meta
tensors from the same configuration; they know nothing of batches, so that their error is that of states alone.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml
from memory_truth import Unexpressed, compared, plan_of

from firstfault.errors import FirstfaultError
from firstfault.memory.closed_form import forecast

_PEERS = """
import json, sys, time, torch, transformers
transformers.logging.set_verbosity_error()
from accelerate.commands.estimate import estimate_training_usage
from accelerate.utils import calculate_maximum_sizes
try:
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs as zero
except ImportError:
    zero = None
out = {}
for name, (config, half) in json.load(sys.stdin).items():
    start = time.perf_counter()
    family = config.pop("model_type")
    shape = transformers.AutoConfig.for_model(family, **config)
    kind = "SequenceClassification" if family == "bert" else "CausalLM"
    with torch.device("meta"):
        model = getattr(transformers, f"AutoModelFor{kind}").from_config(shape)
    size, _ = calculate_maximum_sizes(model)
    row = {"built_s": time.perf_counter() - start}
    used = estimate_training_usage(size, "bfloat16" if half else "float32")
    row["accelerate"] = max(used.values())
    if zero is not None:
        count = sum(one.numel() for one in model.parameters())
        row["deepspeed"] = zero(count, num_gpus_per_node=1, num_nodes=1, cpu_offload=False)[1]
    out[name] = row
print(json.dumps(out))
"""


def main(path: str) -> None:
    points = yaml.safe_load(Path(path).read_text(encoding="utf-8"))["points"]
    rows = []
    for row in points:
        if row["class"] in ("incomplete", "compiled", "sharded", "custom-kernel"):
            continue
        try:
            rows.append((row, plan_of(row)))
        except (Unexpressed, FirstfaultError):
            continue
    asked = {row["id"]: (plan.config, plan.weights != "float32") for row, plan in rows}
    done = subprocess.run(
        [os.environ["FIRSTFAULT_TORCH_PYTHON"], "-c", _PEERS],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=True,
    )
    peers: dict[str, dict[str, Any]] = json.loads(done.stdout.strip().splitlines()[-1])
    errors: dict[str, list[float]] = {}
    print(f"{'id':<34}{'measured':>10}{'firstfault':>12}{'accelerate':>12}{'deepspeed':>12}   error %, allocated or total")
    for row, plan in rows:
        start = time.perf_counter()
        made = forecast(plan)
        errors.setdefault("milliseconds of a forecast", []).append(1e3 * (time.perf_counter() - start))
        told = {"firstfault": compared(row, made), **peers[row["id"]]}
        cells = ""
        for name in ("firstfault", "accelerate", "deepspeed"):
            if name not in told:
                cells += f"{'-':>12}"
                continue
            error = 100 * (told[name] / row["measured_bytes"] - 1)
            errors.setdefault(name, []).append(abs(error))
            cells += f"{error:>+12.1f}"
        errors.setdefault("milliseconds to build the model", []).append(1e3 * peers[row["id"]]["built_s"])
        print(f"{row['id']:<34}{row['measured_bytes'] / 1e9:>10.2f}{cells}")
    for name, found in errors.items():
        print(f"{name:<34}median {statistics.median(found):8.1f}   worst {max(found):8.1f}")


if __name__ == "__main__":
    main(sys.argv[1])
