"""Snapshots of the allocator through the whole engine: what they establish, and what they must not."""

from __future__ import annotations

from pathlib import Path

import pytest

import firstfault
from firstfault.model.diagnosis import Diagnosis
from memory_snapshots import GIB, LINEAR, LOSS, MIB, Device, dump, snapshot, train

LOG = """\
Traceback (most recent call last):
  File "/home/user/project/train.py", line 61, in step
    out = model(**batch)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 200.00 MiB. GPU 0 has a total capacity of 1.00 GiB of which \
4.00 MiB is free. Of the allocated memory 510.00 MiB is allocated by PyTorch, and 510.00 MiB is reserved by PyTorch but \
unallocated.
"""


def pieces(path: Path) -> Path:
    device = Device(0, GIB)
    for number in range(34):
        device.alloc(f"x{number}", 30 * MIB, LINEAR)
    device.free(*(f"x{number}" for number in range(0, 34, 2)))
    with pytest.raises(MemoryError):
        device.alloc("y", 200 * MIB, LOSS)
    return dump(path, snapshot(device))


def diagnose(*paths: Path) -> Diagnosis:
    return firstfault.diagnose(paths)


def test_pieces_are_fragmentation(tmp_path: Path) -> None:
    found = diagnose(pieces(tmp_path / "a.pickle"))
    assert (found.entry, found.verdict) == ("allocator-fragmentation", "established")
    assert any("device_traces[0]" in (evidence.part or "") for evidence in found.evidence)


def test_the_log_of_the_same_failure_stays_the_failure(tmp_path: Path) -> None:
    log = tmp_path / "rank3.log"
    log.write_text(LOG, encoding="utf-8")
    alone, found = diagnose(log), diagnose(log, pieces(tmp_path / "a.pickle"))
    assert (found.entry, found.verdict) == ("allocator-fragmentation", "established")
    assert found.initiating is not None
    assert alone.initiating is not None
    assert found.initiating.rank == 3
    assert found.initiating.certainty == alone.initiating.certainty
    assert found.others == ()


def test_some_free_pieces_on_a_full_device_establish_no_fragmentation(tmp_path: Path) -> None:
    device = Device(0, 1_600 * MIB)
    with pytest.raises(MemoryError):
        train(device, 60, leak=20 * MIB)
    found = diagnose(dump(tmp_path / "a.pickle", snapshot(device)))
    assert found.verdict != "established"
    assert found.entry != "allocator-fragmentation"


def test_a_snapshot_without_a_failure_is_no_failure_of_the_run(tmp_path: Path) -> None:
    device = Device(0)
    train(device, 3)
    found = diagnose(dump(tmp_path / "a.pickle", snapshot(device)))
    assert found.verdict in ("undetermined", "no_failure")
    assert found.initiating is None
