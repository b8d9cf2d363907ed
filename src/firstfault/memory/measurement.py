"""What a real run says about its memory: the numbers of an out-of-memory message, or a memory snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from firstfault.errors import UnreadableInputError
from firstfault.memory.tensor_match import bounds
from firstfault.model.memory_report import DeviceMemory, MemoryReport

_SNAPSHOT_SLACK = 512


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of one device at one moment, None where not told; `source` is where they stand.

    `request` are the least and the most bytes of the tensor that could not be had (1 and 0: too small to tell it), `allocated`
    what lay there then. Without a request `allocated` is the highest point of whole steps. `outside` is what the process
    holds besides torch's own memory.
    """

    source: str
    allocated: int
    request: tuple[int, int] | None = None
    phase: str | None = None
    total: int | None = None
    outside: int | None = None
    others: int | None = None


def of_facts(facts: Mapping[str, Any], source: str) -> Measurement:
    """The measurement in the facts of a diagnosis; UnreadableInputError where no message tells what was allocated."""
    found = {name: _whole(facts.get(f"oom.{name}")) for name in ("requested_bytes", "allocated_bytes", "total_bytes")}
    requested, allocated = found["requested_bytes"], found["allocated_bytes"]
    if requested is None or allocated is None:
        raise UnreadableInputError(
            "no out-of-memory message that tells what was allocated",
            where=source,
            hint='The whole line is needed, from "Tried to allocate" to "reserved by PyTorch but unallocated".',
        )
    limits = bounds(requested)
    phase = facts.get("oom.phase")
    return Measurement(
        source=source,
        allocated=allocated,
        request=(int(limits[0]), int(limits[1])) if limits else (1, 0),
        phase=str(phase) if phase is not None else None,
        total=found["total_bytes"],
        outside=_whole(facts.get("oom.outside_bytes")),
        others=_whole(facts.get("oom.other_process_bytes")),
    )


def of_report(report: MemoryReport, source: str) -> Measurement:
    """The measurement in a snapshot: its failed request, else its peak; UnreadableInputError where it recorded no events."""
    device = max(report.devices, key=lambda one: one.peak.allocated_bytes if one.peak else 0, default=None)
    if device is None or device.peak is None:
        raise UnreadableInputError(
            "the snapshot records no allocations",
            where=source,
            hint="torch.cuda.memory._record_memory_history() before the first step.",
        )
    return _of_device(device, source)


def _of_device(device: DeviceMemory, source: str) -> Measurement:
    failed, peak = device.failed, device.peak
    if failed is not None:
        size = failed.request_bytes
        return Measurement(
            source=source,
            allocated=failed.moment.allocated_bytes,
            request=(size - _SNAPSHOT_SLACK, size + _SNAPSHOT_SLACK),
            phase=failed.site.phase or None if failed.site else None,
        )
    if device.steps < 1 or peak is None:
        raise UnreadableInputError(
            "the snapshot holds no whole step, so that its highest point need not be that of the run",
            where=source,
            hint="Record from before the first step to behind its optimizer.step().",
        )
    return Measurement(source=source, allocated=peak.allocated_bytes)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
