"""The formula beside traced steps: `python bench/memory_tiers.py PYTHON [FAMILY...] [--cpu]`.

PYTHON is an interpreter with torch and transformers. For the smallest bundled model of each family: how far the formula's peak
(tier 0) is from that of a step traced there (tier 1), by setting; then all optimizers. With `--cpu` small models of the same
families are run for real on the CPU under the same tracker, beside the trace on tensors without content.
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
        spread = {
            "ddp": Parallel(strategy="ddp", world=2),
            "ddp bucket views": Parallel(strategy="ddp", world=2, bucket_view=True),
            "dp": Parallel(strategy="dp", world=4),
        }
        for label, parallel in spread.items():
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


SHRUNK = {
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "word_embed_proj_dim"), 64),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size"), 160),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers"), 3),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads"), 8),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), 32),
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 1000,
    "num_local_experts": 4,
    "num_experts": 4,
    "max_position_embeddings": 128,
    "n_positions": 128,
    "max_seq_len": 128,
    "sliding_window": 4096,
}


def small(config: dict[str, Any]) -> dict[str, Any]:
    """The same family with layers that a CPU runs in no time."""
    made = {name: SHRUNK.get(name, value) if value is not None else None for name, value in config.items()}
    if "layer_types" in made:
        made["layer_types"] = made["layer_types"][:3]
    if config.get("num_key_value_heads") == config.get("num_attention_heads") and "num_key_value_heads" in made:
        made["num_key_value_heads"] = 8
    for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
        made.pop(name, None)
    return made


def run_for_real(python: str, families: list[str]) -> None:
    """The same steps on `meta` and on the CPU, both with torch's plain attention, the only one that both have."""
    settings = {name: SETTINGS[name] for name in SETTINGS if name not in ("fp32 padded", "autocast")}
    worst = []
    print(
        f"{'family':<14}{'setting':<24}{'on the CPU':>13}{'traced':>13}{'error %':>9}   bytes; the phase with the largest error"
    )
    for family, (name, config) in sorted(smallest().items()):
        if (families and family not in families) or read_config(config).kind != "decoder":
            continue
        plan = MemoryPlan(model=name, config=small(config), micro_batch=2, seq_len=64)
        plans = [replace(plan, **changed) for changed in settings.values()]
        both = [Request(plan=one, kernel="math", device=device) for one in plans for device in ("meta", "cpu")]
        found = list(traces(both, python, seconds=1200))
        for number, setting in enumerate(settings):
            traced, real = found[2 * number], found[2 * number + 1]
            if traced.failure or real.failure:
                print(f"{family:<14}{setting:<24}   {traced.failure or real.failure}", flush=True)
                continue
            on_meta, on_cpu = without_kernels(traced), without_kernels(real)
            off = {phase: 100 * (on_meta[phase] / size - 1) for phase, size in on_cpu.items()}
            phase = max(off, key=lambda one: abs(off[one]))
            worst.append(abs(off[phase]))
            print(
                f"{family:<14}{setting:<24}{on_cpu[phase]:>13,}{on_meta[phase]:>13,}{off[phase]:>+9.4f}   {phase}", flush=True
            )
    print(f"{len(worst)} rows, median of the worst phases {statistics.median(worst):.4f} %, worst {max(worst):.4f} %")


def without_kernels(trace: Trace) -> dict[str, int]:
    """Peaks by phase of what tensors take, to the byte: what only CUDA's kernels take is left out."""
    peaks: dict[str, int] = {}
    held: dict[int, int] = {}
    live, phase = 0, ""
    for event in trace.events:
        if event[0] == "a" and event[3] != "workspaces":
            held[event[1]] = event[2]
            live += event[2]
        elif event[0] == "f":
            live -= held.pop(event[1], 0)
        elif event[0] == "p":
            phase = event[1]
        peaks[phase] = max(peaks.get(phase, 0), live)
    return peaks


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--cpu"]
    (run_for_real if "--cpu" in sys.argv else compare)(words[0], words[1:])
