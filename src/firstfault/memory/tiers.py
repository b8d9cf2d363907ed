"""One forecast by the tier that was asked for: the formula, or a traced step where the interpreter and the plan allow it.

Either is corrected by a measurement of the run where there is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.memory import closed_form
from firstfault.memory.plan import MemoryPlan
from firstfault.model.forecast import Forecast

if TYPE_CHECKING:
    from firstfault.memory.measurement import Measurement
    from firstfault.memory.trace import Trace


def forecast(
    plan: MemoryPlan, *, python: str | None = None, measured: Measurement | None = None, seconds: float = 0.0
) -> tuple[Forecast, MemoryPlan]:
    """The forecast by a step traced with the interpreter `python`; by formula, with a note that says why, where there is none
    or it cannot. Corrected by what was `measured`; besides it the plan as corrected.

    UsageError where the configuration lacks a size that the formula needs.
    """
    trace, why = (None, "") if python is None else _traced(plan, python, seconds)
    made = _by(plan, trace)
    if measured is not None:
        made, plan = _corrected(plan, made, trace, measured)
    if why:
        made = replace(made, notes=(f"No step was traced, this is the formula: {why}.", *made.notes))
    return made, plan


def _traced(plan: MemoryPlan, python: str, seconds: float) -> tuple[Trace | None, str]:
    """The trace, or why there is none."""
    from firstfault.memory.trace import SECONDS, trace
    from firstfault.memory.traced_forecast import untraceable

    why = untraceable(plan)
    if why is not None:
        return None, why
    found = trace(plan, python, seconds=seconds or SECONDS)
    if found.failure is None:
        return found, ""
    return None, f"{python} has no {found.absent}" if found.absent else found.failure


def _by(plan: MemoryPlan, trace: Trace | None) -> Forecast:
    if trace is None:
        return closed_form.forecast(plan)
    from firstfault.memory.traced_forecast import forecast_of

    return forecast_of(plan, trace)


def _corrected(plan: MemoryPlan, made: Forecast, trace: Trace | None, measured: Measurement) -> tuple[Forecast, MemoryPlan]:
    from firstfault.memory.calibrate import Moment, calibrate

    found: list[tuple[str, str, int, int]] = []
    if measured.request is not None and trace is not None:
        from firstfault.memory.replay import Replay

        found = Replay(trace.events, plan.allocator, watched=measured.request).moments
    elif measured.request is not None:
        found = closed_form.moments(plan, measured.request)
    peak = made.phases[made.peak].allocated.mid
    plan, taken, notes = calibrate(plan, measured, [Moment(*one) for one in found], peak)
    made = _by(plan, trace)
    if measured.request is not None and made.verdict == "fits":
        # It did fail: what is described is not all that ran.
        made = replace(made, verdict="tight")
        notes = (*notes, "By these figures it fits, and it failed: something else of the run took memory.")
    rows = (*(one for one in made.assumptions if one.fact not in {row.fact for row in taken}), *taken)
    return replace(made, tier="measured", assumptions=rows, notes=(*notes, *made.notes)), plan
