"""Facts that follow from what was read: one module a subject, each naming what it produces.

Facts of a fault are taken from the rank, host and attempt of the initiating event; ranks are never mixed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.engine.derive import (
    batches,
    calls,
    checkpoint,
    collective,
    cuda,
    data,
    events,
    fault,
    frames,
    hangs,
    host,
    kernel_log,
    launch,
    memory,
    nodes,
    plan,
    process,
    run,
    script,
    shapes,
    skips,
    stacks,
    storage,
    weights,
)
from firstfault.engine.derive.scope import Scope
from firstfault.model.fact import Fact, FactSet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.engine.align import Aligned
    from firstfault.engine.attribute import Attribution
    from firstfault.knowledge.schema import Pack

# The order matters where two modules make one fact (the first wins) or one uses another's.
_MODULES = (
    *(fault, frames, cuda, host, events, run, launch, nodes, script, plan),
    *(memory, kernel_log, process, data, storage, checkpoint, batches, hangs, stacks, calls, collective),
    *(shapes, weights, skips),
)

_ARITHMETIC = ("oom.account", "oom.filled_by", "oom.outside_bytes", "oom.tensor", "oom.tensor_arithmetic")
"""What follows from the numbers of an out-of-memory message; its module is loaded where there are such numbers."""

PRODUCES: frozenset[str] = frozenset(name for module in _MODULES for name in module.PRODUCES).union(_ARITHMETIC)
"""Every fact that is derived here."""


def derive(aligned: Aligned, attribution: Attribution, pack: Pack, answered: Iterable[Fact] = ()) -> FactSet:
    """All facts of the investigation; what was answered (`--fact`) stands before what was read."""
    scope = Scope(aligned, attribution, pack)
    facts = FactSet()
    for fact in answered:
        facts.add(fact)
    # A message that may be a quotation tells a fact, it does not show it.
    alone = frozenset(event.span for event in aligned.events if event.alone)
    modules = [module.derive for module in _MODULES]
    for make in modules if attribution.fault_class != "device_oom" else (*modules, _arithmetic):
        for fact in make(scope, facts):
            facts.add(replace(fact, basis="told") if alone and fact.spans and alone.issuperset(fact.spans) else fact)
    return facts


def _arithmetic(scope: Scope, facts: FactSet) -> Iterable[Fact]:
    if "oom.requested_bytes" not in facts:
        return ()
    from firstfault.engine.derive import oom_arithmetic

    return oom_arithmetic.derive(scope, facts)
