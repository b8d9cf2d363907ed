"""On how many devices a Trainer of transformers really trains, by the batch numbers that it prints at its start."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.model.fact import Setting
    from firstfault.model.span import SourceSpan

TOTAL, EACH, STEPS = "train_batch_total", "train_batch_per_device", "train_accumulation"


class Trained(NamedTuple):
    """Processes times the GPUs that each drives, and the lines that show it."""

    devices: int
    spans: tuple[SourceSpan, ...]


def devices_trained(settings: Iterable[Setting]) -> Trained | None:
    """The total batch over the batch of a device and the accumulated steps; None where a number is missing or they disagree."""
    found: dict[str, dict[int, Setting]] = {TOTAL: {}, EACH: {}, STEPS: {}}
    for setting in settings:
        if setting.family == "printed" and setting.key in found and isinstance(setting.value, int):
            found[setting.key].setdefault(setting.value, setting)
    if any(len(values) != 1 for values in found.values()):
        return None
    (total, shown), (each, _), (steps, _) = (next(iter(found[key].items())) for key in (TOTAL, EACH, STEPS))
    if not each * steps or total % (each * steps):
        return None
    return Trained(total // (each * steps), (shown.span, *(one.span for key in (EACH, STEPS) for one in found[key].values())))
