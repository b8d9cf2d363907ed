"""What a trace comes to: by phase the highest point with what lay there, and what the caching allocator holds by then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from firstfault.memory.allocator import Block, CachingAllocator, OutOfMemory
from firstfault.memory.plan import Allocator

Event = Sequence[Any]
UNEXPLAINED = "not explained"
"""The heading of bytes that a measurement shows and the trace does not."""


class Failed(NamedTuple):
    """The first request that could not be served: its phase, kind and module, and the figures at that moment in bytes."""

    phase: str
    kind: str
    module: str
    request: int
    allocated: int
    reserved: int


class Peak(NamedTuple):
    """The highest point of one phase: live bytes, the same by kind, and the most that was reserved in it.

    `live` counts requests in whole granules; `blocks` the blocks that served them, whose rest of up to 1 MiB is not split off:
    what `max_memory_allocated` shows lies between them, by the history of the cache.
    """

    live: int
    kinds: dict[str, int]
    blocks: int
    reserved: int


class Replay:
    """The allocator's course over a trace, on a device of `limit` bytes (None: without end). It ends where a request fails.

    `extra` bytes lie there from the first forward on. `moments` are the requests of `watched` bytes (least and most): phase,
    kind, bytes, live bytes before.
    """

    def __init__(
        self,
        events: Sequence[Event],
        settings: Allocator,
        limit: int | None = None,
        *,
        extra: int = 0,
        watched: tuple[int, int] | None = None,
    ) -> None:
        self.allocator = CachingAllocator(settings, limit)
        self.peaks: dict[str, Peak] = {}
        self.failed: Failed | None = None
        self.live = 0
        self.moments: list[tuple[str, str, int, int]] = []
        self._watched = watched or (0, -1)
        self._held: dict[int, tuple[Block, int, str]] = {}
        self._kinds: dict[str, int] = {}
        self._phase = "load"
        self._extra = max(0, extra)
        for event in events:
            if not self._follow(event):
                break

    def _follow(self, event: Event) -> bool:
        what = event[0]
        if what == "a":
            return self._take(event[1], event[2], event[3], event[4])
        if what == "f":
            held = self._held.pop(event[1], None)
            if held is not None:
                block, size, kind = held
                self._kinds[kind] -= size
                self.live -= size
                self.allocator.give_back(block)
        elif what == "k":
            held = self._held.get(event[1])
            if held is not None:
                block, size, kind = held
                self._held[event[1]] = (block, size, event[2])
                self._kinds[kind] -= size
                self._kinds[event[2]] = self._kinds.get(event[2], 0) + size
        else:
            self._phase = event[1]
            self._mark()
            if self._phase == "forward" and self._extra:
                extra, self._extra = self._extra, 0
                return self._take(0, extra, UNEXPLAINED, "")
        return True

    def _take(self, number: int, size: int, kind: str, module: str) -> bool:
        try:
            block = self.allocator.take(size)
        except OutOfMemory as error:
            self.failed = Failed(self._phase, kind, module, error.request, error.allocated, error.reserved)
            return False
        if self._watched[0] <= size <= self._watched[1]:
            self.moments.append((self._phase, kind, size, self.live))
        size = self.allocator.round(size)
        self._held[number] = (block, size, kind)
        self._kinds[kind] = self._kinds.get(kind, 0) + size
        self.live += size
        self._mark()
        return True

    def _mark(self) -> None:
        allocator = self.allocator
        before = self.peaks.get(self._phase)
        if before is None or self.live > before.live:
            self.peaks[self._phase] = Peak(self.live, dict(self._kinds), allocator.allocated, allocator.reserved)
        elif allocator.reserved > before.reserved:
            self.peaks[self._phase] = before._replace(reserved=allocator.reserved)
