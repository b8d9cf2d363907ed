"""How two runs go: losses at equal steps, and the time of a step."""

from __future__ import annotations

from math import isfinite
from typing import NamedTuple

from firstfault.engine.compare.facts import change
from firstfault.engine.compare.rows import UNKNOWN, Rows
from firstfault.ingest.curve import Curve
from firstfault.model.comparison import SideValue

TOLERANCE = 0.01
"""Losses closer than this may differ by the order of sums alone."""
_STEP_TIME = 0.1


class Parting(NamedTuple):
    """The first step at which the losses part, and the last that both print."""

    first: str
    last: str
    common: int


def curve_rows(a: Curve, b: Curve, rows: Rows) -> Parting | None:
    """Adds the loss at the first step where they differ and at the last common one, and the seconds of a step."""
    parting = _parting(a, b)
    common = [key for key in a.losses if key in b.losses]
    shown = dict.fromkeys((parting.first, parting.last) if parting else common[-1:])
    for key in shown:
        left, right = a.losses[key], b.losses[key]
        note = change(left.value, right.value) if parting else ""
        # Within the tolerance they count as equal.
        value = right.value if parting else left.value
        sides = (SideValue(value=left.value, where=str(left.span)), SideValue(value=value, where=str(right.span)))
        rows.add("progress", f"loss.{key}", f"loss at {key}", sides, note)
    seconds = [
        UNKNOWN if curve.step_s is None else SideValue(value=f"{curve.step_s:.3g} s", where=str(curve.step_span))
        for curve in (a, b)
    ]
    if a.step_s and b.step_s and abs(a.step_s - b.step_s) <= _STEP_TIME * a.step_s:
        seconds[1] = seconds[0]
    note = change(a.step_s, b.step_s) if a.step_s and b.step_s else ""
    rows.add("progress", "step_s", "time of a step", seconds, note)
    return parting


def _parting(a: Curve, b: Curve) -> Parting | None:
    """Where the losses part for good: a single step that differs is noise."""
    common = [key for key in a.losses if key in b.losses]
    apart = [_apart(a.losses[key].value, b.losses[key].value) for key in common]
    if not common or not apart[-1]:
        return None
    first = len(apart) - 1
    while first and apart[first - 1]:
        first -= 1
    return Parting(common[first], common[-1], len(common))


def _apart(a: float, b: float) -> bool:
    if not (isfinite(a) and isfinite(b)):
        return isfinite(a) != isfinite(b)
    return abs(a - b) > TOLERANCE * max(abs(a), abs(b), 1e-9)
