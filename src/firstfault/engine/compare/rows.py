"""Rows of two values: those that differ, those that only one side shows, and how many are alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from firstfault.model.comparison import Difference, SideValue, Topic
from firstfault.model.plan import Scalar

MAX_ROWS = 2_000

UNKNOWN = SideValue(state="unknown")
ABSENT = SideValue(state="absent")


class Rows:
    """Takes pairs of values and keeps what is worth telling."""

    def __init__(self) -> None:
        self.differences: list[Difference] = []
        self.unknown: list[Difference] = []
        self.equal: Counter[str] = Counter()
        self._ids: set[str] = set()

    def add(self, topic: Topic, ident: str, name: str, sides: Iterable[SideValue], note: str = "") -> bool:
        """Keep the values of A and B; True if the values are known to differ. A second pair of the same `ident` is left out."""
        a, b = sides
        if ident in self._ids or len(self._ids) >= MAX_ROWS or (a.state != "known" and b.state != "known"):
            return False
        self._ids.add(ident)
        row = Difference(id=ident, topic=topic, name=name, a=a, b=b, note=note)
        if "unknown" in (a.state, b.state):
            self.unknown.append(row)
            return False
        if a.state == b.state and same(a.value, b.value):
            self.equal[topic] += 1
            return False
        self.differences.append(row)
        return True


def known(value: Scalar, where: str = "") -> SideValue:
    """A value that one side has; None is not known."""
    return UNKNOWN if value is None else SideValue(value=value, where=where)


def same(a: Scalar, b: Scalar) -> bool:
    """True if two values mean the same: `True`, `true` and true; 1 and `1`; 2e-5 and `0.00002`."""
    if a == b:
        return True
    left, right = str(a).strip().lower(), str(b).strip().lower()
    if left == right:
        return True
    try:
        return float(left) == float(right)
    except ValueError:
        return False
