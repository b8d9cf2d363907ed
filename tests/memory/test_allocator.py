"""The rules of the caching allocator, checked by hand, and that no byte is lost or given twice."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstfault.memory.allocator import CachingAllocator, OutOfMemory
from firstfault.memory.plan import Allocator

MIB = 1 << 20
EXPANDABLE = Allocator(expandable_segments=True)


def plain(limit: int | None = None, **options: object) -> CachingAllocator:
    return CachingAllocator(Allocator(**options), limit)  # type: ignore[arg-type]


@pytest.mark.parametrize(("asked", "counted"), [(1, 512), (512, 512), (513, 1024), (MIB, MIB), (MIB + 1, MIB + 512)])
def test_requests_are_rounded_to_512_bytes(asked, counted):
    allocator = plain()
    assert allocator.take(asked).size == counted
    assert allocator.allocated == counted


@pytest.mark.parametrize(
    ("asked", "segment"),
    [
        (1, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 1, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (10 * MIB + 1, 12 * MIB),
        (45 * MIB, 46 * MIB),
    ],
)
def test_a_new_segment_is_as_large_as_the_driver_is_asked_for(asked, segment):
    allocator = plain()
    allocator.take(asked)
    assert (allocator.reserved, allocator.segments) == (segment, 1)


def test_small_and_large_requests_have_pools_of_their_own():
    allocator = plain()
    allocator.give_back(allocator.take(30 * MIB))
    allocator.take(MIB)
    assert allocator.reserved == 32 * MIB
    allocator.take(2 * MIB)
    assert allocator.reserved == 32 * MIB


def test_the_smallest_free_block_that_is_large_enough_serves():
    allocator = plain()
    blocks = [allocator.take(size * MIB) for size in (40, 12, 20)]
    for block in blocks:
        allocator.give_back(block)
    assert allocator.take(11 * MIB).address == blocks[1].address


def test_the_rest_of_a_large_block_is_split_off_only_beyond_1_mib():
    allocator = plain()
    allocator.give_back(allocator.take(12 * MIB))
    assert allocator.take(11 * MIB).size == 12 * MIB
    allocator = plain()
    allocator.give_back(allocator.take(14 * MIB))
    assert allocator.take(12 * MIB).size == 12 * MIB
    assert allocator.take(2 * MIB).size == 2 * MIB
    assert allocator.reserved == 14 * MIB


def test_the_rest_of_a_small_block_is_split_off_from_512_bytes_on():
    allocator = plain()
    assert [allocator.take(512).size for _ in range(4096)] == [512] * 4096
    assert allocator.reserved == 2 * MIB
    allocator.take(512)
    assert allocator.reserved == 4 * MIB


def test_free_neighbours_become_one_block_again():
    allocator = plain()
    parts = [allocator.take(5 * MIB) for _ in range(4)]
    assert allocator.segments == 1
    for number in (1, 3, 0, 2):
        allocator.give_back(parts[number])
    assert allocator.take(18 * MIB + 1).address == parts[0].address
    assert allocator.reserved == 20 * MIB


def test_unused_segments_go_back_before_a_request_fails():
    allocator = plain(limit=100 * MIB)
    allocator.give_back(allocator.take(60 * MIB))
    allocator.take(80 * MIB)
    assert (allocator.reserved, allocator.retries, allocator.peak_reserved) == (80 * MIB, 1, 80 * MIB)


def test_a_segment_in_use_cannot_go_back_however_much_of_it_is_free():
    allocator = plain(limit=100 * MIB)
    first = allocator.take(60 * MIB)
    allocator.give_back(first)
    allocator.take(20 * MIB)
    with pytest.raises(OutOfMemory) as failed:
        allocator.take(50 * MIB)
    assert (failed.value.request, failed.value.allocated, failed.value.reserved) == (50 * MIB, 20 * MIB, 60 * MIB)


def test_the_message_names_the_segment_and_not_the_request():
    with pytest.raises(OutOfMemory) as failed:
        plain(limit=10 * MIB).take(3 * MIB)
    assert failed.value.request == 20 * MIB


def test_blocks_above_max_split_size_are_not_split_and_serve_only_requests_of_their_kind():
    allocator = plain(max_split_bytes=64 * MIB)
    large = allocator.take(100 * MIB)
    allocator.give_back(large)
    assert allocator.take(30 * MIB).address != large.address
    assert allocator.take(90 * MIB).size == 100 * MIB
    other = allocator.take(200 * MIB)
    allocator.give_back(other)
    assert allocator.take(100 * MIB).address != other.address


def test_old_segments_are_collected_above_the_threshold():
    allocator = plain(limit=100 * MIB, garbage_collection_threshold=0.5)
    allocator.give_back(allocator.take(60 * MIB))
    allocator.take(30 * MIB)
    allocator.take(40 * MIB)
    assert allocator.reserved == 100 * MIB
    allocator = plain(limit=200 * MIB, garbage_collection_threshold=0.25)
    allocator.give_back(allocator.take(60 * MIB))
    allocator.take(70 * MIB)
    assert (allocator.reserved, allocator.retries) == (70 * MIB, 0)


def test_sizes_are_rounded_to_steps_of_a_power_of_two_where_so_configured():
    allocator = plain(power_of_two_divisions=4)
    assert allocator.round(1200 * MIB) == 1280 * MIB
    assert allocator.round(1024 * MIB) == 1024 * MIB


def test_an_expandable_segment_grows_by_pages_and_has_no_holes_between_sizes():
    allocator = CachingAllocator(EXPANDABLE)
    for size in (30, 50, 70):
        block = allocator.take(size * MIB)
        allocator.give_back(block)
    assert (allocator.reserved, allocator.segments) == (80 * MIB, 1)
    allocator.take(512)
    assert allocator.reserved == 82 * MIB


def test_unused_pages_of_an_expandable_segment_go_back_from_its_middle():
    allocator = CachingAllocator(EXPANDABLE, limit=200 * MIB)
    first, middle, last = (allocator.take(60 * MIB) for _ in range(3))
    allocator.give_back(middle)
    allocator.take(80 * MIB)
    assert allocator.allocated == 200 * MIB
    assert allocator.reserved == 200 * MIB
    assert first.size == last.size == 60 * MIB


SETTINGS = st.sampled_from(
    [
        Allocator(),
        EXPANDABLE,
        Allocator(max_split_bytes=32 * MIB),
        Allocator(garbage_collection_threshold=0.6),
        Allocator(power_of_two_divisions=8),
    ]
)
REQUESTS = st.lists(st.tuples(st.integers(1, 1 << 27), st.integers(0, 7)), max_size=150)


@settings(max_examples=60, deadline=None)
@given(SETTINGS, st.sampled_from([None, 300 * MIB]), REQUESTS)
def test_live_bytes_are_conserved_and_no_two_blocks_overlap(settings, limit, requests):
    allocator = CachingAllocator(settings, limit)
    live = []
    for size, choice in requests:
        if live and choice < 4:
            allocator.give_back(live.pop(choice % len(live)))
        try:
            block = allocator.take(size >> (3 * (choice % 5)))
        except OutOfMemory as error:
            assert error.allocated == sum(one.size for one in live)
        else:
            live.append(block)
        assert allocator.allocated == sum(one.size for one in live) <= allocator.reserved
        assert limit is None or allocator.reserved <= limit
        spans = sorted((one.address, one.address + one.size) for one in live)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    for block in live:
        allocator.give_back(block)
    assert allocator.allocated == 0
