"""Whether a kernel log covers the time at which the initiating rank ended: only then its silence says something."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.engine.clocks import in_year_s
from firstfault.engine.endings import EXIT_EVENT
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.engine.derive.scope import Scope
    from firstfault.model.bundle import Coverage, SourceReport
    from firstfault.model.event import Clock
    from firstfault.model.fact import FactSet

PRODUCES = ("host.kernel_log_covers", "host.oom_kill")

MARGIN_S = 120.0
"""`dmesg -T` reckons from the boot and drifts, and a kill is printed a moment before the launcher sees the end."""
_KILLS = frozenset({"kernel.oom_kill", "host.oom_killed_process", "host.oom_killer_invoked", "host.oom_killer"})
_ZONE = lazy_pattern(r"(?:Z|UTC|(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d))$")


def derive(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """`host.kernel_log_covers`, and that there was no kill, if the log that covers the time holds none."""
    ended = _end_of_the_rank(scope)
    if ended is None:
        return
    logs = [(report, report.covers) for report in scope.aligned.bundle.reports if report.covers is not None]
    judged = [(report, log, _within(ended, log)) for report, log in logs if _is_of_the_host(log, scope)]
    for report, log, covers in judged:
        if covers:
            origin = f"{report.source.path} speaks from {log.first.text} to {log.last.text}"
            yield Fact(name="host.kernel_log_covers", value=True, origin=origin, spans=log.spans, basis="derived")
            if not any(map(_holds_a_kill, scope.aligned.bundle.reports)):
                yield Fact(
                    name="host.oom_kill", value="none", origin="no kill in the kernel log", spans=log.spans, basis="derived"
                )
            return
    if judged and all(covers is False for _, _, covers in judged):
        report, log, _ = judged[0]
        origin = f"{report.source.path} speaks from {log.first.text} to {log.last.text} only"
        yield Fact(name="host.kernel_log_covers", value=False, origin=origin, spans=log.spans[1:], basis="derived")


def _end_of_the_rank(scope: Scope) -> Clock | None:
    event = scope.event
    if event is None:
        return None
    if event.name == EXIT_EVENT and event.place.time is not None:
        return event.place.time
    for found in scope.aligned.exits:
        own = found.place.rank is not None and found.place.rank == scope.rank and not found.by_launcher
        if own and found.reporter != "kernel" and found.place.time is not None and scope.in_attempt(found.place):
            return found.place.time
    return None


def _is_of_the_host(log: Coverage, scope: Scope) -> bool:
    """True if it must be that host: by its name, or because the run has one host only."""
    if log.host is not None and scope.host is not None:
        short, other = log.host.partition(".")[0], scope.host.partition(".")[0]
        return short.casefold() == other.casefold()
    return scope.aligned.rank_map.first_ranks.keys() == {None}


def _within(ended: Clock, log: Coverage) -> bool | None:
    """Whether the end lies well inside the log's time; None where the clocks cannot be compared."""
    if not {ended.kind, log.first.kind} <= {"wall", "yearless"}:
        return None
    if ended.kind == log.first.kind == "wall":
        at, first, last = _readings(ended), _readings(log.first), _readings(log.last)
        if len(at) == len(first):
            at, first, last = at[:1], first[:1], last[:1]
    else:
        at, first, last = ([in_year_s(clock)] for clock in (ended, log.first, log.last))
    inside = [begin + MARGIN_S <= moment <= end - MARGIN_S for moment in at for begin, end in zip(first, last, strict=True)]
    outside = [moment < begin or moment > end for moment in at for begin, end in zip(first, last, strict=True)]
    # A clock without a zone may be local time or UTC: what is said must hold for both.
    return True if all(inside) else False if all(outside) else None


def _readings(clock: Clock) -> list[float]:
    """The moment as UTC, and as the local time that was printed if it has a zone."""
    zone = _ZONE.search(clock.text.strip())
    if zone is None or clock.text.replace(".", "").isdigit():
        return [clock.seconds]
    if zone["sign"] is None:
        return [clock.seconds, clock.seconds]
    offset_s = int(zone["hours"]) * 3600 + int(zone["minutes"]) * 60
    return [clock.seconds, clock.seconds + (offset_s if zone["sign"] == "+" else -offset_s)]


def _holds_a_kill(report: SourceReport) -> bool:
    return (
        any(event.name in _KILLS and not event.quoted for event in report.events)
        or any(fact.name == "host.oom_kill" for fact in report.facts)
        or any(found.reporter == "kernel" and found.code == -9 for found in report.exits)
    )
