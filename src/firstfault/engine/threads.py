"""Threads that an exception ended, and whose process waited for them in vain afterwards."""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.engine.align import Aligned
from firstfault.engine.classes import Fault
from firstfault.knowledge.schema import CausalTable
from firstfault.model.event import Event

_THREAD_START = ("threading.py", "_bootstrap_inner")


def missed_threads(faults: Sequence[Fault], aligned: Aligned, causal: CausalTable) -> frozenset[Fault]:
    """The faults that ended a helper thread of a process in which a wait for another thread ran out later."""
    waits = {kind.name for kind in causal.exception_types if kind.waits}
    waited = [fault for fault in faults if _root_type(fault.event, aligned) in waits]
    return frozenset(
        fault
        for fault in faults
        if waited and _is_of_thread(fault.event, aligned) and any(_is_later(one.event, fault.event) for one in waited)
    )


def _root_type(event: Event, aligned: Aligned) -> str:
    traceback = aligned.traceback_of(event)
    return traceback.blocks[0].type.rpartition(".")[2] if traceback and traceback.blocks else ""


def _is_of_thread(event: Event, aligned: Aligned) -> bool:
    traceback = aligned.traceback_of(event)
    frames = traceback.blocks[0].frames if traceback and traceback.blocks else ()
    return bool(frames) and frames[0].path.endswith(_THREAD_START[0]) and frames[0].function == _THREAD_START[1]


def _is_later(waited: Event, died: Event) -> bool:
    same = (waited.source_id, waited.place.rank) == (died.source_id, died.place.rank)
    return same and waited.span.offset > died.span.offset
