"""Ends of jobs behind which the next run goes on in the same file: its counter of steps stands lower than before."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from firstfault.ingest.lines import Line
from firstfault.knowledge.signal_match import match_text
from firstfault.model.event import Event
from firstfault.scan.result import ProgressSample

MAX_LINES = 400
"""So many lines on each side of an end are looked at."""
MAX_ENDS = 200
_END = "scheduler_stop"


def ends_with_a_fall(events: Sequence[Event], samples: Sequence[ProgressSample], lines: Sequence[Line]) -> tuple[int, ...]:
    """The offsets of the scheduler's stops after which a counter that was printed before is lower: a later run began there.

    A stop without such a fall proves nothing: a job trains on until its time of grace is over.
    """
    ends = [event.span.offset for event in events if event.fault_class == _END and not event.quoted][:MAX_ENDS]
    if not ends or not samples:
        return ()
    offsets = [line.offset for line in lines]
    return tuple(end for end in ends if any(_falls(bisect_left(offsets, end), sample, lines) for sample in samples))


def _falls(index: int, sample: ProgressSample, lines: Sequence[Line]) -> bool:
    before = [step for line in lines[max(index - MAX_LINES, 0) : index] if (step := _step(sample, line)) is not None]
    after = next((step for line in lines[index + 1 : index + 1 + MAX_LINES] if (step := _step(sample, line)) is not None), None)
    if len(before) < 2 or after is None:
        return False
    # Ranks that print into one file without their number may be one line apart.
    return before[-1] - after > max(abs(other - one) for one, other in pairwise(before))


def _step(sample: ProgressSample, line: Line) -> int | None:
    signal = sample.first.signal
    if signal.literal not in line.raw or (sample.key is not None and line.place.rank != sample.key):
        return None
    found = match_text(signal, line.raw) or {}
    step = found.get("step")
    same = found.get("total") == sample.first.captures.get("total")
    return step if same and isinstance(step, int) and not isinstance(step, bool) else None
