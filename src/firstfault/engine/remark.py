"""A line that speaks of a failure which is not here: the answer where nothing better was handed over."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.engine.align import Aligned
    from firstfault.engine.classes import Fault
    from firstfault.model.event import Event

_NOTES = frozenset({"cuda_note", "error_line", "gpu_state", "resume_note"})
_CLEANUP = frozenset({"gpu_xid_cleanup"})
_EXCEPTION = "error_line"
LAST_LINES = 20
"""Lines from the end of a source among which an exception without a traceback ended it."""


def remark(aligned: Aligned, live: Sequence[Fault]) -> Event | None:
    """The first line that is only printed after a failure, if nothing shows a run that went on or came to its end.

    `live` are the fatal-looking events that were not recovered from; none of them can start a failure.
    """
    if any(report.progress for report in aligned.bundle.reports):
        return _last_word(aligned)
    cleanup = [fault.event for fault in live if fault.fault_class in _CLEANUP]
    notes = [event for event in aligned.events if event.fault_class in _NOTES and not event.quoted]
    return next(iter((*notes, *cleanup)), None)


def _last_word(aligned: Aligned) -> Event | None:
    """The exception with which the output of the run ends, in the one source that shows its steps."""
    shown = [report for report in aligned.bundle.reports if report.progress]
    if len(shown) != 1:
        return None
    report = shown[0]
    end = max((one.line for one in report.ends), default=0)
    after = max((one.last_span.offset for one in report.progress if one.last_span), default=0)
    for event in aligned.events:
        if event.source_id != report.source.id or event.fault_class != _EXCEPTION or event.quoted or event.alone:
            continue
        if event.span.offset > after and end - event.span.line <= LAST_LINES:
            return event
    return None
