"""A trace of the allocator replayed: what was alive, by call site, at the peak, at a failed allocation, and over time.

A trace may begin in the middle, so all figures count from its beginning; what was there before is found at the end, from the
blocks that the snapshot still shows. Sizes are those that were asked for, as the trace has them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from firstfault.ingest.memory_snapshot_frames import BEFORE, NO_FRAMES, Stack, Stacks
from firstfault.ingest.memory_snapshot_state import MAX_LIVE_BLOCKS, number, pool_of
from firstfault.ingest.memory_snapshot_timeline import Timeline, Windows

MAX_FAILED_KEPT = 256


class Moment(msgspec.Struct):
    """The state after event number `event`, counted from the beginning of the trace: bytes by call site."""

    event: int = 0
    time_us: int = 0
    total: int = 0
    reserved: int = 0
    awaiting: int = 0
    sites: dict[int, int] = {}


class Failed(msgspec.Struct):
    """An allocation that failed: bytes asked for, bytes that the driver had free, its stack, and the state around it."""

    request_bytes: int
    device_free_bytes: int
    stack: Stack | None
    moment: Moment
    stream: int = 0
    pool_id: tuple[int, int] = (0, 0)


class Replay:
    """The trace of one device, with at most `limit` blocks at a time; `crowded` turns true where there were more.

    `base` (after `settle`) is what to add to each site: memory from before the recording.
    """

    def __init__(self, stacks: Stacks, limit: int = MAX_LIVE_BLOCKS) -> None:
        self.crowded = False
        self._limit = limit
        self.events = 0
        self.odd = 0
        self.first_us = self.last_us = 0
        self.has_frames = False
        self.optimizer_steps = 0
        self.backward_passes = 0
        self.ooms = 0
        self.failed: Failed | None = None
        self.events_since_failed = 0
        self.peak = Moment()
        self.timeline = Timeline()
        self.windows = Windows()
        self.base: dict[int, int] = {}
        self.reserved = 0
        self._stacks = stacks
        self._live: dict[int, tuple[int, int]] = {}
        self._awaiting: dict[int, int] = {}
        self._awaiting_bytes = 0
        self._sites: dict[int, int] = {}
        self._since_peak: dict[int, int] = {}
        self._total = 0
        self._phase = ""

    @property
    def total(self) -> int:
        """Bytes alive now, counted from the beginning."""
        return self._total

    @property
    def steps(self) -> int:
        """How often a torch optimizer ran, or else how often backward did; 0 if the stacks do not say."""
        return self.optimizer_steps if self.optimizer_steps > 1 else self.backward_passes or self.optimizer_steps

    def entry(self, entry: dict[str, Any]) -> None:
        """The next entry of the trace."""
        self.events += 1
        action = entry.get("action")
        time_us = number(entry.get("time_us"))
        if time_us:
            self.first_us = self.first_us or time_us
            self.last_us = time_us
        address, size = entry.get("addr"), entry.get("size")
        if action == "oom":
            self._fail(entry)
        elif not isinstance(size, int) or not isinstance(address, int) or size < 0:
            self.odd += action not in ("snapshot", "user_defined")
        elif action == "alloc":
            frames = entry.get("frames")
            self._alloc(address, number(size), frames if isinstance(frames, Stack) else None)
        elif action == "free_requested":
            self._free(address, number(size), awaited=True)
        elif action == "free_completed":
            self._complete(address, number(size))
        elif action in ("segment_alloc", "segment_map"):
            self.reserved += number(size)
        elif action in ("segment_free", "segment_unmap"):
            self.reserved -= number(size)
        self.timeline.pass_by(self.events, time_us, self._total, self.reserved, self._sites)
        self.windows.pass_by(self._sites)

    def _alloc(self, address: int, size: int, stack: Stack | None) -> None:
        if address in self._live:
            self._free(address, size, awaited=False)
        if address in self._awaiting:
            self._awaiting_bytes -= self._awaiting.pop(address)
        site = NO_FRAMES
        if stack is not None:
            site, self.has_frames = stack.site, True
            self._count_steps(self._stacks.sites[site].phase)
        if len(self._live) >= self._limit:
            self.crowded = True
            return
        self._live[address] = (size, site)
        self._sites[site] = self._sites.get(site, 0) + size
        self._total += size
        self.events_since_failed += 1
        if self._total > self.peak.total:
            self._since_peak.clear()
            peak = self.peak
            peak.total, peak.event, peak.time_us = self._total, self.events, self.last_us
            peak.reserved, peak.awaiting = self.reserved, self._awaiting_bytes
        else:
            self._since_peak[site] = self._since_peak.get(site, 0) + size

    def _count_steps(self, phase: str) -> None:
        # Engine threads carry no Python frames: an unknown phase neither ends nor begins one.
        if phase and phase != self._phase:
            self.optimizer_steps += phase == "optimizer"
            self.backward_passes += phase == "backward"
            self._phase = phase

    def _free(self, address: int, size: int, *, awaited: bool) -> None:
        size, site = self._live.pop(address, (size, BEFORE))
        held = self._sites.get(site, 0) - size
        self._sites[site] = held
        self._total -= size
        self._since_peak[site] = self._since_peak.get(site, 0) - size
        if site == BEFORE:
            self.base[BEFORE] = self.base.get(BEFORE, 0) + size
        else:
            self.windows.freed(site, held)
        if awaited and len(self._awaiting) < self._limit:
            self._awaiting[address] = size
            self._awaiting_bytes += size
        self.events_since_failed += 1

    def _complete(self, address: int, size: int) -> None:
        awaited = self._awaiting.pop(address, None)
        if awaited is not None:
            self._awaiting_bytes -= awaited
        elif address in self._live:
            # A trace that was thinned out may show the completion alone.
            self._free(address, size, awaited=False)

    def _fail(self, entry: dict[str, Any]) -> None:
        self.ooms += 1
        frames = entry.get("frames")
        sites = dict(self._sites) if self.ooms <= MAX_FAILED_KEPT or self.failed is None else self.failed.moment.sites
        moment = Moment(
            event=self.events,
            time_us=self.last_us,
            total=self._total,
            reserved=self.reserved,
            awaiting=self._awaiting_bytes,
            sites=sites,
        )
        self.failed = Failed(
            request_bytes=number(entry.get("size")),
            device_free_bytes=number(entry.get("device_free")),
            stack=frames if isinstance(frames, Stack) else None,
            moment=moment,
            stream=number(entry.get("stream")),
            pool_id=pool_of(entry.get("pool_id")),
        )
        self.events_since_failed = 0

    def settle(self, live: dict[int, tuple[int, int]]) -> int:
        """Finds what was there before the trace, from the blocks of the snapshot; how many blocks of the two disagree."""
        if self.events:
            self.timeline.take(self.events, self.last_us, self._total, self.reserved, self._sites)
        self.peak.sites = {
            site: size
            for site in self._sites.keys() | self._since_peak.keys()
            if (size := self._sites.get(site, 0) - self._since_peak.get(site, 0))
        }
        disagree = 0
        for address, (size, site) in live.items():
            if address not in self._live:
                self.base[site] = self.base.get(site, 0) + size
            else:
                disagree += self._live[address][0] != size
        return disagree + sum(address not in live for address in self._live)
