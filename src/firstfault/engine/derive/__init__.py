"""Facts that follow from what was read: one module a subject, each naming what it produces.

Facts of a fault are taken from the rank, host and attempt of the initiating event; ranks are never mixed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from firstfault.engine.derive.scope import Scope
from firstfault.model.fact import Fact, FactSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from firstfault.engine.align import Aligned
    from firstfault.engine.attribute import Attribution
    from firstfault.knowledge.schema import Pack

# The order matters where two modules make one fact (the first wins) or one uses another's.
_MODULES = (
    *("fault", "frames", "cuda", "host", "events", "run", "launch", "nodes", "script", "plan"),
    *("memory", "kernel_log", "process", "data", "storage", "checkpoint", "batches", "hangs", "stacks", "calls", "collective"),
    *("shapes", "weights", "skips"),
)
_ONLY_WITH: dict[str, Callable[[Aligned], object]] = {
    "kernel_log": lambda aligned: any(report.covers is not None for report in aligned.bundle.reports),
    "hangs": lambda aligned: aligned.hang is not None,
    "stacks": lambda aligned: any(report.stacks or report.ras for report in aligned.bundle.reports),
    "skips": lambda aligned: any(
        event.name == "num.step_skipped" for report in aligned.bundle.reports for event in report.events
    ),
}
"""What must have been read for a module to find anything; without it the module is not even loaded."""

_ARITHMETIC = ("oom.account", "oom.filled_by", "oom.outside_bytes", "oom.tensor", "oom.tensor_arithmetic")
"""What follows from the numbers of an out-of-memory message; its module is loaded where there are such numbers."""


def produces() -> frozenset[str]:
    """Every fact that is derived here."""
    return frozenset(name for module in _MODULES for name in _module(module).PRODUCES).union(_ARITHMETIC)


def derive(aligned: Aligned, attribution: Attribution, pack: Pack, answered: Iterable[Fact] = ()) -> FactSet:
    """All facts of the investigation; what was answered (`--fact`) stands before what was read."""
    scope = Scope(aligned, attribution, pack)
    facts = FactSet()
    for fact in answered:
        facts.add(fact)
    # A message that may be a quotation tells a fact, it does not show it.
    alone = frozenset(event.span for event in aligned.events if event.alone)
    for make in _derivers(aligned, attribution):
        for fact in make(scope, facts):
            facts.add(replace(fact, basis="told") if alone and fact.spans and alone.issuperset(fact.spans) else fact)
    return facts


def _derivers(aligned: Aligned, attribution: Attribution) -> Iterator[Callable[[Scope, FactSet], Iterable[Fact]]]:
    for name in _MODULES:
        if name not in _ONLY_WITH or _ONLY_WITH[name](aligned):
            yield _module(name).derive
    if attribution.fault_class == "device_oom":
        yield _arithmetic


def _module(name: str) -> Any:
    return import_module(f"{__name__}.{name}")


def _arithmetic(scope: Scope, facts: FactSet) -> Iterable[Fact]:
    if "oom.requested_bytes" not in facts:
        return ()
    from firstfault.engine.derive import oom_arithmetic

    return oom_arithmetic.derive(scope, facts)
