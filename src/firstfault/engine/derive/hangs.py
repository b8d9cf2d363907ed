"""Facts that the records of the ranks' collectives give: how the suspected rank differs, and in what the calls differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.fact import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.engine.derive.scope import Scope
    from firstfault.model.collective import HangSuspect
    from firstfault.model.fact import FactSet, FactValue
    from firstfault.model.span import SourceSpan

PRODUCES = (
    "collective.dumps_of_all",
    "collective.suspect_kind",
    "collective.suspect_alive",
    "collective.op_differs",
    "collective.shape_differs",
    "collective.minority_rank",
    "collective.all_equal",
    "collective.backend",
    "collective.is_first",
)
_KINDS = {
    "no-record": "no_record",
    "never-entered": "never_entered",
    "gpu-stalled": "gpu_stalled",
    "behind": "behind",
    "divergent-call": "divergent",
    "order-inversion": "divergent",
    "fabric-or-library": "fabric",
    "host-blocked": "host_blocked",
}
_WITH_A_RECORD = frozenset({"never-entered", "behind", "host-blocked", "gpu-stalled"})
_BACKENDS = frozenset({"nccl", "gloo", "mpi", "xccl", "hccl"})
_CLASSES = frozenset({"collective_timeout", "peer_lost", "collective_mismatch"})


def derive(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """Facts of the analysis, if the failure is one of waiting; whether the records of all ranks are there in any case."""
    found = scope.aligned.hang
    if found is None:
        return
    yield _fact("collective.dumps_of_all", not found.partial, "the ranks that the dumps name and those that wrote one", ())
    if scope.attribution.fault_class not in _CLASSES:
        return
    records = [record for report in scope.aligned.bundle.reports for record in report.records]
    backend = next((record for record in records if record.backend), None)
    if backend is not None and backend.span is not None:
        name = backend.backend if backend.backend in _BACKENDS else "other"
        yield _fact("collective.backend", name, "the names of the calls in the dumps", (backend.span,))
    late = next((one for one in found.waiting if one.seq > 1), None)
    if late is not None and all(one.seq > 1 for one in found.suspects if one.seq is not None):
        origin = f"the pending call is number {late.seq} of {late.group}"
        yield _fact("collective.is_first", False, origin, (late.span,))
    if not found.suspects:
        return
    first = found.suspects[0]
    kinds = {one.kind for one in found.suspects}
    if len(kinds) == 1 or first.confidence == "high":
        yield _fact("collective.suspect_kind", _KINDS[first.kind], first.says, first.evidence)
    if all(one.kind in _WITH_A_RECORD for one in found.suspects):
        yield _fact("collective.suspect_alive", True, "it wrote a dump when the others had waited too long", first.evidence)
    yield from _calls(first)
    if found.all_equal is not None:
        yield _fact("collective.all_equal", found.all_equal, first.says, first.evidence)


def _calls(first: HangSuspect) -> Iterator[Fact]:
    if first.kind != "divergent-call":
        return
    other = first.not_reached
    differs = "collective.op_differs" if other is not None and other.op != first.op else "collective.shape_differs"
    yield _fact(differs, True, first.says, first.evidence)
    if first.confidence == "high" and first.rank is not None:
        yield _fact("collective.minority_rank", first.rank, first.says, first.evidence)


def _fact(name: str, value: FactValue, origin: str, spans: tuple[SourceSpan, ...]) -> Fact:
    return Fact(name=name, value=value, origin=origin, spans=spans, basis="derived")
