"""The formula beside traced steps: `python bench/memory_tiers.py PYTHON [FAMILY...] [--cpu]`.

PYTHON is an interpreter with torch and transformers. For the smallest bundled model of each family: how far the formula's peak
(tier 0) is from that of a step traced there (tier 1), by setting; then all optimizers. With `--cpu` small models are run for real on
the CPU under the same tracker, beside the trace on tensors without content.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from firstfault.memory.closed_form import forecast
from firstfault.memory.families import read_config
from firstfault.memory.models import bundled
from firstfault.memory.plan import Lora, MemoryPlan, Optimizer, Parallel
from firstfault.memory.replay import Replay
from firstfault.memory.trace import Request, Trace, traces

Row = tuple[str, str, MemoryPlan]
SETTINGS: dict[str, dict[str, Any]] = {
    "fp32": {},
    "fp32 padded": {"padded": True},
    "bf16 fused": {"weights": "bfloat16", "optimizer": Optimizer(implementation="fused")},
    "bf16 eager": {"weights": "bfloat16", "attention": "eager", "optimizer": Optimizer(implementation="fused")},
    "bf16 checkpointed": {"weights": "bfloat16", "checkpointing": True},
    "fp32 accumulate": {"accumulate": 3, "optimizer": Optimizer(implementation="loop")},
    "bf16 graphs kept": {"weights": "bfloat16", "accumulate": 4, "keeps_graphs": True, "optimizer": Optimizer(name="sgd")},
    "bf16 lora": {"weights": "bfloat16", "lora": Lora(rank=16, targets=("all-linear",), dropout=0.1, dtype="float32")},
    "autocast": {"autocast": "bfloat16", "optimizer": Optimizer(implementation="fused")},
}
OPTIMIZERS: dict[str, Optimizer] = {
    "adamw loop": Optimizer(implementation="loop"),
    "adamw foreach": Optimizer(),
    "adamw fused": Optimizer(implementation="fused"),
    "sgd": Optimizer(name="sgd"),
    "sgd momentum": Optimizer(name="sgd_momentum"),
    "adafactor": Optimizer(name="adafactor"),
}


def smallest() -> dict[str, tuple[str, dict[str, Any]]]:
    """Of each bundled family the model with the fewest parameters."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for name, config in bundled().items():
        family = str(config["model_type"])
        if family not in found or read_config(config).numel < read_config(found[family][1]).numel:
            found[family] = (name, config)
    return found


def rows(families: list[str]) -> Iterator[Row]:
    for family, (name, config) in sorted(smallest().items()):
        if families and family not in families:
            continue
        plan = MemoryPlan(model=name, config=config, micro_batch=2, seq_len=min(512, read_config(config).tokens or 512))
        for setting, changed in SETTINGS.items():
            yield family, setting, replace(plan, **changed)
    for family in ("qwen3", "gpt2"):
        if families and family not in families:
            continue
        name, config = smallest()[family]
        # Few tokens, so that the optimizer makes the peak.
        plan = MemoryPlan(model=name, config=config, micro_batch=1, seq_len=32)
        for label, optimizer in OPTIMIZERS.items():
            for weights in ("float32", "bfloat16"):
                yield family, f"{label} {weights}", replace(plan, optimizer=optimizer, weights=weights)
        for label, parallel in (("ddp", Parallel(strategy="ddp", world=2)), ("dp", Parallel(strategy="dp", world=4))):
            yield family, label, replace(plan, parallel=parallel, micro_batch=4, seq_len=512)


def peaks_of(plan: MemoryPlan, trace: Trace) -> dict[str, int]:
    return {name: peak.live for name, peak in Replay(trace.events, plan.allocator).peaks.items()}


def compare(python: str, families: list[str]) -> None:
    errors: dict[str, list[float]] = {}
    print(f"{'family':<14}{'setting':<24}{'traced':>9}{'formula':>9}{'error %':>9}  parameters   worst phase   GB (1e9 bytes)")
    for _, group in groupby(rows(families), key=lambda row: row[0]):
        some = list(group)
        found = traces([Request(plan=plan) for _, _, plan in some], python, seconds=3600)
        for (family, setting, plan), trace in zip(some, found, strict=True):
            error = _show(family, setting, plan, trace)
            if error is not None:
                errors.setdefault(setting, []).append(error)
    print()
    for setting, found in errors.items():
        print(f"{setting:<24}{len(found):>3} rows   median {statistics.median(found):6.3f} %   worst {max(found):6.3f} %")
    every = [one for found in errors.values() for one in found]
    print(f"{'all':<24}{len(every):>3} rows   median {statistics.median(every):6.3f} %   worst {max(every):6.3f} %")


def _show(family: str, setting: str, plan: MemoryPlan, trace: Trace) -> float | None:
    """Prints one row; the error of the peak in percent, without its sign."""
    if trace.failure:
        print(f"{family:<14}{setting:<24}{'-':>9}   {trace.failure[:150]}", flush=True)
        return None
    made = forecast(plan)
    traced = peaks_of(plan, trace)
    told = {phase.name: phase.allocated.mid for phase in made.phases}
    peak, computed = max(traced.values()), max(told.values())
    error = 100 * (computed / peak - 1)
    counts = "equal" if (made.parameters, made.trainable_parameters) == (trace.parameters, trace.trainable) else "DIFFERENT"
    off = {name: 100 * (told[name] / size - 1) for name, size in traced.items() if name in told and size}
    worst = max(off, key=lambda name: abs(off[name]))
    row = f"{family:<14}{setting:<24}{peak / 1e9:>9.3f}{computed / 1e9:>9.3f}{error:>+9.3f}  {counts:<11}"
    print(f"{row}  {worst} {off[worst]:+.2f} %", flush=True)
    return abs(error)


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--cpu"]
    compare(words[0], words[1:])
