"""What one rank printed, in order: its first fatal event counts, the later ones follow from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from firstfault.engine.align import Aligned
from firstfault.engine.classes import Fault
from firstfault.model.bundle import Source

# Evidence about the job or the machine: such a line belongs to no rank's own sequence, even where it names one.
FREE = frozenset(
    {
        "elastic_node_lost",
        "gpu_xid",
        "gpu_xid_application",
        "gpu_xid_cleanup",
        "host_oom_kill",
        "kernel_segfault_line",
        "launcher_report",
        "launcher_sigterm",
        "machine_check",
        "scheduler_stop",
        "step_teardown",
    }
)
WHAT_LINES = 2
_LEFT_ALIVE = frozenset({"collective_timeout", "peer_lost", "store_timeout"})

StreamKey = tuple[int | None, int | None, str]


class Stream(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The faults of one rank and attempt in order. `rank` is None for lines that name no rank."""

    attempt: int | None
    rank: int | None
    faults: tuple[Fault, ...]

    @property
    def head(self) -> Fault:
        """The fault that the others of this stream follow from."""
        return _head(self.faults, anonymous=self.rank is None)

    @property
    def acting(self) -> Fault:
        """The head with what the rest of the stream adds to what it can cause: that its process ended."""
        ends = frozenset(label for fault in self.faults if fault.is_exit for label in fault.labels & {"process_end"})
        return replace(self.head, labels=self.head.labels | ends) if ends - self.head.labels else self.head

    @property
    def followers(self) -> tuple[Fault, ...]:
        """All but the head, and without further sightings of one text."""
        head, seen, out = self.head, {(self.head.fault_class, self.head.shape)}, []
        for fault in self.faults:
            if fault is not head and (fault.fault_class, fault.shape) not in seen:
                seen.add((fault.fault_class, fault.shape))
                out.append(fault)
        return tuple(out)


def split_streams(faults: Iterable[Fault], aligned: Aligned) -> tuple[list[Stream], list[Fault]]:
    """The streams of all ranks, and the faults that belong to the job or a machine."""
    sources = {report.source.id: report.source for report in aligned.bundle.reports}
    by_key: dict[StreamKey, list[Fault]] = {}
    free = []
    for fault in faults:
        place = fault.event.place
        if fault.fault_class in FREE or (fault.rank is None and (fault.is_exit or fault.event.name.startswith("launcher."))):
            free.append(fault)
        elif fault.rank is not None or aligned.world_size == 1:
            by_key.setdefault((place.attempt, fault.rank if aligned.world_size != 1 else None, ""), []).append(fault)
        else:
            by_key.setdefault((place.attempt, None, fault.event.source_id), []).append(fault)
    streams = []
    for (attempt, rank, _), found in by_key.items():
        if any(not fault.is_exit for fault in found):
            # A rank that reports a failure did not leave with code 0, whatever the launcher's account lacks.
            found = [fault for fault in found if not fault.event.captures.get("inferred")]
        ordered = sorted(found, key=lambda fault: _position(fault, sources.get(fault.event.source_id)))
        known = rank if rank is not None else next((f.rank for f in ordered if f.rank is not None), None)
        streams.append(Stream(attempt=attempt, rank=known, faults=tuple(ordered)))
    return streams, free


def _position(fault: Fault, source: Source | None) -> tuple[int, str, int, int, int, int]:
    """The rank's own stderr first, then its other files, the launcher's combined log, and exit codes last.

    On one line the stronger class counts.
    """
    own = source is not None and (source.place.rank is not None or source.place.local_rank is not None)
    if fault.is_exit or fault.kernel:
        order = 4
    elif source is None or not own:
        order = 3
    elif source.kind == "error_file":
        order = 2
    else:
        order = 1 if "stdout" in source.path else 0
    # `terminate called after throwing` is followed by the line that says what was thrown.
    line = fault.event.span.line + (WHAT_LINES if fault.event.name == "native.terminate" else 0)
    return order, fault.event.source_id, line, fault.event.span.offset, -fault.tier, -fault.weight


def _head(faults: Sequence[Fault], anonymous: bool) -> Fault:
    if anonymous:
        # Lines of several ranks may stand here: an own failure counts before a notice about a lost peer, wherever it stands.
        own = next((fault for fault in faults if fault.tier > 1 and not _is_told(fault)), None)
        if own is not None:
            return own
    for fault in faults:
        if fault.tier > 1 or fault.fault_class in _LEFT_ALIVE or fault.weight > 0:
            return fault
    return faults[0]


def _is_told(fault: Fault) -> bool:
    return fault.fault_class in ("exit_sigterm", "keyboard_interrupt")
