"""What the captures of signals say: each signal names the facts it carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Fact, FactValue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.engine.derive.scope import Scope
    from firstfault.knowledge.schema import FactSpec, Signal
    from firstfault.model.event import CaptureValue, Event
    from firstfault.model.fact import FactSet

PRODUCES: tuple[str, ...] = ()
"""None of its own: the signals say which."""

_CAPTURE = lazy_pattern(r"\{([A-Za-z_][A-Za-z0-9_]*)\}\Z")
# How near an event must be to the initiating one for its facts to belong to the fault; all other families hold for the job.
_MESSAGE_FAMILIES = frozenset({"oom", "exc"})
_RANK_FAMILIES = frozenset(
    {"cuda", "data", "ckpt", "num", "collective", "nccl", "memory", "autograd", "hub", "compile", "exit", "peer"}
)
_HOST_FAMILIES = frozenset({"host", "gpu"})


def derive(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """Facts of the message of the initiating event, then of its rank, its host and the job; then those that readers made."""
    signals = {signal.id: signal for signal in scope.pack.signals if signal.facts}
    message = {id(event) for event in scope.on_the_line}
    for event in (*scope.on_the_line, *scope.events()):
        signal = signals.get(event.signal)
        if signal is None:
            continue
        for name, template in signal.facts.items():
            if _belongs(name, event, scope, in_message=id(event) in message):
                fact = _fact(name, template, event, signal, scope.pack.facts.get(name))
                if fact is not None:
                    yield fact
    yield from _read_facts(scope)


def _belongs(name: str, event: Event, scope: Scope, *, in_message: bool) -> bool:
    family = name.split(".", 1)[0]
    if in_message:
        return True
    if family in _MESSAGE_FAMILIES:
        return False
    if family in _RANK_FAMILIES:
        return scope.on_rank(event)
    if family in _HOST_FAMILIES:
        return scope.on_host(event)
    return True


def _fact(name: str, template: CaptureValue, event: Event, signal: Signal, spec: FactSpec | None) -> Fact | None:
    if spec is None:
        return None
    value: FactValue | None = template
    rounded = False
    if isinstance(template, str):
        hole = _CAPTURE.match(template)
        if hole:
            value = event.captures.get(hole[1])
            rounded = signal.holes.get(hole[1]) == "size" and isinstance(value, int) and value >= 1024
    if value is None or (spec.type == "bool" and not isinstance(value, bool)):
        return None
    return Fact(name=name, value=value, origin=f"signal {signal.id}", spans=(event.span,), rounded=rounded)


def _read_facts(scope: Scope) -> Iterator[Fact]:
    for report in scope.aligned.bundle.reports:
        place = report.source.place
        foreign = scope.event is not None and (
            (place.rank is not None and scope.rank is not None and place.rank != scope.rank) or not scope.in_attempt(place)
        )
        host = report.covers.host if report.covers is not None else place.host
        elsewhere = host is not None and scope.host is not None and host != scope.host
        for fact in report.facts:
            family = fact.name.split(".", 1)[0]
            if elsewhere and family in _HOST_FAMILIES:
                continue
            if not foreign or family not in _MESSAGE_FAMILIES | _RANK_FAMILIES:
                yield fact
