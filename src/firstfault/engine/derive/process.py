"""How processes ended: exit code and signal of the initiating rank, who sent the signal, whom the kernel killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.fact import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.engine.derive.scope import Scope
    from firstfault.model.event import ProcessExit
    from firstfault.model.fact import FactSet

PRODUCES = (
    "exit.code",
    "exit.signal",
    "exit.signal_from_launcher",
    "exit.signal_sender",
    "exit.all_ranks_at_once",
    "host.oom_victim",
)
_CONSOLES = frozenset({"elastic", "accelerate", "spawn"})
# They say of every process that they kill it, of the one that failed as well: that proves nothing about the first end.
_STOP_ALL = frozenset({"deepspeed"})
_SIGNAL_CLASSES = {"exit_sigkill": 9, "exit_sigterm": 15, "exit_sighup": 1, "keyboard_interrupt": 2}
_LAUNCHER_CLASSES = frozenset({"launcher_report", "launcher_sigterm"})
# A process can raise the others by itself; an interrupt comes from a keyboard, which leaves no record.
_SENT_SIGNALS = frozenset({1, 9, 15})
_RECORDERS = frozenset({"slurm", "kubernetes"})
_SENDER_CLASSES = frozenset({"host_oom_kill", "scheduler_stop", "keyboard_interrupt"})
_AT_ONCE_S = 5.0


def derive(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """Facts of the exits of the initiating rank and of its host."""
    exits = [exit_ for exit_ in scope.aligned.exits if scope.in_attempt(exit_.place)]
    yield from _code(scope, exits)
    yield from _launcher(scope, exits)
    yield from _sender(scope, facts)
    yield from _at_once(exits)
    yield from _victim(scope, exits)


def _own(scope: Scope, exits: list[ProcessExit]) -> list[ProcessExit]:
    if scope.event is None:
        return []
    pid = scope.event.place.pid
    found = [exit_ for exit_ in exits if exit_.place.rank is not None and exit_.place.rank == scope.rank]
    if pid is not None:
        of_process = (exit_ for exit_ in exits if exit_.place.pid == pid)
        found += [exit_ for exit_ in of_process if exit_.place.rank is None or exit_.place.rank != scope.rank]
    if not found and scope.rank is None:
        found = [exit_ for exit_ in exits if exit_.span == scope.event.span]
    return found


def _code(scope: Scope, exits: list[ProcessExit]) -> Iterator[Fact]:
    for exit_ in _own(scope, exits):
        if exit_.code is not None and not exit_.by_launcher:
            # A shell or a container prints 128 + n for a process that signal n ended.
            code = -(exit_.code - 128) if 128 < exit_.code <= 128 + 64 else exit_.code
            yield Fact(name="exit.code", value=code, origin=f"{exit_.reporter} report", spans=(exit_.span,))
            if code < 0:
                yield Fact(name="exit.signal", value=-code, origin=f"{exit_.reporter} report", spans=(exit_.span,))
            return
    event = scope.event
    value = _SIGNAL_CLASSES.get(scope.attribution.fault_class)
    if event is not None and value is not None:
        yield Fact(name="exit.signal", value=value, origin="how the process ended", spans=(event.span,))


def _launcher(scope: Scope, exits: list[ProcessExit]) -> Iterator[Fact]:
    own = _own(scope, exits)
    pids = {exit_.place.pid for exit_ in own if exit_.place.pid is not None}
    if scope.event is not None and scope.event.place.pid is not None:
        pids.add(scope.event.place.pid)
    for exit_ in exits:
        if not exit_.by_launcher or exit_.reporter in _STOP_ALL:
            continue
        if exit_ in own or (exit_.place.pid is not None and exit_.place.pid in pids):
            yield Fact(name="exit.signal_from_launcher", value=True, origin=f"{exit_.reporter} console", spans=(exit_.span,))
            return
    for exit_ in own:
        if exit_.reporter in _STOP_ALL and not exit_.by_launcher and exit_.code is not None and exit_.code < 0:
            origin = f"the {exit_.reporter} launcher saw this end before it killed anything"
            yield Fact(name="exit.signal_from_launcher", value=False, origin=origin, spans=(exit_.span,), basis="derived")
            return
    console = [exit_ for exit_ in exits if exit_.reporter in _CONSOLES]
    if pids and console:
        origin = f"pid {min(pids)} is in no such line of the {console[0].reporter} console"
        yield Fact(name="exit.signal_from_launcher", value=False, origin=origin, spans=(console[0].span,), basis="derived")


def _sender(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    record = facts.get("host.oom_kill")
    if record is not None and record.value in {"system", "memcg"}:
        sender = "kernel_oom" if record.value == "system" else "cgroup_oom"
        yield Fact(name="exit.signal_sender", value=sender, origin="kernel record", spans=record.spans, basis="derived")
    elif scope.attribution.fault_class == "scheduler_stop" and scope.event is not None:
        yield Fact(
            name="exit.signal_sender", value="scheduler", origin="scheduler record", spans=(scope.event.span,), basis="derived"
        )
    elif facts.value("exit.signal") in _SENT_SIGNALS:
        yield from _unrecorded(scope, facts)


def _unrecorded(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """The launcher, if it says so; else nobody is on record, if a source that would hold the record was handed over.

    Without such a source the sender is an open question, which is not the same as a search without result.
    """
    told = facts.get("exit.signal_from_launcher")
    if told is not None and told.value:
        yield Fact(name="exit.signal_sender", value="launcher", origin=told.origin, spans=told.spans, basis="derived")
    elif _was_looked_for(scope, facts) and facts.value("sched.stop") in (None, "none") and not _named_sender(scope):
        signal = facts.get("exit.signal")
        spans = signal.spans if signal is not None else ()
        yield Fact(name="exit.signal_sender", value="unknown", origin="no record of a sender", spans=spans, basis="derived")


def _was_looked_for(scope: Scope, facts: FactSet) -> bool:
    kinds = {report.source.kind for report in scope.aligned.bundle.reports}
    return facts.value("host.kernel_log_covers") is True or not kinds.isdisjoint(_RECORDERS)


def _named_sender(scope: Scope) -> bool:
    return any(
        scope.class_of(event) in _SENDER_CLASSES and not event.quoted and scope.in_attempt(event.place)
        for event in scope.aligned.events
    )


def _at_once(exits: list[ProcessExit]) -> Iterator[Fact]:
    own = {exit_.place.rank: exit_ for exit_ in exits if exit_.place.rank is not None and not exit_.by_launcher and exit_.code}
    times = [exit_.place.time for exit_ in own.values() if exit_.place.time is not None]
    if len(own) < 2 or len(times) < len(own) or len({clock.kind for clock in times}) != 1:
        return
    spread = max(clock.seconds for clock in times) - min(clock.seconds for clock in times)
    same = len({exit_.code for exit_ in own.values()}) == 1
    spans = tuple(exit_.span for exit_ in own.values())[:2]
    value = same and spread <= _AT_ONCE_S
    yield Fact(name="exit.all_ranks_at_once", value=value, origin="exit codes and times", spans=spans, basis="derived")


def _victim(scope: Scope, exits: list[ProcessExit]) -> Iterator[Fact]:
    killed = [exit_ for exit_ in exits if exit_.reporter == "kernel" and exit_.place.pid is not None]
    if not killed:
        return
    ranks: set[object] = {exit_.place.pid for exit_ in exits if exit_.reporter != "kernel" and exit_.place.pid is not None}
    ranks |= {event.captures.get("pid") for event in scope.aligned.events if event.fault_class in _LAUNCHER_CLASSES}
    workers = {event.captures.get("pid") for event in scope.aligned.events if event.fault_class == "dataloader_worker_killed"}
    for exit_ in killed:
        if exit_.place.pid in ranks or exit_.place.pid in workers:
            victim = "rank" if exit_.place.pid in ranks else "dataloader_worker"
            yield Fact(
                name="host.oom_victim", value=victim, origin="pid of the kill record", spans=(exit_.span,), basis="derived"
            )
            return
