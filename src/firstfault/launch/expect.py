"""What a plan is expected to be (`--expect "1 process on 1 GPU"`), and where it differs.

expectation := part ("," part)*
part        := N process[es] [per machine | in total] [on M GPU[s] [each]]
             | DDP | DataParallel | FSDP | DeepSpeed | single | batch N
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from firstfault.errors import UsageError
from firstfault.model.plan import Plan

_COUNT = re.compile(
    r"(?P<processes>\d{1,6}) process(?:es)?(?P<scope> per machine| in total)?"
    r"(?: on (?P<gpus>\d{1,6}) gpus?(?P<each> each)?)?\Z"
)
_GPUS = re.compile(r"(?P<gpus>\d{1,6}) gpus?(?P<each> each)?\Z")
_BATCH = re.compile(r"batch (?P<batch>\d{1,9})\Z")
_MODES = {"ddp": "DDP", "dataparallel": "DataParallel", "fsdp": "FSDP", "deepspeed": "DeepSpeed", "single": "single"}
_HINT = 'Such as --expect "4 processes on 1 GPU each, DDP, batch 32"'


class Wish(NamedTuple):
    """One thing that is expected of a plan: its name, and the value."""

    name: Literal["processes", "in total", "gpus", "gpus each", "mode", "batch"]
    value: int | str


class Difference(NamedTuple):
    """A wish that the plan does not meet (`found` is what it has), or of which it knows nothing (`found` is None)."""

    name: str
    wanted: str
    found: str | None


def read_expectation(text: str) -> tuple[Wish, ...]:
    """The wishes of the text; UsageError for one that is not understood."""
    wishes = tuple(wish for part in text.split(",") if part.strip() for wish in _wishes(" ".join(part.split())))
    if not wishes:
        raise UsageError("--expect is empty", hint=_HINT)
    return wishes


def _wishes(part: str) -> Iterator[Wish]:
    lower = part.lower()
    count, alone, batch = _COUNT.match(lower), _GPUS.match(lower), _BATCH.match(lower)
    if count:
        yield Wish("in total" if count["scope"] == " in total" else "processes", int(count["processes"]))
    if (found := count or alone) and found["gpus"]:
        yield Wish("gpus each" if found["each"] else "gpus", int(found["gpus"]))
    elif batch:
        yield Wish("batch", int(batch["batch"]))
    elif lower in _MODES:
        yield Wish("mode", _MODES[lower])
    elif not count and not alone:
        raise UsageError(f"--expect does not understand {part!r}", hint=_HINT)


def differences(plan: Plan, wishes: tuple[Wish, ...]) -> tuple[Difference, ...]:
    """Every wish that the plan does not meet, and every one that it cannot answer; a plan that stops meets none."""
    found = tuple(_difference(plan, wish) for wish in wishes)
    return tuple(one for one in found if one is not None)


def _difference(plan: Plan, wish: Wish) -> Difference | None:
    if plan.error is not None or (plan.rank0 is not None and plan.rank0.error is not None):
        error = plan.error or (plan.rank0.error if plan.rank0 else None)
        return Difference(wish.name, str(wish.value), f"stops with {error.type}" if error else None)
    value = _VALUES[wish.name](plan)
    if value is None:
        return Difference(wish.name, str(wish.value), None)
    return None if value == wish.value else Difference(wish.name, str(wish.value), str(value))


def _visible(plan: Plan) -> list[tuple[str, ...]] | None:
    shown = [process.visible for process in plan.processes]
    return [one for one in shown if one is not None] if shown and all(one is not None for one in shown) else None


def _gpus(plan: Plan) -> int | None:
    """GPUs that the processes of this machine work on: each its own one, or all that a single process sees."""
    visible = _visible(plan)
    if visible is None:
        return None
    if all(process.local_rank is None for process in plan.processes):
        return len({gpu for one in visible for gpu in one})
    return len({process.device for process in plan.processes if (process.device or "").startswith("cuda")})


def _gpus_each(plan: Plan) -> int | None:
    """GPUs that each process works on, None where they differ."""
    visible = _visible(plan)
    if visible is None:
        return None
    counts = {
        len(one) if process.local_rank is None else min(1, len(one))
        for process, one in zip(plan.processes, visible, strict=True)
    }
    return counts.pop() if len(counts) == 1 else None


def _mode(plan: Plan) -> str | None:
    """How the model is spread: by the launcher's mode, else by what the first process decides."""
    first, variables = plan.rank0, plan.env_set
    if variables.get("ACCELERATE_USE_FSDP", "").lower() == "true":
        return "FSDP"
    if variables.get("ACCELERATE_USE_DEEPSPEED", "").lower() == "true" or plan.starter == "deepspeed":
        return "DeepSpeed"
    if first is None or first.distributed_type is None:
        return None
    if first.distributed_type.endswith("DEEPSPEED"):
        return "DeepSpeed"
    if first.wraps_in_DistributedDataParallel:
        return "DDP"
    if first.wraps_in_DataParallel is None or first.wraps_in_DistributedDataParallel is None:
        return None
    return "DataParallel" if first.wraps_in_DataParallel else "single"


def _effective_batch(plan: Plan) -> int | None:
    return plan.rank0.effective_batch if plan.rank0 else None


_VALUES: dict[str, Callable[[Plan], int | str | None]] = {
    "processes": lambda plan: plan.nproc_per_node,
    "in total": lambda plan: plan.world_size,
    "gpus": _gpus,
    "gpus each": _gpus_each,
    "mode": _mode,
    "batch": _effective_batch,
}
