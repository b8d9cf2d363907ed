"""How a memory report is put in words, the same in the terminal and in HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from firstfault.model.memory_report import CallSite, DeviceMemory, FailedAllocation, Held, MemoryReport, MomentReport
from firstfault.units import format_duration, format_size

NO_STACK = "no stack: a thread of C++, such as autograd's, or recorded without stacks"
REASONS = {
    "full": "the device is full",
    "fragmented": "what is free is in pieces",
    "other_pool": "what is free belongs to another pool",
    "limit": "something else than the device's size",
    "unknown": "the snapshot was taken later",
}


class Sites:
    """Names of call sites, your own files without the folder that they share."""

    def __init__(self, report: MemoryReport) -> None:
        folders = {site.user.rpartition(":")[0].rpartition("/")[0] for site in _sites(report) if site.user}
        self._folder = _shared(sorted(folders))

    def name(self, site: CallSite) -> str:
        """The most telling frame: a package's (such as the model's code), else yours, else the innermost."""
        return self._short(site.package or site.user or site.call) or NO_STACK

    def around(self, site: CallSite) -> str:
        """The frames around it: what it calls, and from where it is called; empty where there are none."""
        parts = []
        if site.call and (site.package or site.user):
            parts.append(f"in {site.call}")
        if site.package and site.user:
            parts.append(f"from {self._short(site.user)}")
        if site.phase in ("backward", "optimizer"):
            parts.append(site.phase)
        return ", ".join(parts)

    def _short(self, frame: str) -> str:
        return frame.removeprefix(self._folder)


def _sites(report: MemoryReport) -> Iterator[CallSite]:
    for device in report.devices:
        moments = [device.peak, device.failed.moment if device.failed else None]
        for held in (device.live, *(moment.held for moment in moments if moment)):
            yield from (one.site for one in held)
        if device.failed and device.failed.site:
            yield device.failed.site


def _shared(folders: Sequence[str]) -> str:
    """The folder that all have in common, with its slash; empty where there is none."""
    if not folders or not folders[0]:
        return ""
    first, last = f"{folders[0]}/", f"{folders[-1]}/"
    same = next((index for index, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), None)
    shared = first[: len(first) if same is None else same]
    return shared[: shared.rfind("/") + 1]


def what_was_read(report: MemoryReport) -> list[str]:
    """File, size, events, devices; that nothing was sent."""
    events = sum(device.events for device in report.devices)
    devices = len(report.devices)
    parts = [format_size(report.size_bytes), f"{events:,} events" if events else "no events"]
    parts.append(f"{devices} device{'' if devices == 1 else 's'}")
    return [*parts, "nothing left this machine"]


def headline(device: DeviceMemory) -> str:
    """What is to be said first of a device."""
    failed = device.failed
    if failed is None:
        return f"cuda:{device.device}: no failed allocation in the snapshot"
    growing = ", and a call site keeps growing" if failed.reason == "full" and device.growth else ""
    return (
        f"cuda:{device.device}: {format_size(failed.request_bytes)} could not be allocated: {REASONS[failed.reason]}{growing}"
    )


def amounts(device: DeviceMemory) -> list[tuple[str, str]]:
    """Rows of name and figure for the state at the snapshot; none if its segments were not read."""
    if not device.pools:
        return []
    rounding = device.allocated_bytes - device.requested_bytes
    spare = device.allocated_bytes and rounding / device.allocated_bytes >= 0.01
    rows = [
        ("reserved", format_size(device.reserved_bytes)),
        ("allocated", f"{format_size(device.allocated_bytes)}{f' ({format_size(rounding)} of it rounding)' if spare else ''}"),
    ]
    waiting = device.active_bytes - device.allocated_bytes
    if waiting > 0:
        rows.append(("awaiting a stream", format_size(waiting)))
    pieces = sum(pool.free_blocks for pool in device.pools)
    free = format_size(device.free_bytes)
    rows.append(("reserved, unused", f"{free} in {pieces:,} pieces, largest {format_size(device.largest_free_bytes)}"))
    return rows


def moment_words(moment: MomentReport, device: DeviceMemory) -> str:
    """When a moment was, and how much was alive."""
    parts = [format_size(moment.allocated_bytes)]
    if moment.reserved_bytes is not None:
        parts.append(f"of {format_size(moment.reserved_bytes)} reserved")
    after = f", after {format_duration(moment.after_s)}" if moment.after_s is not None else ""
    return f"{' '.join(parts)} (event {moment.event:,} of {device.events:,}{after})"


def moments(device: DeviceMemory) -> list[tuple[str, str, Sequence[Held], int]]:
    """What was alive, at each moment that matters: heading, words, the call sites, and the bytes of the others."""
    rows: list[tuple[str, str, Sequence[Held], int]] = []
    failed = device.failed
    if failed is not None:
        rows.append(("alive at the failure", moment_words(failed.moment, device), failed.moment.held, failed.moment.rest_bytes))
    peak = device.peak
    if peak is not None and not (failed and _is_near(failed, peak)):
        rows.append(("alive at the peak", moment_words(peak, device), peak.held, peak.rest_bytes))
    if not rows and device.live:
        total = sum(one.size_bytes for one in device.live) + device.live_rest_bytes
        rows.append(("alive at the snapshot", format_size(total), device.live, device.live_rest_bytes))
    return rows


def _is_near(failed: FailedAllocation, peak: MomentReport) -> bool:
    """True if the peak shows the same as the failure: within 2 % of its bytes."""
    return abs(peak.allocated_bytes - failed.moment.allocated_bytes) < 0.02 * max(1, peak.allocated_bytes)


def pool_name(kind: str, stream: int, *, private: bool, pool_id: tuple[int, int]) -> str:
    """`large`, `small, stream 7`, `large, private pool (0, 3)`."""
    parts = [kind]
    if stream:
        parts.append(f"stream {stream}")
    if private:
        parts.append(f"private pool {pool_id[0]}, {pool_id[1]}")
    return ", ".join(parts)
