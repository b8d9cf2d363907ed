"""Tier 2: a plan corrected by what its run was measured to take.

A message tells a request and what was allocated before it. The forecast makes the same request at some moment; what it has
allocated by then and what was measured differ by what the forecast does not know (other code, hidden kernels, what the script
keeps). That difference is carried to every phase. Without such a moment only device and context are taken over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from firstfault.memory.measurement import Measurement
from firstfault.memory.plan import MemoryPlan
from firstfault.model.forecast import Assumption
from firstfault.units import format_size

MOST_DIFFERENCE = 0.1
"""A run that is farther from its forecast than this share is another run than the one that was described."""
_SAME = {
    "forward": ("forward", "accumulation", "loss"),
    "loss": ("loss", "forward", "accumulation"),
    "backward": ("backward", "accumulation"),
    "gather": ("gather", "evaluation gather"),
    "evaluation": ("evaluation", "evaluation gather"),
    "checkpoint": ("checkpoint save",),
}
"""The phases of a forecast by the phase that frames show."""


class Moment(NamedTuple):
    """A request of a forecast, with the live bytes before it."""

    phase: str
    kind: str
    size: int
    live: int


class Calibrated(NamedTuple):
    """The corrected plan, the values taken over, and what to say about it."""

    plan: MemoryPlan
    assumptions: tuple[Assumption, ...]
    notes: tuple[str, ...]


def calibrate(plan: MemoryPlan, measured: Measurement, moments: Sequence[Moment], peak: int) -> Calibrated:
    """`plan` with device, context and difference as measured. `moments` are requests of the measured size, `peak` the highest
    point of the forecast in bytes."""
    taken: list[Assumption] = []
    device = plan.device
    if measured.total is not None:
        others = measured.others or 0
        device = replace(device, memory_bytes=measured.total - others)
        less = f" less {format_size(others)} of other processes" if others else ""
        taken.append(Assumption(fact="device memory", value=format_size(measured.total), source=f"{measured.source}{less}"))
    if measured.outside is not None:
        device = replace(device, context_bytes=measured.outside)
    plan = replace(plan, device=device)
    if measured.request is None:
        return _corrected(plan, measured, peak, f"at the highest point of {measured.source}", taken)
    moment = _nearest(measured, moments)
    if moment is None:
        why = (
            f"{measured.source} asks for a tensor of a size that this plan has nowhere: model, batch or length differ from "
            "the run. Only device and context are taken from it."
        )
        if measured.request[1] == 0:
            why = (
                f"The request in {measured.source} is too small to tell its moment: only device and context are taken from it."
            )
        return Calibrated(plan, tuple(taken), (why,))
    where = f"before the request of {format_size(moment.size)} in {moment.phase} ({moment.kind})"
    return _corrected(plan, measured, moment.live, where, taken)


def _nearest(measured: Measurement, moments: Sequence[Moment]) -> Moment | None:
    """The request that the message may be: in its phase where there is one, and with what was allocated nearest."""
    phases = _SAME.get(measured.phase or "", (measured.phase,))
    fitting = [one for one in moments if one.phase in phases] or moments
    return min(fitting, key=lambda one: abs(one.live - measured.allocated), default=None)


def _corrected(plan: MemoryPlan, measured: Measurement, live: int, where: str, taken: list[Assumption]) -> Calibrated:
    difference = measured.allocated - live
    sizes = f"{format_size(measured.allocated)} were allocated {where}, the forecast has {format_size(live)}"
    notes = [f"By {measured.source}: {sizes}."]
    if abs(difference) > MOST_DIFFERENCE * live:
        notes.append(
            "That is more than a tenth: the run is another than the one described. Check batch, length, type and optimizer."
        )
    if difference < -MOST_DIFFERENCE * live:
        # So much less is no correction of a forecast.
        return Calibrated(plan, tuple(taken), tuple(notes))
    taken.append(Assumption(fact="not explained", value=f"{100 * difference / max(1, live):+.1f} %", source=sizes))
    return Calibrated(replace(plan, difference_bytes=difference), tuple(taken), tuple(notes))
