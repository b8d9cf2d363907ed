from __future__ import annotations

import io
import os
import pickle
import subprocess
from pathlib import Path
from typing import Any

import pytest

from firstfault.ingest.memory_snapshot_reading import read_snapshot
from firstfault.memory.snapshot import report_of
from firstfault.model.memory_report import DeviceMemory, FailedAllocation, MemoryReport
from memory_snapshots import GIB, GRADIENT, LINEAR, LOSS, MIB, WEIGHTS, Device, dump, snapshot, train


def report(*devices: Device) -> MemoryReport:
    return made(snapshot(*devices))


def made(value: Any) -> MemoryReport:
    return report_of(read_snapshot(io.BytesIO(pickle.dumps(value)).read), "a.pickle")


def failed(device: Device) -> FailedAllocation:
    found = report(device).devices[0].failed
    assert found is not None
    return found


def fill(device: Device, size: int = 90 * MIB) -> None:
    """Asks for more until the device has no room."""
    with pytest.raises(MemoryError):
        for number in range(1_000):
            device.alloc(f"fill{number}", size, LINEAR)


def test_a_device_full_of_live_tensors() -> None:
    device = Device(0, GIB)
    fill(device)
    found = failed(device)
    assert (found.reason, found.request_bytes, found.count) == ("full", 90 * MIB, 1)
    assert found.device_free_bytes == device.capacity - device.reserved
    assert "Live tensors hold 990 MiB" in found.why
    assert found.site is not None
    assert found.site.package == "transformers/models/qwen3/modeling_qwen3.py:92 forward"
    assert found.frames[-1] == "/home/user/project/train.py:88 main"
    assert found.moment.part == f"device_traces[0][{len(device.trace) - 1}]"


def test_free_memory_in_pieces() -> None:
    device = Device(0, GIB)
    for number in range(34):
        device.alloc(f"x{number}", 30 * MIB, LINEAR)
    device.free(*(f"x{number}" for number in range(0, 34, 2)))
    with pytest.raises(MemoryError):
        device.alloc("y", 200 * MIB, LOSS)
    found = failed(device)
    assert (found.reason, found.unallocated_bytes, found.largest_free_bytes) == ("fragmented", 17 * 30 * MIB, 30 * MIB)
    assert "in 17 pieces" in found.why


def test_free_memory_in_a_private_pool() -> None:
    graphs = Device(0, pool=(0, 3))
    graphs.alloc("a", 300 * MIB, LINEAR)
    graphs.free("a")
    device = Device(0, 600 * MIB)
    fill(device)
    device.segments += graphs.segments
    found = failed(device)
    assert (found.reason, found.largest_free_bytes) == ("other_pool", 0)
    assert "a private pool" in found.why
    assert any(pool.private and pool.pool_id == (0, 3) for pool in report(device).devices[0].pools)


def test_free_memory_of_another_stream() -> None:
    side = Device(0)
    side.alloc("a", 300 * MIB, LINEAR)
    side.free("a")
    device = Device(0, 600 * MIB)
    fill(device)
    device.segments += [{**segment, "stream": 7} for segment in side.segments]
    assert failed(device).reason == "other_pool"
    assert "stream 7" in failed(device).why


def test_enough_was_free_so_something_else_refused() -> None:
    device = Device(0, 600 * MIB)
    fill(device)
    device.trace[-1]["device_free"] = 4 * GIB
    assert failed(device).reason == "limit"


def test_a_small_request_needs_a_whole_segment_of_the_driver() -> None:
    device = Device(0, 602 * MIB)
    fill(device)
    device.trace[-1].update(size=5 * MIB, device_free=8 * MIB)
    found = failed(device)
    assert found.reason == "full"
    assert "less than the 20 MiB of a new segment" in found.why


def test_a_request_of_a_private_pool_is_served_from_that_pool() -> None:
    device = Device(0, 600 * MIB, pool=(0, 3))
    for number in range(18):
        device.alloc(f"x{number}", 30 * MIB, LINEAR)
    device.free(*(f"x{number}" for number in range(0, 18, 2)))
    with pytest.raises(MemoryError):
        device.alloc("y", 100 * MIB, LOSS)
    assert (failed(device).reason, failed(device).largest_free_bytes) == ("fragmented", 30 * MIB)


def test_a_snapshot_taken_later_does_not_know_the_pieces() -> None:
    device = Device(0, GIB)
    for number in range(11):
        device.alloc(f"x{number}", 90 * MIB, LINEAR)
    device.free("x0", "x5")
    with pytest.raises(MemoryError):
        device.alloc("y", 170 * MIB, LOSS)
    device.free("x1")
    found = failed(device)
    assert (found.reason, found.largest_free_bytes) == ("unknown", None)
    assert found.unallocated_bytes == 180 * MIB
    assert found.events_after > 0


def test_many_failures_are_counted_and_the_last_one_is_told() -> None:
    device = Device(0, GIB)
    fill(device)
    with pytest.raises(MemoryError):
        device.alloc("z", 600 * MIB, GRADIENT)
    found = failed(device)
    assert (found.count, found.request_bytes) == (2, 600 * MIB)


def test_the_peak_the_end_and_the_growing_call_site() -> None:
    device = Device(0)
    train(device, 40, leak=20 * MIB)
    found = report(device).devices[0]
    assert found.failed is None
    assert found.steps == 40
    assert found.peak is not None
    assert sum(one.size_bytes for one in found.peak.held) + found.peak.rest_bytes == found.peak.allocated_bytes
    assert max(found.curve.high_bytes) == found.peak.allocated_bytes
    assert found.curve.total_bytes[-1] == found.requested_bytes
    assert found.curve.reserved_bytes[-1] == found.reserved_bytes
    (growth,) = found.growth
    assert growth.site.user == "/home/user/project/train.py:66 step"
    assert growth.per_step_bytes is not None
    assert abs(growth.per_step_bytes - 20 * MIB) < MIB
    train(steady := Device(0), 40)
    assert report(steady).devices[0].growth == ()


def test_what_was_there_before_the_recording_counts_with_its_stack_where_it_lives() -> None:
    device = Device(0)
    device.alloc("old", 500 * MIB, WEIGHTS)
    device.alloc("gone", 100 * MIB, WEIGHTS)
    device.trace.clear()
    train(device, 2)
    device.free("gone")
    found = report(device)
    peak = found.devices[0].peak
    assert peak is not None
    whole = {one.site.call or one.site.user: one.size_bytes for one in peak.held}
    assert whole["allocated before the recording began"] == 100 * MIB
    assert whole["torch/nn/modules/module.py:1329 convert"] == (500 + 160) * MIB
    assert any("before the first event" in note for note in found.notes)


@pytest.mark.parametrize(
    ("stacks", "trace", "history", "fact"),
    [
        (True, True, "stacks", None),
        (False, True, "trace", "memory.stacks"),
        (True, False, "blocks", "memory.trace"),
        (False, False, "none", "memory.history"),
    ],
)
def test_what_was_not_recorded_is_the_missing_fact(stacks: bool, trace: bool, history: str, fact: str | None) -> None:
    device = Device(0)
    train(device, 2)
    value = snapshot(device)
    if not stacks:
        for part in (*value["device_traces"][0], *(block for segment in value["segments"] for block in segment["blocks"])):
            part["frames"] = []
    if not trace:
        value["device_traces"] = [[]]
    found = made(value)
    assert found.history == history
    assert [missing.fact for missing in found.missing] == ([fact] if fact else [])
    assert all("_record_memory_history" in missing.command for missing in found.missing)


def test_several_devices_expandable_segments_and_the_old_forms() -> None:
    first, second = Device(0), Device(3, expandable=True)
    train(first, 1)
    train(second, 2)
    found = report(first, second)
    assert [device.device for device in found.devices] == [0, 3]
    assert [pool.expandable for device in found.devices for pool in device.pools if pool.kind == "large"] == [False, True]
    old = snapshot(first)["segments"]
    for segment in old:
        segment["blocks"] = [
            {"size": block["size"], "state": block["state"]}
            | (
                {"history": [{"addr": 1, "real_size": block["requested_size"], "frames": block["frames"]}]}
                if block["frames"]
                else {}
            )
            for block in segment["blocks"]
        ]
    assert made(old).devices[0].live == found.devices[0].live


def test_a_snapshot_with_nothing_in_it() -> None:
    for value in ({"segments": [], "device_traces": [[], []]}, []):
        found = made(value)
        assert (found.devices, found.history, found.complete) == ((), "none", True)


def test_a_cut_file_is_reported_as_far_as_it_goes() -> None:
    device = Device(0)
    train(device, 9)
    data = pickle.dumps(snapshot(device))
    found = report_of(read_snapshot(io.BytesIO(data[: len(data) * 2 // 3]).read), "a.pickle")
    assert not found.complete
    assert "were used" in found.notes[0]
    assert found.devices[0].peak is not None
    assert found.devices[0].peak.reserved_bytes is None


TORCH = os.environ.get("FIRSTFAULT_TORCH_PYTHON", "")
ASK_TORCH = """
import pickle, sys
from torch.cuda._memory_viz import segsum, trace, _format_size
value = pickle.load(open(sys.argv[1], "rb"))
text = segsum(value)
assert trace(value)
reserved = sum(segment["total_size"] for segment in value["segments"])
blocks = [block for segment in value["segments"] for block in segment["blocks"]]
used = sum(block["requested_size"] for block in blocks if block["state"] == "active_allocated")
assert f"total_reserved: {_format_size(reserved)}" in text, text
assert f"total_allocated: {_format_size(used)}" in text, text
print(reserved, used)
"""


@pytest.mark.skipif(not TORCH, reason="needs FIRSTFAULT_TORCH_PYTHON, an interpreter with torch")
def test_the_viewer_of_torch_takes_the_same_file_and_agrees(tmp_path: Path) -> None:
    devices: list[Device] = [Device(0), Device(1, expandable=True)]
    for device in devices:
        train(device, 3)
    path = dump(tmp_path / "a.pickle", snapshot(*devices))
    script = tmp_path / "ask.py"
    script.write_text(ASK_TORCH, encoding="utf-8")
    said = subprocess.run([TORCH, str(script), str(path)], capture_output=True, text=True, check=True).stdout.split()
    found: tuple[DeviceMemory, ...] = report(*devices).devices
    assert [int(word) for word in said] == [
        sum(device.reserved_bytes for device in found),
        sum(device.requested_bytes for device in found),
    ]
