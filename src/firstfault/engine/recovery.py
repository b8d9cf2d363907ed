"""Which errors the run survived: progress or a normal end of the same rank and attempt follows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from firstfault.engine.align import Aligned
from firstfault.engine.classes import Fault
from firstfault.engine.clocks import Clocks
from firstfault.engine.endings import signal_of
from firstfault.engine.reruns import earlier_runs, last_ends
from firstfault.engine.series import announced_totals, latest, training_series
from firstfault.engine.threads import missed_threads
from firstfault.knowledge.schema import CausalTable
from firstfault.model.event import Event, Place, ProcessExit, Progress

_FINISHED = frozenset({"run.finished", "train.finished", "training.finished", "launcher.finished"})
# A stop is announced: training may go on until the time of grace is over.
_ENDS_LATER = frozenset({"scheduler_stop", "exit_sigterm", "keyboard_interrupt"})
_STOP_SIGNALS = (2, 15)
_STARTS = frozenset({"launcher.started_workers", "trainer.started"})
MIN_LATER_LINES = 2
MIN_LATER_S = 1.0
MAX_FLUSH_S = 1700.0
MAX_LINES_BELOW_END = 3
BUFFER_BYTES = 8_192
"""What Python's standard output holds back where it is no terminal."""


def is_finish(event: Event) -> bool:
    """True for an end-of-training line."""
    return not event.quoted and (event.fault_class == "run_finished" or event.name in _FINISHED)


def ended_above(first: Event, aligned: Aligned) -> Event | None:
    """The run's own end line above `first` in the same source; None if training goes on between them: that is a later run."""
    ends = [end for end in aligned.events if is_finish(end) and end.source_id == first.source_id]
    above = [end for end in ends if end.span.offset < first.span.offset]
    for end in above:
        rank = end.place.rank
        if rank is None or first.place.rank is None or rank == first.place.rank:
            last = max((other.span.offset for other in above), default=end.span.offset)
            return None if _goes_on_between(last, first, aligned) else end
    return None


def _goes_on_between(offset: int, first: Event, aligned: Aligned) -> bool:
    # A bar that begins below the end counts an evaluation or an upload; steps of training have their series above it too.
    return any(
        sample.first_span is not None
        and sample.last_span is not None
        and sample.first_span.offset < offset < sample.last_span.offset < first.span.offset
        for sample in _progress_by_source(aligned).get(first.source_id, ())
    )


def run_finished(aligned: Aligned) -> bool:
    """True if the training loop reached its end: an end line, the last step of all, or exit code 0 of every known process."""
    if any(is_finish(event) for event in aligned.events):
        return True
    counted = latest(training_series(aligned.progress, announced_totals(aligned.events)))
    if counted and all(_is_complete(sample) for sample in counted):
        return True
    codes = [found.code for found in aligned.exits if not found.by_launcher]
    return bool(codes) and all(code == 0 for code in codes)


def recovered_faults(faults: Sequence[Fault], aligned: Aligned, causal: CausalTable) -> frozenset[Fault]:
    """Faults after which the same rank went on, or its source shows a normal end.

    What stands above a new launch at a shell prompt belongs to an earlier run: the last one is the one that is asked about.
    A thread that died is missed if its process waited for it in vain later: that was not survived.
    So does what stands above the last end of a job in a file to which several jobs appended.
    A stop from outside is also over when the job is started again below it and trains (a requeued job that appends to its log).
    A traceback is followed by progress also when a buffered stdout is written out at exit: then only a normal end, a later
    time or a further failure after that progress shows that the run survived.
    """
    finishes = [event for event in aligned.events if is_finish(event)]
    training = training_series(aligned.progress, announced_totals(aligned.events))
    progress = _progress_by_source(aligned)
    fresh = [event for event in aligned.events if event.name in _STARTS and _goes_on(event, progress.get(event.source_id, ()))]
    earlier, appended = earlier_runs(aligned.bundle), last_ends(aligned.bundle)
    survived = _survived_attempts(faults, aligned, finishes)
    ended = [
        found
        for found in aligned.exits
        if not (found.source_id in earlier or _is_above(found, appended) or _is_before(found.place.attempt, survived))
    ]
    failing = any(_is_bad(found) and not _is_past(found, finishes, fresh) for found in ended)
    last_own: dict[tuple[str, int | None], int] = {}
    for fault in faults:
        if not fault.is_exit and fault.tier > 1:
            # torch labels what ends a rank: beside such a label, a traceback without one was logged by somebody who went on.
            for rank in {fault.rank, None}:
                key = (fault.event.source_id, rank)
                last_own[key] = max(last_own.get(key, 0), fault.event.span.offset)
    out = set()
    missed = missed_threads(faults, aligned, causal)
    for fault in faults:
        event = fault.event
        over = (*(() if failing else finishes), *(fresh if fault.fault_class in _ENDS_LATER else ()))
        left_after_work = event.captures.get("inferred") and any(end.span.offset < event.span.offset for end in finishes)
        before = event.source_id in earlier or _is_above(event, appended) or _is_before(event.place.attempt, survived)
        if left_after_work or before or any(_was_survived(end, event, aligned) for end in over):
            out.add(fault)
        elif not fault.is_exit and not fault.kernel and fault not in missed:
            later = _progress_after(fault, progress.get(event.source_id, ()))
            failed_at = last_own.get((event.source_id, fault.rank), 0)
            done = (last for last in later if last in training and _is_complete(last))
            complete = not failing and not all(is_flushed_late(Place(time=last.last_time), event) for last in done)
            if complete or any(_went_on(fault, last, failed_at, failing) for last in later):
                out.add(fault)
    return frozenset(out)


def _progress_by_source(aligned: Aligned) -> dict[str, list[Progress]]:
    """The series of each source, with the attempt in which they end."""
    sources = (report.source.id for report in aligned.bundle.reports for _ in report.progress)
    found: dict[str, list[Progress]] = {}
    for source_id, sample in zip(sources, aligned.progress, strict=False):
        found.setdefault(source_id, []).append(sample)
    return found


def _survived_attempts(faults: Sequence[Fault], aligned: Aligned, finishes: Sequence[Event]) -> int | None:
    """The last attempt if the run was restarted and nothing ended it there although it went on; None otherwise."""
    if len(aligned.attempts) < 2:
        return None
    last = aligned.attempts[-1]
    if any(fault.event.place.attempt == last and fault.tier > 0 and fault.weight > 0 for fault in faults):
        return None
    if any(_is_bad(found) and found.place.attempt == last for found in aligned.exits):
        return None
    alive = any(event.place.attempt == last for event in finishes)
    return last if alive or any(sample.attempt == last for sample in aligned.progress) else None


def _is_before(attempt: int | None, survived: int | None) -> bool:
    return attempt is not None and survived is not None and attempt < survived


def _is_above(seen: Event | ProcessExit, ends: Mapping[str, int]) -> bool:
    return seen.span.offset <= ends.get(seen.source_id, -1)


def _is_bad(found: ProcessExit) -> bool:
    return found.code not in (None, 0) and not found.by_launcher


def _is_past(found: ProcessExit, finishes: Sequence[Event], fresh: Sequence[Event]) -> bool:
    stopped = signal_of(found.code or 0) in _STOP_SIGNALS
    return any(_follows(end, found) for end in (*finishes, *(fresh if stopped else ())))


def _goes_on(start: Event, progress: Iterable[Progress]) -> bool:
    return any(
        sample.last_span is not None
        and sample.last_span.offset > start.span.offset
        and sample.last_span.line - start.span.line >= MIN_LATER_LINES
        for sample in progress
    )


def is_flushed_late(later: Place, seen: Event) -> bool:
    """True if what stands below `seen` happened before it: a buffer was written out when the process ended."""
    if later.time is None or seen.place.time is None or later.time.kind != seen.place.time.kind:
        return False
    before_s = seen.place.time.seconds - later.time.seconds
    # Farther apart they may be of two time zones.
    return max(later.time.resolution_s, seen.place.time.resolution_s, MIN_LATER_S) < before_s < MAX_FLUSH_S


def _was_survived(end: Event, event: Event, aligned: Aligned) -> bool:
    """True if the end of the run, or a new start, stands below the fault and came after it."""
    return _follows(end, event) and not is_flushed_late(end.place, event) and not _may_be_flushed(end, event, aligned)


def _may_be_flushed(end: Event, event: Event, aligned: Aligned) -> bool:
    """True for an end line right below a traceback that reaches up to the script, both without a time.

    Python prints such a traceback when it gives up, and writes out what `print` had buffered after it.
    """
    traceback = aligned.traceback_of(event)
    if traceback is None or event.place.time is not None or end.place.time is not None:
        return False
    last = traceback.last
    outer = last.frames[0] if last.whole and last.frames else None
    from_script = outer is not None and outer.function == "<module>" and not outer.path.startswith("<")
    return from_script and end.span.line - last.span.line <= MAX_LINES_BELOW_END


def _is_complete(progress: Progress) -> bool:
    return bool(progress.total_steps) and progress.last_step is not None and _is_last(progress)


def _is_last(progress: Progress) -> bool:
    # Counts from 0 end one below the total.
    return (progress.last_step or 0) >= (progress.total_steps or 0) - 1 and (progress.total_steps or 0) > 1


def _follows(later: Event, seen: Event | ProcessExit) -> bool:
    same_source = later.source_id == seen.source_id and later.span.offset > seen.span.offset
    return same_source and (later.place.rank is None or seen.place.rank in (None, later.place.rank))


def _progress_after(fault: Fault, progress: Iterable[Progress]) -> list[Progress]:
    event = fault.event
    out = []
    for sample in progress:
        span = sample.last_span
        if span is None or sample.rank != fault.rank:
            continue
        if sample.attempt is not None and event.place.attempt is not None and sample.attempt != event.place.attempt:
            continue
        if span.offset > event.span.offset and span.line - event.span.line >= MIN_LATER_LINES and sample.is_repeated:
            out.append(sample)
    return out


def _went_on(fault: Fault, last: Progress, failed_at: int, failing: bool) -> bool:
    """`failed_at` is the offset of the last own failure of this rank in this source."""
    event, span = fault.event, last.last_span
    if span is not None and failed_at > span.offset:
        # An announced stop is no error: what fails in the time of grace after it does not show that it was survived.
        return fault.fault_class not in _ENDS_LATER
    if failing:
        return False
    if event.traceback is None and fault.fault_class not in _ENDS_LATER:
        return True
    above = last.first_span is not None and last.first_span.offset < event.span.offset < BUFFER_BYTES
    if above and last.last_time is not None:
        # A buffer of this size would have held back what stands above as well: the stream is written line by line. A bar, which
        # has no time, is drawn once more at the end.
        return True
    delay = Clocks().delay(event.place, Place(rank=fault.rank, host=event.place.host, time=last.last_time))
    return delay is not None and delay.seconds >= MIN_LATER_S
