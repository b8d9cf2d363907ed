"""What the allocator held when the snapshot was written: its pools, and the blocks in use by call site."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from firstfault.ingest.memory_snapshot_frames import NO_FRAMES, Stack

MAX_LIVE_BLOCKS = 600_000
MAX_POOLS = 512
MAX_DEVICES = 64
_BYTES_LIMIT = 1 << 62

# c10/cuda/CUDACachingAllocator: kSmallSize, kSmallBuffer (also the step of large segments), kMinLargeAlloc, kLargeBuffer.
SMALL_REQUEST_BYTES = 1 << 20
SMALL_SEGMENT_BYTES = 2 << 20
MIN_OWN_BYTES = 10 << 20
LARGE_SEGMENT_BYTES = 20 << 20

PoolKind = Literal["small", "large", "unknown"]
PoolKey = tuple[PoolKind, int, tuple[int, int]]


class PoolCount(msgspec.Struct):
    """The segments of one kind (`small`, `large`), stream and private pool, added up. Bytes."""

    segments: int = 0
    expandable: bool = False
    reserved_bytes: int = 0
    allocated_bytes: int = 0
    active_bytes: int = 0
    requested_bytes: int = 0
    free_blocks: int = 0
    largest_free_bytes: int = 0


class DeviceState:
    """One device at the snapshot. `live` holds (bytes asked for, call site) by address, of at most `limit` blocks.

    `crowded` turns true where there were more.
    """

    def __init__(self, limit: int = MAX_LIVE_BLOCKS) -> None:
        self._limit = limit
        self.pools: dict[PoolKey, PoolCount] = {}
        self.live: dict[int, tuple[int, int]] = {}
        self.crowded = False
        self.has_frames = False

    @property
    def reserved_bytes(self) -> int:
        """All segments."""
        return sum(pool.reserved_bytes for pool in self.pools.values())

    def add(self, segment: dict[str, Any]) -> None:
        """One segment with its blocks; what is no number counts as zero."""
        pool_id = pool_of(segment.get("segment_pool_id"))
        found = segment.get("segment_type")
        kind: PoolKind = "small" if found == "small" else "large" if found == "large" else "unknown"
        key: PoolKey = (kind, number(segment.get("stream")), pool_id)
        if key not in self.pools and len(self.pools) >= MAX_POOLS:
            key = ("unknown", 0, (0, 0))
        pool = self.pools.setdefault(key, PoolCount())
        blocks = segment.get("blocks")
        used = self._blocks(pool, blocks if isinstance(blocks, list) else (), number(segment.get("address")))
        pool.segments += 1
        pool.expandable = pool.expandable or segment.get("is_expandable") is True
        pool.reserved_bytes += number(segment.get("total_size"))
        pool.allocated_bytes += number(segment.get("allocated_size", used[0]))
        pool.active_bytes += number(segment.get("active_size", used[1]))

    def _blocks(self, pool: PoolCount, blocks: Any, address: int) -> tuple[int, int]:
        """The blocks of a segment into the pool; bytes allocated, and bytes active."""
        allocated = active = 0
        for block in blocks:
            if not isinstance(block, dict):
                continue
            size, state = number(block.get("size")), block.get("state")
            at = number(block.get("address", address))
            address = at + size
            if state == "inactive":
                pool.free_blocks += 1
                pool.largest_free_bytes = max(pool.largest_free_bytes, size)
                continue
            active += size
            if state != "active_allocated":
                continue
            allocated += size
            requested, site = self._origin(block, size)
            pool.requested_bytes += requested
            if len(self.live) < self._limit:
                self.live[at] = (requested, site)
            else:
                self.crowded = True
        return allocated, active

    def _origin(self, block: dict[str, Any], size: int) -> tuple[int, int]:
        """Bytes asked for and the call site of a block; before torch 2.1 they stand in its history."""
        history = block.get("history")
        if "frames" not in block and isinstance(history, list) and history and isinstance(history[0], dict):
            block = {"requested_size": history[0].get("real_size"), "frames": history[0].get("frames")}
        frames = block.get("frames")
        site = frames.site if isinstance(frames, Stack) else NO_FRAMES
        self.has_frames = self.has_frames or isinstance(frames, Stack)
        requested = number(block.get("requested_size"))
        return requested or size, site


def number(value: object) -> int:
    """The value, if it is a count that a 64-bit machine can have, else 0."""
    return value if isinstance(value, int) and 0 <= value < _BYTES_LIMIT else 0


def pool_of(value: object) -> tuple[int, int]:
    """The id of a pool: (0, 0) for the common one, or where it is not told."""
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(part, int) for part in value):
        return value[0], value[1]
    return 0, 0


def segment_bytes(request_bytes: int) -> int:
    """What torch asks the driver for where no free block fits: its message names that, its trace the request itself."""
    if request_bytes <= SMALL_REQUEST_BYTES:
        return SMALL_SEGMENT_BYTES
    if request_bytes < MIN_OWN_BYTES:
        return LARGE_SEGMENT_BYTES
    return -(-request_bytes // SMALL_SEGMENT_BYTES) * SMALL_SEGMENT_BYTES


def can_serve(request_bytes: int, stream: int, pool_id: tuple[int, int], pool: PoolKey) -> bool:
    """True if a free block of the pool may be given to the request."""
    kind, its_stream, its_id = pool
    wanted = "small" if request_bytes <= SMALL_REQUEST_BYTES else "large"
    return kind in (wanted, "unknown") and its_stream == stream and its_id == pool_id
