from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from firstfault.ingest.memory_snapshot_frames import BEFORE, Stacks
from firstfault.ingest.memory_snapshot_replay import Replay
from firstfault.ingest.memory_snapshot_timeline import MAX_POINTS, MAX_WINDOWS
from memory_snapshots import MIB


def entries(stacks: Stacks, steps: list[tuple[int, int, int]]) -> list[dict[str, Any]]:
    """Allocs and frees: (address, size, line of the call site); an address that is alive is freed."""
    alive: dict[int, int] = {}
    made = []
    for address, size, line in steps:
        if address in alive:
            made.append({"action": "free_requested", "addr": address, "size": alive[address]})
            made.append({"action": "free_completed", "addr": address, "size": alive.pop(address)})
        else:
            alive[address] = size
            stack = stacks.stack((stacks.frame("/home/user/train.py", line, "main"),))
            made.append({"action": "alloc", "addr": address, "size": size, "frames": stack})
    return made


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 1_000), st.integers(1, 5)), max_size=120))
def test_the_peak_and_its_call_sites_are_those_of_a_plain_count(steps: list[tuple[int, int, int]]) -> None:
    stacks = Stacks()
    replay = Replay(stacks)
    live: dict[int, tuple[int, int]] = {}
    best, sites = 0, {}
    for entry in entries(stacks, steps):
        replay.entry(entry)
        if entry["action"] == "alloc":
            live[entry["addr"]] = (entry["size"], entry["frames"].site)
        elif entry["action"] == "free_requested":
            del live[entry["addr"]]
        total = sum(size for size, _ in live.values())
        assert replay.total == total
        if total > best:
            best, sites = total, {}
            for size, site in live.values():
                sites[site] = sites.get(site, 0) + size
    assert replay.settle(live) == 0
    assert (replay.peak.total, replay.peak.sites) == (best, sites)
    assert replay.base == {}


def test_a_trace_that_begins_in_the_middle_counts_what_was_there() -> None:
    stacks = Stacks()
    replay = Replay(stacks)
    kept = stacks.stack((stacks.frame("/home/user/train.py", 9, "load"),))
    replay.entry({"action": "free_requested", "addr": 1, "size": 100})
    replay.entry({"action": "alloc", "addr": 2, "size": 30})
    assert replay.settle({2: (30, 0), 3: (70, kept.site)}) == 0
    assert replay.base == {BEFORE: 100, kept.site: 70}
    assert replay.total + sum(replay.base.values()) == 100


def test_blocks_that_differ_from_the_trace_are_counted() -> None:
    replay = Replay(Stacks())
    for address, size in ((1, 10), (2, 20)):
        replay.entry({"action": "alloc", "addr": address, "size": size})
    assert replay.settle({1: (11, 0)}) == 2


def test_a_block_that_a_stream_still_uses_is_awaited_until_it_is_complete() -> None:
    replay = Replay(Stacks())
    replay.entry({"action": "alloc", "addr": 1, "size": 10})
    replay.entry({"action": "free_requested", "addr": 1, "size": 10})
    replay.entry({"action": "oom", "size": 5, "device_free": 1})
    assert replay.failed is not None
    assert (replay.failed.moment.total, replay.failed.moment.awaiting) == (0, 10)
    replay.entry({"action": "free_completed", "addr": 1, "size": 10})
    replay.entry({"action": "oom", "size": 7, "device_free": 1})
    assert (replay.ooms, replay.failed.request_bytes, replay.failed.moment.awaiting) == (2, 7, 0)


def test_a_completion_alone_frees() -> None:
    replay = Replay(Stacks())
    replay.entry({"action": "alloc", "addr": 1, "size": 10})
    replay.entry({"action": "free_completed", "addr": 1, "size": 10})
    assert replay.total == 0


def test_segments_come_and_go_mapped_or_not() -> None:
    replay = Replay(Stacks())
    for action, size in (("segment_alloc", 20), ("segment_map", 40), ("segment_unmap", 10), ("segment_free", 20)):
        replay.entry({"action": action, "addr": 1, "size": size * MIB})
    assert replay.reserved == 30 * MIB


def test_entries_of_other_types_are_counted_and_passed_over() -> None:
    replay = Replay(Stacks())
    for entry in (
        {},
        {"action": "alloc"},
        {"action": "alloc", "addr": "x", "size": 1},
        {"action": "alloc", "addr": 1, "size": -5},
        {"action": "alloc", "addr": 1, "size": 1 << 80},
        {"action": "snapshot"},
        {"action": ["list"], "addr": 1, "size": 1},
        {"action": "oom", "size": "x", "device_free": None},
    ):
        replay.entry(entry)
    assert (replay.total, replay.odd, replay.ooms) == (0, 4, 1)


def test_the_points_stay_bounded_and_keep_the_peak() -> None:
    stacks = Stacks()
    replay = Replay(stacks)
    for number in range(60_000):
        replay.entry({"action": "alloc", "addr": number, "size": 1_000 if number == 33_333 else 10, "time_us": number + 1})
        if number % 2:
            replay.entry({"action": "free_requested", "addr": number, "size": 10})
    replay.settle({})
    points = replay.timeline.points
    assert MAX_POINTS // 4 < len(points) <= MAX_POINTS
    assert len(replay.windows.lows) <= MAX_WINDOWS
    assert [point.event for point in points] == sorted(point.event for point in points)
    assert points[-1].total == replay.total
    assert max(point.high for point in points) == replay.peak.total
    assert all(sum(point.sizes) == point.total for point in points)


def test_more_blocks_than_can_be_followed_are_told_of() -> None:
    replay = Replay(Stacks(), limit=3)
    for address in range(5):
        replay.entry({"action": "alloc", "addr": address, "size": 10})
    assert (replay.total, replay.crowded) == (30, True)
