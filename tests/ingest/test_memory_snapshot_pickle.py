from __future__ import annotations

import io
import os
import pickle
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstfault.ingest import memory_snapshot_pickle as reader
from firstfault.ingest.memory_snapshot_frames import Stack, Stacks
from firstfault.ingest.memory_snapshot_reading import SnapshotReading, read_snapshot
from memory_snapshots import GIB, MIB, Device, snapshot, train


def small() -> dict[str, Any]:
    first, second = Device(0), Device(1)
    train(first, 3)
    train(second, 2)
    return snapshot(first, second)


def read(data: bytes) -> SnapshotReading:
    return read_snapshot(io.BytesIO(data).read)


class Collected:
    """A consumer that keeps everything, with stacks as lists of frames again."""

    def __init__(self) -> None:
        self.segments: list[dict[str, Any]] = []
        self.traces: dict[int, list[dict[str, Any]]] = {}

    def segment(self, segment: dict[str, Any]) -> None:
        self.segments.append(self._plain(segment))

    def trace(self, device: int) -> None:
        self.traces[device] = []

    def entry(self, device: int, entry: dict[str, Any]) -> None:
        self.traces[device].append(self._plain(entry))

    def _plain(self, value: Any) -> Any:
        if isinstance(value, Stack):
            return [{"name": frame.name, "filename": frame.path, "line": frame.line} for frame in value.frames]
        if isinstance(value, dict):
            return {key: self._plain(item) for key, item in value.items()}
        return [self._plain(item) for item in value] if isinstance(value, list) else value


def collect(data: bytes) -> Collected:
    found = Collected()
    reader.SnapshotPickle(io.BytesIO(data).read, found, Stacks()).run()
    return found


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("chunk", [1 << 20, 70_000])
def test_it_reads_what_pickle_reads(protocol: int, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "CHUNK_BYTES", chunk)
    value = small()
    found = collect(pickle.dumps(value, protocol=protocol))
    assert found.segments == value["segments"]
    assert [found.traces[device] for device in sorted(found.traces)] == value["device_traces"]


def test_other_shapes_of_a_snapshot_are_read() -> None:
    value = small()
    one = {**value, "device_traces": value["device_traces"][:1], "segments": value["segments"][:1]}
    found = collect(pickle.dumps(one))
    assert (len(found.segments), len(found.traces)) == (1, 1)
    assert collect(pickle.dumps(value["segments"])).segments == value["segments"]
    assert collect(pickle.dumps(value["segments"][:1])).segments == value["segments"][:1]
    assert collect(pickle.dumps({"device_traces": value["device_traces"]})).traces[1] == value["device_traces"][1]
    python = pickle._Pickler  # type: ignore[attr-defined]
    written = io.BytesIO()
    python(written, protocol=4).dump(value)
    assert collect(written.getvalue()).segments == value["segments"]


def test_settings_stand_beside_it_and_other_lists_are_passed_over() -> None:
    value = {**small(), "external_annotations": [{"name": str(number)} for number in range(3_000)]}
    reading = read(pickle.dumps(value))
    assert reading.settings["max_split_size"] == -1
    assert not reading.stopped


def test_a_stack_of_thousands_of_frames_is_cut() -> None:
    value = small()
    value["device_traces"][0][5]["frames"] = [{"name": f"f{number}", "filename": "a.py", "line": 1} for number in range(2_500)]
    assert not read(pickle.dumps(value)).stopped


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch /tmp/never",)


@pytest.mark.parametrize(
    "value",
    [Evil(), {"segments": [], "device_traces": [[Evil()]]}, {1, 2}, b"bytes", range(3), {"segments": Ellipsis}],
    ids=["reduce", "reduce-in-trace", "set", "bytes", "range", "ellipsis"],
)
@pytest.mark.parametrize("protocol", [2, 4])
def test_nothing_is_called_and_no_name_looked_up(value: object, protocol: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pickle.dumps(value, protocol=protocol)
    monkeypatch.setattr(os, "system", pytest.fail)
    monkeypatch.setattr("builtins.__import__", pytest.fail)
    read(data)


def test_entries_before_a_refused_operation_are_used() -> None:
    value = small()
    value["device_traces"][1].append(Evil())
    reading = read(pickle.dumps(value))
    assert "more than build plain data" in reading.stopped
    assert reading.entries == sum(map(len, value["device_traces"])) - 1


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_cut_file_gives_what_stands_before_the_cut(share: float) -> None:
    value = small()
    data = pickle.dumps(value)
    reading = read(data[: int(len(data) * share)])
    assert reading.stopped
    assert reading.segments + reading.entries > 0
    assert reading.entries <= sum(map(len, value["device_traces"]))


@pytest.mark.parametrize(
    "body",
    [
        b"]" * 3_000_000,
        b"(" * 3_000_000,
        b"N" * 3_000_000,
        b"]\x94" + b"](" * 500_000,
        b"X\xff\xff\xff\x7fabc",
        b"\x8d" + struct.pack("<Q", 1 << 60) + b"abc",
        b"\x8a\xff" + b"\x7f" * 255 + b".",
        b"\x8b" + struct.pack("<I", 1 << 30),
        b"}r" + struct.pack("<I", 1 << 31) + b".",
        b"h\x05.",
        b"e.",
        b"u.",
        b"((u.",
        b"}(]K\x01u.",
        b"}(K\x01u.",
        b"K\x01K\x02a.",
        b"]" + b"]a" * 300_000 + b".",
        b"K\x01" + b"\x85" * 300_000 + b".",
        b"",
    ],
)
def test_hostile_operations_end_the_reading(body: bytes) -> None:
    read(b"\x80\x04" + body)


def test_one_entry_cannot_hold_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_HELD", 1_000)
    value = {"segments": [], "device_traces": [[{"action": "alloc", "addr": 1, "size": 1, "more": list(range(400_000))}]]}
    assert "too much at once" in read(pickle.dumps(value)).stopped


def test_the_memo_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_MEMO", 50)
    assert "more objects than can be kept" in read(pickle.dumps(small())).stopped


def test_texts_beyond_the_table_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_TABLE_BYTES", 4_000)
    value = {"segments": [], "device_traces": [[{"action": "alloc", f"key{number}": "x"} for number in range(5_000)]]}
    assert read(pickle.dumps(value)).entries == 5_000


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_files_never_raise(data: st.DataObject) -> None:
    device = Device(0, 2 * GIB)
    device.alloc("a", 3 * MIB, [{"name": "f", "filename": "a.py", "line": 1}])
    device.free("a")
    raw = bytearray(pickle.dumps(snapshot(device), protocol=data.draw(st.sampled_from([2, 4, 5]))))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(2, len(raw) - 1))] = data.draw(st.integers(0, 255))
    read(bytes(raw))
