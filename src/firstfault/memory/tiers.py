"""One forecast by the tier that was asked for: the formula, or a traced step where the interpreter and the plan allow it."""

from __future__ import annotations

from msgspec.structs import replace

from firstfault.memory import closed_form
from firstfault.memory.plan import MemoryPlan
from firstfault.model.forecast import Forecast


def forecast(plan: MemoryPlan, *, python: str | None = None, seconds: float = 0.0) -> Forecast:
    """By a step traced with the interpreter `python`; by formula, with a note that says why, where there is none or it cannot.

    UsageError where the configuration lacks a size that the formula needs.
    """
    if python is None:
        return closed_form.forecast(plan)
    from firstfault.memory.trace import SECONDS, trace
    from firstfault.memory.traced_forecast import forecast_of, untraceable

    why = untraceable(plan)
    if why is None:
        found = trace(plan, python, seconds=seconds or SECONDS)
        if found.failure is None:
            return forecast_of(plan, found)
        why = f"{python} has no {found.absent}" if found.absent else found.failure
    made = closed_form.forecast(plan)
    return replace(made, notes=(f"No step was traced, this is the formula: {why}.", *made.notes))
