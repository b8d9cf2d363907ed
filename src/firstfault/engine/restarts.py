"""Where the console of a launcher shows that its workers were started anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from firstfault.model.bundle import Bundle, SourceReport
from firstfault.model.event import Event, ProcessExit

Marks = Mapping[str, tuple[int, ...]]
"""By source id: the offset of the launcher's last word about each attempt that another one follows."""

_RESTART = "launcher.restarts_workers"
_FAILED = "launcher.worker_failed"
_LAST_WORDS = frozenset({"launcher.child_failed", "launcher.root_cause_block"})
_FINISHED = frozenset({"run.finished", "train.finished", "training.finished", "launcher.finished"})
MAX_RESTARTS = 1000


def restart_marks(bundle: Bundle) -> Marks:
    """Each source in which one launcher's account closes an attempt that another one follows.

    torchelastic says `failed (exitcode ...)` once an attempt, when all its workers are gone, and that it restarts them only at
    a log level that is off by default: a second account about other processes, or workers that print on, show the restart.
    """
    found = {report.source.id: _marks(report) for report in bundle.reports if not report.source.place.attempt}
    return {source_id: marks for source_id, marks in found.items() if marks}


def attempt_of(offset: int, marks: Sequence[int]) -> int:
    """The number of the attempt, from 0, that prints at `offset`."""
    return sum(offset > mark for mark in marks)


def _marks(report: SourceReport) -> tuple[int, ...]:
    announced = [event.span.offset for event in report.events if event.name == _RESTART and not event.quoted]
    accounts = _accounts(report)
    if not accounts:
        return tuple(sorted(announced)[:MAX_RESTARTS])
    last = accounts[-1]
    ends = [event.span.offset for event in report.events if event.name in _LAST_WORDS]
    over = any(offset > last for offset in ends)
    goes_on = any(offset > last for offset in announced) or (not over and _lives_after(last, report))
    return tuple((accounts if goes_on else accounts[:-1])[:MAX_RESTARTS])


def _accounts(report: SourceReport) -> list[int]:
    """Offsets of the lines in which one launcher closes an attempt, each about another process; the busiest launcher counts.

    Lines that do not say which launcher prints them may be of several nodes.
    """
    speakers = {event.span.line: event.place.pid for event in report.events if event.name == _FAILED}
    by_launcher: dict[int, dict[int | None, int]] = {}
    for found in sorted(report.exits, key=lambda found: found.span.offset):
        launcher = speakers.get(found.span.line)
        if launcher is not None and _closes(found):
            by_launcher.setdefault(launcher, {}).setdefault(found.place.pid, found.span.offset)
    return list(max(by_launcher.values(), key=len, default={}).values())


def _closes(found: ProcessExit) -> bool:
    # The entries of the closing block name the rank too.
    place = found.place
    local = place.local_rank is not None and place.pid is not None and place.rank is None
    return found.reporter == "elastic" and not found.by_launcher and local


def _lives_after(offset: int, report: SourceReport) -> bool:
    if any(event.span.offset > offset and _is_life(event) for event in report.events):
        return True
    return any(
        sample.last_span is not None and sample.last_span.offset > offset and sample.is_repeated for sample in report.progress
    )


def _is_life(event: Event) -> bool:
    return not event.quoted and (event.name in _FINISHED or event.fault_class == "run_finished")
