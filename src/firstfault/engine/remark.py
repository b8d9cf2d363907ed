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


def remark(aligned: Aligned, live: Sequence[Fault]) -> Event | None:
    """The first line that is only printed after a failure, if nothing shows a run that went on or came to its end.

    `live` are the fatal-looking events that were not recovered from; none of them can start a failure.
    """
    if any(report.progress for report in aligned.bundle.reports):
        return None
    cleanup = [fault.event for fault in live if fault.fault_class in _CLEANUP]
    notes = [event for event in aligned.events if event.fault_class in _NOTES and not event.quoted]
    return next(iter((*notes, *cleanup)), None)
