"""Which errors the run survived: progress or a normal end of the same rank and attempt follows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from firstfault.engine.align import Aligned
from firstfault.engine.classes import Fault
from firstfault.engine.clocks import Clocks
from firstfault.model.event import Event, Place, Progress

_FINISHED = frozenset({"run.finished", "train.finished", "training.finished", "launcher.finished"})
MIN_LATER_LINES = 2
MIN_LATER_S = 1.0


def is_finish(event: Event) -> bool:
    """True for an end-of-training line."""
    return not event.quoted and (event.fault_class == "run_finished" or event.name in _FINISHED)


def run_finished(aligned: Aligned) -> bool:
    """True if the training loop reached its end: an end line, the last step of all, or exit code 0 of every known process."""
    if any(is_finish(event) for event in aligned.events):
        return True
    done = [p for p in aligned.progress if p.total_steps and p.last_step is not None]
    if done and all(p.last_step is not None and p.total_steps is not None and _is_last(p) for p in done):
        return True
    codes = [found.code for found in aligned.exits if not found.by_launcher]
    return bool(codes) and all(code == 0 for code in codes)


def recovered_faults(faults: Sequence[Fault], aligned: Aligned) -> frozenset[Fault]:
    """Faults after which the same rank went on.

    A traceback is followed by progress also when a buffered stdout is written out at exit: then only a normal end, a later
    time or a further failure after that progress shows that the run survived.
    """
    finishes = [event for event in aligned.events if is_finish(event)]
    failing = any(found.code not in (None, 0) and not found.by_launcher for found in aligned.exits)
    out = set()
    for fault in faults:
        if fault.is_exit or fault.kernel:
            continue
        last = _progress_after(fault, aligned.progress)
        complete = last is not None and last.total_steps is not None and _is_last(last)
        ended_well = not failing and (complete or any(_follows(finish, fault) for finish in finishes))
        if ended_well or (last is not None and _went_on(fault, last, faults, failing)):
            out.add(fault)
    return frozenset(out)


def _is_last(progress: Progress) -> bool:
    # Counts from 0 end one below the total.
    return (progress.last_step or 0) >= (progress.total_steps or 0) - 1 and (progress.total_steps or 0) > 1


def _follows(finish: Event, fault: Fault) -> bool:
    same_source = finish.source_id == fault.event.source_id and finish.span.offset > fault.event.span.offset
    return same_source and (finish.place.rank is None or fault.rank is None or finish.place.rank == fault.rank)


def _progress_after(fault: Fault, progress: Iterable[Progress]) -> Progress | None:
    event = fault.event
    for sample in progress:
        span = sample.last_span
        if span is None or span.source != event.span.source or sample.rank != fault.rank:
            continue
        if sample.attempt is not None and event.place.attempt is not None and sample.attempt != event.place.attempt:
            continue
        if (
            span.offset > event.span.offset
            and span.line - event.span.line >= MIN_LATER_LINES
            and sample.lines >= MIN_LATER_LINES
        ):
            return sample
    return None


def _went_on(fault: Fault, last: Progress, faults: Sequence[Fault], failing: bool) -> bool:
    event, span = fault.event, last.last_span
    assert span is not None
    if any(
        other.event.source_id == event.source_id and other.rank == fault.rank and other.event.span.offset > span.offset
        for other in faults
        if not other.is_exit and other.tier > 1
    ):
        return True
    if failing:
        return False
    if event.traceback is None and fault.tier < 3:
        return True
    delay = Clocks().delay(event.place, Place(rank=fault.rank, host=event.place.host, time=last.last_time))
    return delay is not None and delay.seconds >= MIN_LATER_S
