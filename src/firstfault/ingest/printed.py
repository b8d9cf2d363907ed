"""Values in force that a run prints about itself: precision, visible devices, world size, nodes of the launch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from firstfault.ingest.context import Context
from firstfault.ingest.lines import Line
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Setting

MAX_SETTINGS = 500
MAX_TEXT_CHARS = 500

WORDS = (
    *("mixed precision type:", "device_count", "setting cuda_visible_devices=", "world_size", "world size", "_nodes "),
    *("saving fsdp", "saving deepspeed", "train batch size", "batch size per device", "accumulation steps ="),
)


def _count(text: str) -> int:
    """`1,024` -> 1024."""
    return int(text.replace(",", ""))


_PRINTED = (
    # accelerate/state.py: the state of an Accelerator
    ("mixed_precision", lazy_pattern(r"(?:^|[\s>-])Mixed precision type: (?P<value>no|fp16|bf16|fp8)\s*$"), str),
    ("device_count", lazy_pattern(r"\bdevice_count(?:\(\))?\s*(?:[=:]|is|->)\s*(?P<value>\d{1,4})\b(?!\.)"), int),
    # deepspeed/launcher/launch.py: what the workers of this node get
    ("CUDA_VISIBLE_DEVICES", lazy_pattern(r"\bSetting CUDA_VISIBLE_DEVICES=(?P<value>\d[\d,]{0,200})\s*$"), str),
    # accelerate/accelerator.py: save_state of a sharded model
    ("sharded_save", lazy_pattern(r"\bSaving (?P<value>FSDP|DeepSpeed) [Mm]odel\b"), str.upper),
    # A group of a part of the ranks has a world size too, and so has a checkpoint: the name must stand alone.
    (
        "world_size",
        lazy_pattern(
            r"(?:^|[\[{(,|:;>-]\s*|\b(?:DEBUG|INFO|WARN(?:ING)?)\s+|\.py:\d+[\]:]*\s+)world[_ ]size\s*[=:]\s*"
            r"(?P<value>[1-9]\d{0,6})\b(?!\.)"
        ),
        int,
    ),
    # transformers/trainer.py: what the Trainer says when it begins
    ("train_batch_total", lazy_pattern(r"\bTotal train batch size \([^)]{1,80}\) = (?P<value>\d[\d,]{0,12})\s*$"), _count),
    ("train_batch_per_device", lazy_pattern(r"\bInstantaneous batch size per device = (?P<value>\d[\d,]{0,12})\s*$"), _count),
    ("train_accumulation", lazy_pattern(r"\bGradient Accumulation steps = (?P<value>\d[\d,]{0,12})\s*$"), _count),
    # torch/distributed/launcher/api.py: what torchelastic starts with
    ("min_nodes", lazy_pattern(r"^\s*min_nodes\s+: (?P<value>\d{1,6})\s*$"), int),
    ("max_nodes", lazy_pattern(r"^\s*max_nodes\s+: (?P<value>\d{1,6})\s*$"), int),
)


def read_printed(lines: Sequence[Line], ctx: Context) -> tuple[Setting, ...]:
    """Settings of the family `printed`, in the order of their lines."""
    found: list[Setting] = []
    for line in lines:
        if len(found) >= MAX_SETTINGS:
            break
        lowered = line.text.lower()
        if any(word in lowered for word in WORDS):
            found.extend(_of_line(line, ctx))
    return tuple(found)


def _of_line(line: Line, ctx: Context) -> Iterator[Setting]:
    for key, pattern, kind in _PRINTED:
        match = pattern.search(line.text)
        if match:
            yield Setting(
                family="printed",
                key=key,
                value=kind(match["value"]),
                span=ctx.span(line),
                text=line.text.strip()[:MAX_TEXT_CHARS],
                source_id=ctx.source_id,
            )
