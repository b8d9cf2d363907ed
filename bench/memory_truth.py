"""Published memory measurements beside the forecast: `python bench/memory_truth.py FILE.yaml [--tier 1 --python PYTHON]`.

With `--tier 1` steps are traced with the torch of that interpreter where the plan allows it (`*` marks the other rows), and the
totals that nvidia-smi showed for the same runs stand in a second table.
Rows that the plan cannot express are listed with the reason. Nothing is fitted to a row: what a row leaves open is answered by
the default of the code that was measured, and stands in `plan_of`.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from pathlib import Path
from typing import Any

import yaml

from firstfault.errors import FirstfaultError
from firstfault.memory.devices import find_device
from firstfault.memory.models import find_model
from firstfault.memory.plan import Attention, DType, Lora, Loss, MemoryPlan, Optimizer, OptimizerName, Parallel, Quantization
from firstfault.memory.tiers import forecast
from firstfault.model.forecast import Band, Forecast

_DTYPES: dict[str, DType] = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_LETTERS = {"q": ("q_proj",), "k": ("k_proj",), "v": ("v_proj",), "o": ("o_proj",)}
_FUSED = ("qkv_proj", "query_key_value", "c_attn", "Wqkv")
_STRATEGIES = {"fsdp": "fsdp1", "fsdp1": "fsdp1", "fsdp2": "fsdp2", "ddp": "ddp", "dp": "dp", "dataparallel": "dp"}


class Unexpressed(Exception):
    """Why a row cannot be told as a plan."""


def _number(value: object, what: str, *, average: bool = False) -> int:
    """A size; of a varying one the longest, or the mean where the row's own figure is an average over the run."""
    wanted = r"mean about (\d+)" if average else r"max (\d+)"
    found = re.match(r"(\d+)\Z", str(value)) or re.search(wanted, str(value)) or re.search(r"mean about (\d+)", str(value))
    if found is None:
        raise Unexpressed(f"{what} is {value}")
    return int(found[1])


def _lora(method: str) -> Lora | None:
    if "lora" not in method:
        return None
    rank = re.search(r"\br(\d+)", method)
    letters = re.search(r"\br\d+ ([qkvo]+)\b", method)
    rate = re.search(r"dropout ([0-9.]+)", method)
    targets: tuple[str, ...] = ("all-linear",) if "all" in method else ("q_proj", "v_proj", *_FUSED)
    if letters:
        targets = tuple(name for letter in letters[1] for name in _LETTERS[letter]) + _FUSED
        if "o" in letters[1]:
            targets += ("dense", "out_proj")
    return Lora(rank=int(rank[1]) if rank else 8, targets=targets, dropout=float(rate[1]) if rate else 0.0)


def _optimizer(text: str) -> Optimizer:
    implementation: Any = next((one for one in ("foreach", "fused", "loop") if one in text), "foreach")
    name: OptimizerName = "adamw"
    if "8" in text:
        name = "adamw_8bit"
    elif "adafactor" in text:
        name = "adafactor"
    elif "sgd" in text:
        name = "sgd"
    return Optimizer(name=name, implementation=implementation, paged="paged" in text)


def _parallel(text: str) -> Parallel:
    found = re.search(r"([A-Za-z]+[0-9]?|ZeRO-?[0-3])\s*x\s*(\d+)", text)
    if found is None:
        return Parallel()
    word = found[1].lower().replace("-", "")
    strategy: Any = _STRATEGIES.get(word, word if re.fullmatch(r"zero[0-3]", word) else None)
    if strategy is None:
        raise Unexpressed(f"parallel is {text}")
    return Parallel(strategy=strategy, world=int(found[2]))


def plan_of(row: dict[str, Any]) -> MemoryPlan:
    """The row as a plan; Unexpressed (or a FirstfaultError) for what it cannot tell."""
    name, config = find_model(str(row["model"]))
    method, dtype = str(row["method"]).lower(), str(row["dtype"])
    if row["class"] in ("compiled", "incomplete") and "unknown" in (str(row["micro_batch"]), str(row["seq_len"])):
        raise Unexpressed("batch or length not published")
    if str(row["checkpointing"]) == "selective":
        raise Unexpressed("selective checkpointing")
    base = next((code for short, code in _DTYPES.items() if short in dtype), None)
    if base is None:
        raise Unexpressed(f"dtype is {dtype}")
    quantization: Quantization = "nf4" if "nf4" in dtype or "qlora" in method else "int8" if "int8" in dtype else "none"
    older = row["class"] == "older-stack"
    attention: Attention = "eager" if older else "flash_attention_2" if "Flash" in str(row.get("note")) else "sdpa"
    loss: Loss = "fused" if "fused loss" in str(row.get("note")) or "liger" in method else "upcast"
    weights: DType = "float32" if "amp" in dtype or "fp32 shards" in dtype else base
    if row["class"] == "other-code":
        # LitGPT calls torch's one kernel for GELU.
        config = {**config, "hidden_act": "gelu_pytorch_tanh"}
    several = str(row["accumulate"]) not in ("1", "none")
    return MemoryPlan(
        model=name,
        config=config,
        weights=weights,
        autocast=base if weights != base else None,
        quantization=quantization,
        prepares_kbit="bnb" in method and "patched" not in method,
        lora=_lora(method),
        optimizer=_optimizer(str(row["optimizer"]).lower()),
        micro_batch=_number(row["micro_batch"], "micro batch"),
        seq_len=_number(row["seq_len"], "sequence length", average="avg" in str(row["kind"])),
        accumulate=2 if several else 1,
        checkpointing=row["checkpointing"] is True,
        attention=attention,
        loss=loss,
        parallel=_parallel(str(row["parallel"])),
        device=find_device(None, None) if "-" not in str(row["gpu"]) else _device(str(row["gpu"])),
        saves_checkpoint=False,
    )


def _device(name: str) -> Any:
    try:
        return find_device(name, None)
    except FirstfaultError:
        return find_device(name.partition("-")[0], None)


def compared(row: dict[str, Any], made: Forecast) -> int:
    """Bytes of the forecast in the sense of the row's own figure: allocated, reserved, or all that nvidia-smi shows."""
    kind = str(row["kind"])
    if "alloc" in kind:
        return max(phase.allocated.mid for phase in made.phases)
    reserved = max(phase.reserved.mid for phase in made.phases)
    if "reserved" in kind:
        return reserved
    told = re.search(r"(\d+) MiB of it is the CUDA context", str(row.get("note")))
    context = (int(told[1]) << 20) if told else made.phases[made.peak].total.mid - made.phases[made.peak].reserved.mid
    return reserved + context


def show_totals(totals: list[tuple[str, int, Band]]) -> None:
    """What nvidia-smi showed beside the total of the traced step."""
    print(f"\n{'nvidia-smi of the same run':<50}{'measured':>10}{'forecast':>10}{'error %':>9}  band, GB (1e9 bytes)")
    errors = []
    for name, measured, told in totals:
        errors.append(100 * (told.mid / measured - 1))
        band = f"{told.lo / 1e9:.2f} to {told.hi / 1e9:.2f}{'' if told.lo <= measured <= told.hi else ' MISSED'}"
        print(f"{name:<50}{measured / 1e9:>10.2f}{told.mid / 1e9:>10.2f}{errors[-1]:>+9.2f}  {band}")
    absolute = [abs(one) for one in errors]
    print(f"{len(errors)} rows   median {statistics.median(absolute):5.2f} %   worst {max(absolute):5.2f} %")


def main(path: str, python: str | None) -> None:
    totals: list[tuple[str, int, Band]] = []
    rows = yaml.safe_load(Path(path).read_text(encoding="utf-8"))["points"]
    errors: dict[str, list[float]] = {}
    print(f"{'id':<34}{'class':<16}{'measured':>10}{'forecast':>10}{'error %':>9}   GB (1e9 bytes)")
    for row in rows:
        try:
            made, _ = forecast(plan_of(row), python=python)
            told = compared(row, made)
        except (Unexpressed, FirstfaultError) as error:
            print(f"{row['id']:<34}{row['class']:<16}{row['measured_bytes'] / 1e9:>10.2f}{'-':>10}{'-':>9}   {error}")
            continue
        mark = "*" if python and made.tier != "trace" else ""
        if made.tier == "trace" and "nvidia_smi_mib" in row:
            top = max((phase.total for phase in made.phases), key=lambda band: band.mid)
            totals.append((row["id"], row["nvidia_smi_mib"] << 20, top))
        error = 100 * (told / row["measured_bytes"] - 1)
        errors.setdefault(row["class"], []).append(abs(error))
        print(f"{row['id']:<34}{row['class']:<16}{row['measured_bytes'] / 1e9:>10.2f}{told / 1e9:>10.2f}{error:>+9.2f}{mark}")
    if totals:
        show_totals(totals)
    print()
    for name, found in sorted(errors.items()):
        print(f"{name:<16}{len(found):>3} rows   median {statistics.median(found):5.2f} %   worst {max(found):5.2f} %")
    near = [one for name in ("same-code", "sharded") for one in errors.get(name, [])]
    rest = [one for name, found in errors.items() if name not in ("same-code", "sharded") for one in found]
    texts = [f"{statistics.median(found):.2f}" if found else "-" for found in (near, rest)]
    print(f"same-code+sharded median {texts[0]} %, other median {texts[1]} %")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--tier", choices=["0", "1"], default="0")
    parser.add_argument("--python", default=sys.executable)
    words = parser.parse_args()
    main(words.file, words.python if words.tier == "1" else None)
