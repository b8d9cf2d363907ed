from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import pytest
from msgspec.structs import replace

from firstfault.ingest.handed import Handed
from firstfault.ingest.memory_snapshot import PRODUCES, read_memory_snapshot
from firstfault.ingest.memory_snapshot_twin import joined
from firstfault.ingest.open import open_handed
from firstfault.ingest.sniff import sniff
from firstfault.model.bundle import Source, SourceReport
from firstfault.model.event import Event, Place
from firstfault.model.span import SourceSpan
from memory_snapshots import MIB, WEIGHTS, Device, dump, snapshot, train


def report(path: Path, *devices: Device, cut: int = 0) -> SourceReport:
    data = pickle.dumps(snapshot(*devices), protocol=4)
    path.write_bytes(data[: len(data) - cut])
    handed = Handed(path=path.name, location=path, place=Place(rank=2))
    with open_handed(handed) as opened:
        assert sniff(path.name, opened.head) == "memory_snapshot"
        return read_memory_snapshot(handed, opened)


def full(capacity: int = 900 * MIB) -> Device:
    device = Device(1, capacity)
    with pytest.raises(MemoryError):
        train(device, 9, leak=30 * MIB)
    return device


def test_a_failed_allocation_is_an_event_with_its_stack(tmp_path: Path) -> None:
    device = full()
    found = report(tmp_path / "rank2.pickle", device)
    (event,) = found.events
    assert (event.name, event.fault_class, event.place.rank) == ("torch.oom", "device_oom", 2)
    assert event.span.part == f"device_traces[1][{len(device.trace) - 1}]"
    assert event.captures["requested"] == device.trace[-1]["size"]
    assert event.captures["free"] == device.capacity - device.reserved
    assert event.captures["allocated"] == sum(segment["allocated_size"] for segment in device.segments)
    frames = found.tracebacks[0].root.frames
    assert frames[0].function == "main"
    facts = {fact.name: fact for fact in found.facts}
    assert {"oom.reserved_bytes", "oom.largest_free_bytes"} <= facts.keys() <= set(PRODUCES)
    assert facts["oom.reserved_bytes"].value == device.reserved
    assert facts["oom.reserved_bytes"].spans == (event.span,)


def test_the_largest_piece_is_that_of_the_pool_the_request_could_use(tmp_path: Path) -> None:
    device = Device(0, 100 * MIB)
    device.alloc("a", 60 * MIB, WEIGHTS)
    device.alloc("small", MIB // 2, WEIGHTS)
    device.free("a")
    with pytest.raises(MemoryError):
        device.alloc("b", 80 * MIB, WEIGHTS)
    assert {fact.name: fact.value for fact in report(tmp_path / "a", device).facts}["oom.largest_free_bytes"] == 60 * MIB


def test_a_later_state_says_nothing_of_the_pools_at_the_failure(tmp_path: Path) -> None:
    device = full()
    device.free("weight0")
    found = report(tmp_path / "later.pickle", device)
    assert not {fact.name for fact in found.facts} & {"oom.reserved_bytes", "oom.largest_free_bytes"}
    assert "allocated" not in found.events[0].captures


def test_what_keeps_growing_is_told_a_step(tmp_path: Path) -> None:
    device = Device(0)
    train(device, 40, leak=20 * MIB)
    (fact,) = report(tmp_path / "leak.pickle", device).facts
    assert fact.name == "memory.step_slope_bytes"
    assert abs(int(str(fact.value)) - 20 * MIB) < MIB
    assert "train.py:66 step" in fact.origin
    steady = Device(0)
    train(steady, 40)
    assert report(tmp_path / "steady.pickle", steady).facts == ()


def test_without_a_failure_a_note_names_the_command(tmp_path: Path) -> None:
    device = Device()
    train(device, 1)
    found = report(tmp_path / "fine.pickle", device)
    assert found.events == ()
    assert "firstfault memory fine.pickle" in found.notes[0].what
    assert not found.notes[0].fatal


def test_a_cut_snapshot_is_a_note(tmp_path: Path) -> None:
    found = report(tmp_path / "cut.pickle", full(), cut=40)
    assert "in part" in found.notes[0].what
    assert not found.source.ends
    assert found.events
    assert not any(fact.name.startswith("oom.") for fact in found.facts)


def test_private_pools_are_told_as_the_message_of_torch_tells_them(tmp_path: Path) -> None:
    device, graphs = Device(0, 200 * MIB), Device(0, pool=(0, 3))
    graphs.alloc("graph", 30 * MIB, WEIGHTS)
    device.alloc("a", 150 * MIB, WEIGHTS)
    with pytest.raises(MemoryError):
        device.alloc("b", 90 * MIB, WEIGHTS)
    device.segments += graphs.segments
    assert report(tmp_path / "graphs.pickle", device).events[0].captures["pools"] == 30 * MIB


def test_other_pickles_are_no_snapshots(tmp_path: Path) -> None:
    for value in ({"version": "2.5", "entries": []}, [1, 2], {"a": {"total": 1}}, "segments"):
        assert sniff("a.pickle", pickle.dumps(value)) != "memory_snapshot"
    old = snapshot(full())["segments"]
    assert sniff("a.pickle", pickle.dumps(old)) == "memory_snapshot"
    packed = dump(tmp_path / "a.pickle.gz", [])
    packed.write_bytes(gzip.compress(pickle.dumps(snapshot(full()))))
    with open_handed(Handed(path="a.pickle.gz", location=packed)) as opened:
        assert sniff("a.pickle.gz", opened.head) == "memory_snapshot"


def logged(requested: int, device: int, rank: int | None) -> SourceReport:
    event = Event(
        name="torch.oom",
        signal="torch.oom.cuda.2_1",
        role="initiating",
        fault_class="device_oom",
        span=SourceSpan("rank.log", 7, 0),
        text="CUDA out of memory.",
        place=Place(rank=rank),
        captures={"requested": requested, "device": device},
    )
    return SourceReport(source=Source(id="rank.log", path="rank.log", kind="log"), events=(event,))


def alone(tmp_path: Path) -> SourceReport:
    found = report(tmp_path / "oom.pickle", full())
    nobody = Place()
    event = replace(found.events[0], place=nobody)
    return replace(found, source=replace(found.source, place=nobody), events=(event,), ranks=())


def test_the_log_of_the_same_request_is_the_failure_and_gives_the_rank(tmp_path: Path) -> None:
    snapshot_report = alone(tmp_path)
    size = int(snapshot_report.events[0].captures["requested"])
    mine, other = joined([snapshot_report, logged(round(size * 1.004), 1, 5)])
    assert mine.events[0].quoted
    assert mine.source.place.rank == mine.events[0].place.rank == mine.tracebacks[0].place.rank == 5
    assert mine.facts == snapshot_report.facts
    assert not other.events[0].quoted


@pytest.mark.parametrize(
    ("request_bytes", "printed"),
    [(100, 2 * MIB), (MIB, 2 * MIB), (MIB + 512, 20 * MIB), (5 * MIB, 20 * MIB), (10 * MIB, 10 * MIB), (11 * MIB, 12 * MIB)],
)
def test_the_message_names_the_segment_and_the_trace_the_request(request_bytes: int, printed: int, tmp_path: Path) -> None:
    found = alone(tmp_path)
    event = replace(found.events[0], captures={**found.events[0].captures, "requested": request_bytes})
    assert joined([replace(found, events=(event,)), logged(printed, 1, 5)])[0].events[0].quoted


def test_another_request_or_device_is_another_failure(tmp_path: Path) -> None:
    snapshot_report = alone(tmp_path)
    size = int(snapshot_report.events[0].captures["requested"])
    for foreign in (logged(2 * size, 1, 5), logged(size, 0, 5)):
        assert joined([snapshot_report, foreign])[0] == snapshot_report


def test_figures_of_one_of_several_equal_ranks_belong_to_nobody(tmp_path: Path) -> None:
    snapshot_report = alone(tmp_path)
    size = int(snapshot_report.events[0].captures["requested"])
    found = joined([logged(size, 1, 1), snapshot_report, logged(size, 1, 3)])[1]
    assert found.events[0].quoted
    assert (found.facts, found.ranks) == ((), ())
