"""Why an allocation failed, by the figures of the snapshot: too little on the device, or too many pieces."""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.ingest.memory_snapshot_replay import Failed
from firstfault.ingest.memory_snapshot_state import can_serve, segment_bytes
from firstfault.model.memory_report import DeviceMemory, FailedAllocation, Growth, MomentReport, Pool, Reason
from firstfault.units import format_size

_MUCH = 0.1
_PIECES = 0.05
"""Less than this share of what is reserved always lies idle in pieces: then live tensors are what fills the device."""


def failed_of(
    memory: DeviceMemory, failed: Failed, moment: MomentReport, growth: Sequence[Growth], count: int, events_after: int
) -> FailedAllocation:
    """The failed allocation with its reason, without its stack."""
    # Behind the failure the allocator gives cached segments back and tries again: only then the pools still show that moment.
    same = events_after == 0 and bool(memory.pools)
    usable = [pool for pool in memory.pools if _serves(pool, failed)] if same else []
    largest = max((pool.largest_free_bytes for pool in usable), default=0)
    unallocated = None if moment.reserved_bytes is None else max(0, moment.reserved_bytes - moment.allocated_bytes)
    if same:
        unallocated = memory.free_bytes
    reason, why = _reason(memory, failed, moment, same=same, largest=largest, unallocated=unallocated or 0)
    if growth:
        rate = growth[0].per_step_bytes
        per_step = f", {format_size(rate)} a step" if rate else ""
        site = growth[0].site
        name = site.user or site.package or site.call
        why += f" One call site keeps growing: {name} held {format_size(growth[0].last_bytes)}{per_step}."
    return FailedAllocation(
        request_bytes=failed.request_bytes,
        device_free_bytes=failed.device_free_bytes,
        reason=reason,
        why=why,
        count=count,
        moment=moment,
        unallocated_bytes=unallocated,
        largest_free_bytes=largest if same else None,
        events_after=events_after,
    )


def _serves(pool: Pool, failed: Failed) -> bool:
    return can_serve(failed.request_bytes, failed.stream, failed.pool_id, (pool.kind, pool.stream, pool.pool_id))


def _reason(
    memory: DeviceMemory, failed: Failed, moment: MomentReport, *, same: bool, largest: int, unallocated: int
) -> tuple[Reason, str]:
    """The reason and one or two sentences with the figures that show it."""
    request, free = failed.request_bytes, failed.device_free_bytes
    asked = f"{format_size(request)} were asked for, and the driver had {format_size(free)} left."
    segment = segment_bytes(request)
    if free < segment != request:
        asked = f"{asked[:-1]}, less than the {format_size(segment)} of a new segment."
    if free >= segment and not (same and largest >= request):
        return "limit", (
            f"{asked} That would do: a limit of the process (set_per_process_memory_fraction), or another process that took "
            "the memory in between, stands against it."
        )
    if not same and unallocated >= request:
        return "unknown", (
            f"{asked} {format_size(unallocated)} were reserved and not in use, but the snapshot was taken later: in what "
            "pieces is not known. Take it in an out-of-memory observer (torch._C._cuda_attach_out_of_memory_observer)."
        )
    if unallocated >= request and largest < request:
        elsewhere = [pool for pool in memory.pools if pool.largest_free_bytes >= request]
        if elsewhere:
            pool = elsewhere[0]
            whose = "a private pool (CUDA graphs or a MemPool)" if pool.private else f"stream {pool.stream} ({pool.kind} pool)"
            return "other_pool", (
                f"{asked} A free block of {format_size(pool.largest_free_bytes)} would fit, but it belongs to {whose} and "
                "cannot serve this request."
            )
        if unallocated >= _PIECES * memory.reserved_bytes:
            return "fragmented", (
                f"{asked} {format_size(unallocated)} are reserved and free, in {_pieces(memory)} pieces; the largest that this "
                f"request could use has {format_size(largest)}."
            )
    waiting = ""
    if moment.awaiting_bytes >= _MUCH * max(1, moment.allocated_bytes):
        waiting = f" {format_size(moment.awaiting_bytes)} were given back, but another stream still uses them."
    spare = (
        f" Of what is reserved, {format_size(unallocated)} are free{_shape(memory, request, unallocated)}."
        if unallocated
        else ""
    )
    return "full", f"{asked} Live tensors hold {format_size(moment.allocated_bytes)}.{spare}{waiting}"


def _pieces(memory: DeviceMemory) -> str:
    return f"{sum(pool.free_blocks for pool in memory.pools):,}"


def _shape(memory: DeviceMemory, request: int, unallocated: int) -> str:
    if unallocated < request:
        return ": less than the request"
    return f", in {_pieces(memory)} pieces of at most {format_size(memory.largest_free_bytes)}"
