"""The rank that did not arrive: how it differs from those that waited for it, whether it lived, and what it was doing.

Only what must be so is said. A rank that only prints nothing may have waited as well: it must have printed something while the
others waited, have been stopped in other work, or have counters that show it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.engine.clocks import Delay, ran_for_s, started
from firstfault.engine.derive.activity_table import activity_of_frames, activity_of_line
from firstfault.engine.derive.calls import waits_of
from firstfault.engine.last_lines import work_of
from firstfault.engine.votes import collective_call, never_entered
from firstfault.engine.watchdog_records import suspects_by_counters
from firstfault.model.fact import Fact
from firstfault.model.span import SourceSpan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from firstfault.engine.classes import Fault
    from firstfault.engine.derive.scope import Scope
    from firstfault.model.bundle import RankEnd
    from firstfault.model.event import Event, Frame
    from firstfault.model.fact import FactSet, FactValue

PRODUCES = (
    "collective.suspect_kind",
    "collective.suspect_alive",
    "collective.suspect_activity",
    "collective.in_generate",
    "exit.zero_before_peers",
)
_CLASSES = frozenset({"collective_timeout", "peer_lost", "collective_mismatch"})
_STOPPED = frozenset({"SignalException", "KeyboardInterrupt", "SystemExit"})
_STOP_ALL = frozenset({"deepspeed"})
_SIGTERM = 15
# Ranks do not enter a call at once: later than this part of the limit is more than the usual lag.
_LATE = 0.05
_STEPS = "train"
_OUTSIDE = frozenset({"save", "read", "download", "preprocess", "compile", "evaluation", "tracker"})


def derive(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """Facts of the suspected rank, of generate() in the pending calls, and of a rank that had left with code 0."""
    waits = waits_of(scope)
    left = next((f.event for f in scope.faults.values() if f.fault_class == "exit_zero_early"), None)
    if left is not None and scope.in_attempt(left.place):
        yield _fact("exit.zero_before_peers", True, "neither failed nor stopped by the launcher", (left.span,))
    yield from _generate(scope, waits)
    if scope.attribution.fault_class == "watchdog_stuck" and scope.event is not None and scope.rank is not None:
        yield _fact("collective.suspect_kind", "host_blocked", "its own watchdog stands still", (scope.event.span,))
        return
    suspect = scope.attribution.rank if scope.attribution.fault_class in _CLASSES else None
    if suspect is None or all(fault.rank == suspect for fault in waits):
        yield from _kind_of_nobody(facts)
        return
    looked = _Suspect(scope, suspect, waits)
    kind = looked.kind(facts)
    if kind is not None:
        yield kind
    alive = looked.alive()
    if alive is not None:
        yield alive
    activity = looked.activity()
    if activity is not None:
        yield activity


def _kind_of_nobody(facts: FactSet) -> Iterator[Fact]:
    if facts.value("collective.all_equal") is True:
        spans = facts["collective.all_equal"].spans
        yield _fact("collective.suspect_kind", "fabric", "all ranks entered the operation and none left it", spans)
    elif True in (facts.value("collective.op_differs"), facts.value("collective.shape_differs")):
        yield _divergent(facts)
    elif facts.value("exit.zero_before_peers") is True:
        spans = facts["exit.zero_before_peers"].spans
        yield _fact("collective.suspect_kind", "exited_zero", "a rank had left with code 0", spans)


def _divergent(facts: FactSet) -> Fact:
    name = "collective.op_differs" if facts.value("collective.op_differs") is True else "collective.shape_differs"
    return _fact("collective.suspect_kind", "divergent", "the ranks' calls differ", facts[name].spans)


class _Suspect:
    """What was read of one rank that is suspected, held against the waits of the others."""

    def __init__(self, scope: Scope, rank: int, waits: Sequence[Fault]) -> None:
        self._scope = scope
        self._rank = rank
        self._waits = [fault for fault in waits if fault.rank != rank]
        self._own = [fault for fault in waits if fault.rank == rank]
        self._stack = self._stopped_in()
        self._signs = list(work_of(scope.aligned, rank, scope.attempt))

    def kind(self, facts: FactSet) -> Fact | None:
        """How it differs; None where nothing shows it."""
        if True in (facts.value("collective.op_differs"), facts.value("collective.shape_differs")):
            return _divergent(facts)
        entered = never_entered(self._scope.aligned, self._scope.attempt)
        if self._rank in entered:
            origin = "all it had enqueued was completed while the others waited"
            return _fact("collective.suspect_kind", "never_entered", origin, (entered[self._rank].span,))
        counted = self._by_counters()
        if counted is not None or self._own:
            return counted
        late = self._printed_late()
        if late is not None:
            origin = "it printed this while the others waited"
            return _fact("collective.suspect_kind", "never_entered", origin, (_span(*late),))
        if self._stack and not self._waited() and activity_of_frames(self._stack) in _OUTSIDE:
            origin = "it was stopped in other work"
            return _fact("collective.suspect_kind", "never_entered", origin, (self._stack[-1].span,))
        return None

    def alive(self) -> Fact | None:
        """True if it printed something while the others waited, or had to be stopped after they gave up."""
        if self._own or not self._waits:
            return None
        late = self._printed_late()
        if late is not None:
            return _fact("collective.suspect_alive", True, "it printed this while the others waited", (_span(*late),))
        entered = never_entered(self._scope.aligned, self._scope.attempt).get(self._rank)
        if entered is not None:
            return _fact("collective.suspect_alive", True, "it printed this after the others had given up", (entered.span,))
        for exit_ in self._scope.aligned.exits:
            told = exit_.by_launcher and exit_.reporter not in _STOP_ALL
            if exit_.place.rank == self._rank and self._scope.in_attempt(exit_.place) and (told or exit_.code == -_SIGTERM):
                return _fact("collective.suspect_alive", True, "the launcher had to stop it", (exit_.span,))
        return None

    def activity(self) -> Fact | None:
        """What it was doing: the stack on which it was stopped, else its last lines, the newest first."""
        if self._stack:
            found = "collective" if self._waited() else activity_of_frames(self._stack)
            if found is not None:
                return _fact("collective.suspect_activity", found, "the stack on which it was stopped", (self._stack[-1].span,))
        for path, line in reversed(self._signs):
            found = activity_of_line(line.text)
            if found == _STEPS and line is not self._signs[-1][1]:
                # It had gone on to something else, of which the line says nothing.
                return None
            if found is not None:
                return _fact("collective.suspect_activity", found, "its last lines", (_span(path, line),)) if found else None
        return None

    def _stopped_in(self) -> tuple[Frame, ...]:
        """The frames of the exception with which a signal ended it."""
        for traceback in self._scope.aligned.tracebacks.values():
            root = traceback.root
            if traceback.place.rank == self._rank and root.type.rpartition(".")[2] in _STOPPED and root.frames:
                return tuple(frame for frame in root.frames if "multiprocessing/api.py" not in frame.path)
        return ()

    def _waited(self) -> bool:
        return any("torch/distributed/distributed_c10d.py" in frame.path for frame in self._stack)

    def _printed_late(self) -> tuple[str, RankEnd] | None:
        """Its last line if it was printed long after the others had begun to wait."""
        for path, line in reversed(self._signs):
            for wait in self._waits:
                limit = ran_for_s(wait.event)
                since = self._since_start(self._timed(wait), limit, line) if limit else None
                if since is not None and limit and since.seconds > max(since.error_s, _LATE * limit):
                    return path, line
        return None

    def _since_start(self, wait: Event, limit: float, line: RankEnd) -> Delay | None:
        """How long after the start of a wait a line was printed; far apart, clocks of two kinds cannot be compared."""
        clocks = self._scope.aligned.clocks
        to_end = clocks.delay(wait.place, line.place)
        return clocks.delay(started(wait), line.place) if to_end is None else Delay(to_end.seconds + limit, to_end.error_s)

    def _timed(self, wait: Fault) -> Event:
        """The wait at a time: where its line has none, no later than its process ended."""
        if wait.event.place.time is not None:
            return wait.event
        for exit_ in self._scope.aligned.exits:
            own = exit_.place.rank == wait.rank and not exit_.by_launcher and self._scope.in_attempt(exit_.place)
            if own and exit_.place.time is not None:
                return replace(wait.event, place=replace(wait.event.place, time=exit_.place.time))
        return wait.event

    def _by_counters(self) -> Fact | None:
        """What the counters of the watchdogs hold against it."""
        for one in suspects_by_counters(self._scope.aligned, self._scope.attempt):
            if one.rank == self._rank:
                # By counters alone a rank without an open call is late; that it did other work takes another line.
                kind = "gpu_stalled" if one.kind == "gpu-stalled" else "behind"
                return _fact("collective.suspect_kind", kind, one.says, one.evidence[:1])
        return None


def _generate(scope: Scope, waits: Sequence[Fault]) -> Iterator[Fact]:
    """Whether a pending call stands inside generate(): False only if the stacks of the waiting ranks are whole."""
    whole: list[SourceSpan] = []
    for fault in waits:
        traceback = scope.aligned.traceback_of(fault.event)
        if traceback is None:
            continue
        for frame in traceback.root.frames:
            if frame.function == "generate" or "transformers/generation/" in frame.path:
                yield _fact("collective.in_generate", True, "the stack of the call", (frame.span,))
                return
        if traceback.root.whole and collective_call(traceback):
            whole.append(traceback.root.frames[-1].span)
    if whole:
        yield _fact("collective.in_generate", False, "no frame of generate() in the stacks of the calls", tuple(whole[:2]))


def _span(path: str, line: RankEnd) -> SourceSpan:
    return SourceSpan(path, line.line, line.offset)


def _fact(name: str, value: FactValue, origin: str, spans: tuple[SourceSpan, ...]) -> Fact:
    return Fact(name=name, value=value, origin=origin, spans=spans, basis="derived")
