"""torch's caching allocator on paper: what it asks the driver for, how blocks are cut and merged, and where it fails.

The rules are those of CUDACachingAllocator.cpp (torch 2.1 to 2.13), for one stream: sizes are rounded to 512 bytes; requests up
to 1 MiB come from segments of 2 MiB, below 10 MiB from segments of 20 MiB, larger ones from a segment of their own size rounded
to 2 MiB. The smallest free block that is large enough serves; its rest stays free.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from firstfault.ingest.memory_snapshot_state import SMALL_REQUEST_BYTES, segment_bytes
from firstfault.memory.plan import Allocator

GRANULE = 512
MIB = 1 << 20
_RANGE = 1 << 50
"""Addresses of an expandable segment, of which each pool has one: more than any device has bytes."""
_PAGE = {True: 2 * MIB, False: 20 * MIB}
"""What an expandable segment maps at once, by whether its pool is the small one."""
_ROUNDED_UP = 20 * MIB
"""How much larger than the request an unsplittable block may be (max_non_split_rounding_mb)."""


class Block:
    """A piece of a segment: in use, free, or (in an expandable segment) not mapped. Neighbours are linked."""

    __slots__ = ("address", "after", "before", "born", "in_use", "mapped", "size", "small")

    def __init__(self, address: int, size: int, small: bool) -> None:
        self.address, self.size, self.small = address, size, small
        self.in_use, self.mapped, self.born = False, True, 0
        self.before: Block | None = None
        self.after: Block | None = None

    @property
    def whole(self) -> bool:
        """Whether this is all of its segment."""
        return self.before is None and self.after is None


class OutOfMemory(Exception):
    """A request that the device cannot serve: what the driver is asked for, in bytes, with what was in use and reserved."""

    def __init__(self, request: int, allocated: int, reserved: int) -> None:
        super().__init__(request, allocated, reserved)
        self.request, self.allocated, self.reserved = request, allocated, reserved


class CachingAllocator:
    """One device of `limit` bytes for its segments (None: without end). All counts are bytes."""

    def __init__(self, settings: Allocator, limit: int | None = None) -> None:
        self.settings, self.limit = settings, limit
        self.allocated = self.reserved = self.peak_allocated = self.peak_reserved = 0
        self.segments = 0
        self.retries = 0
        self._free: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        self._blocks: dict[int, Block] = {}
        self._heads: dict[bool, Block] = {}
        self._next_address = 0
        self._searches = 0

    def take(self, size: int) -> Block:
        """A block for `size` bytes; OutOfMemory where neither the cache nor the device has one."""
        size = self.round(size)
        small = size <= SMALL_REQUEST_BYTES
        self._searches += 1
        block = self._find(size, small) or self._grow(size, small)
        if block is None:
            raise OutOfMemory(segment_bytes(size), self.allocated, self.reserved)
        if self._splits(block, size):
            self._cut(block, size)
        block.in_use = True
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        return block

    def give_back(self, block: Block) -> None:
        """The end of a block; it merges with free neighbours and stays reserved."""
        self.allocated -= block.size
        block.in_use = False
        for other in (block.before, block.after):
            if other is not None and other.mapped and not other.in_use:
                self._remove(other)
                self._merge(block, other)
        self._add(block)

    def round(self, size: int) -> int:
        """What a request counts as: whole multiples of 512 bytes, or steps of a power of two where so configured."""
        divisions = self.settings.power_of_two_divisions
        if divisions > 1 and size > GRANULE * divisions:
            power = 1 << (size.bit_length() - 1)
            step = power // divisions
            return -(-size // step) * step
        return max(GRANULE, -(-size // GRANULE) * GRANULE)

    def _find(self, size: int, small: bool) -> Block | None:
        """The smallest free block that is large enough, taken out of the list."""
        free = self._free[small]
        at = bisect_left(free, (size, -1))
        if at == len(free):
            return None
        block = self._blocks[free[at][1]]
        if self.settings.expandable_segments:
            # The block before unmapped room counts as large as it could grow: any other that fits is preferred.
            if _grows(block) and at + 1 < len(free):
                block = self._blocks[free[at + 1][1]]
        else:
            largest = self.settings.max_split_bytes
            if largest is not None and size < largest <= block.size:
                return None
            if largest is not None and size >= largest and block.size >= size + _ROUNDED_UP:
                return None
        self._remove(block)
        return block

    def _splits(self, block: Block, size: int) -> bool:
        rest = block.size - size
        if block.small or self.settings.expandable_segments:
            return rest >= GRANULE
        largest = self.settings.max_split_bytes
        return rest > SMALL_REQUEST_BYTES and (largest is None or size < largest)

    def _cut(self, block: Block, size: int) -> None:
        rest = Block(block.address + size, block.size - size, block.small)
        rest.before, rest.after = block, block.after
        if block.after is not None:
            block.after.before = rest
        block.after, block.size = rest, size
        rest.born = self._searches
        if block.mapped:
            self._add(rest)
        else:
            rest.mapped = False

    def _merge(self, block: Block, other: Block) -> None:
        """`block` takes the room of its neighbour `other`."""
        if other is block.before:
            block.address = other.address
            block.before = other.before
            if other.before is not None:
                other.before.after = block
            elif self._heads.get(block.small) is other:
                self._heads[block.small] = block
        else:
            block.after = other.after
            if other.after is not None:
                other.after.before = block
        block.size += other.size

    def _add(self, block: Block) -> None:
        block.born = self._searches
        self._blocks[block.address] = block
        insort(self._free[block.small], (block.size, block.address))

    def _remove(self, block: Block) -> None:
        free = self._free[block.small]
        del free[bisect_left(free, (block.size, block.address))]

    def _grow(self, size: int, small: bool) -> Block | None:
        """New room from the driver; where it has none, cached blocks go back to it first."""
        make = self._extend if self.settings.expandable_segments else self._new_segment
        self._collect_old()
        block = make(size, small)
        if block is None and self._release_oversized(size):
            block = make(size, small)
        if block is None:
            self.retries += 1
            self._release_unused()
            block = make(size, small)
        return block

    def _reserve(self, size: int) -> bool:
        if self.limit is not None and self.reserved + size > self.limit:
            return False
        self.reserved += size
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return True

    def _new_segment(self, size: int, small: bool) -> Block | None:
        whole = segment_bytes(size)
        if not self._reserve(whole):
            return None
        self.segments += 1
        block = Block(self._next_address, whole, small)
        self._next_address += whole
        return block

    def _extend(self, size: int, small: bool) -> Block | None:
        """Pages mapped behind (or between) what an expandable segment has; the block is taken out of the list."""
        if small not in self._heads:
            self._heads[small] = whole = Block(_RANGE * small, _RANGE, small)
            whole.mapped = False
            self.segments += 1
        block = self._room(size, small)
        if block is not None and block.mapped:
            self._remove(block)
        while block is not None and (not block.mapped or block.size < size):
            unmapped = block if not block.mapped else block.after
            if unmapped is None:
                return None
            wanted = size - (block.size if block.mapped else 0)
            pages = -(-min(wanted, unmapped.size) // _PAGE[small]) * _PAGE[small]
            if not self._reserve(min(pages, unmapped.size)):
                if block.mapped:
                    self._add(block)
                return None
            if pages < unmapped.size:
                self._cut(unmapped, pages)
            unmapped.mapped = True
            if unmapped is not block:
                self._merge(block, unmapped)
            if block.after is not None and block.after.mapped and not block.after.in_use:
                self._remove(block.after)
                self._merge(block, block.after)
        return block

    def _room(self, size: int, small: bool) -> Block | None:
        """The first free or unmapped block that with what follows it has `size` bytes."""
        first, room = None, 0
        block: Block | None = self._heads[small]
        while block is not None:
            if block.in_use:
                first, room = None, 0
            else:
                first = first or block
                room += block.size
                if room >= size and first is not None:
                    return first
            block = block.after
        return None

    def _collect_old(self) -> None:
        """garbage_collection_threshold: whole segments that have not been used for long go back above that share."""
        share = self.settings.garbage_collection_threshold
        if not share or self.limit is None or self.reserved <= share * self.limit:
            return
        target, freed = self.reserved - share * self.limit, 0
        whole = [block for block in self._free_blocks(False) if block.whole]
        age = sum(self._searches - block.born for block in whole)
        progress = True
        while whole and progress and freed < target:
            threshold = age / len(whole)
            old = [block for block in whole if self._searches - block.born >= threshold]
            progress = bool(old)
            for block in old:
                freed += block.size
                age -= self._searches - block.born
                self._release(block)
            whole = [block for block in whole if block not in old]

    def _release_oversized(self, size: int) -> bool:
        """With max_split_size: unsplittable cached blocks go back, the smallest that suffices or the largest ones."""
        largest = self.settings.max_split_bytes
        if largest is None:
            return False
        wanted = max(size, largest)
        found = sorted((block for block in self._free_blocks(False) if block.whole), key=lambda block: block.size)
        enough = [block for block in found if block.size >= wanted]
        if enough:
            self._release(enough[0])
            return True
        freed = 0
        for block in reversed(found):
            if block.size < largest or freed >= wanted:
                break
            freed += block.size
            self._release(block)
        return freed >= wanted

    def _release_unused(self) -> None:
        """Every segment that nobody uses goes back to the driver; of expandable ones the unused pages."""
        for small in (True, False):
            for block in self._free_blocks(small):
                if self.settings.expandable_segments:
                    self._unmap(block)
                elif block.whole:
                    self._release(block)

    def _free_blocks(self, small: bool) -> list[Block]:
        return [self._blocks[address] for _, address in self._free[small]]

    def _release(self, block: Block) -> None:
        self._remove(block)
        self.reserved -= block.size
        self.segments -= 1

    def _unmap(self, block: Block) -> None:
        """The whole pages inside a free block; its ends stay mapped."""
        page = _PAGE[block.small]
        first = -(-block.address // page) * page
        last = (block.address + block.size) // page * page
        if last <= first:
            return
        self._remove(block)
        if first > block.address:
            self._cut(block, first - block.address)
            self._add(block)
            rest = block.after
            if rest is None:
                return
            self._remove(rest)
            block = rest
        if block.size > last - first:
            self._cut(block, last - first)
        block.mapped = False
        self.reserved -= block.size
        if block.after is not None and not block.after.mapped:
            self._merge(block, block.after)
        if block.before is not None and not block.before.mapped:
            self._merge(block, block.before)


def _grows(block: Block) -> bool:
    return block.after is not None and not block.after.mapped
