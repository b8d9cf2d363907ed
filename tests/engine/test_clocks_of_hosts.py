"""Whole folders of hosts whose clocks differ: what they do at one moment ties them, with its error."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.layouts import CLOSED, account, diagnosed, raised, report, steps

START = 7200


def clock(at: int) -> str:
    return f"2025-11-04 {at // 3600:02d}:{at // 60 % 60:02d}:{at % 60:02d},100"


def failed(rank: int, error: str, at: int) -> str:
    """What `logger.exception` prints: a record with its time, and the traceback below."""
    return f"[rank{rank}]: {clock(at)} - ERROR - failed\n{raised(error, rank=rank)}"


def test_first_steps_tie_hosts_whose_last_steps_differ(tmp_path: Path) -> None:
    files = {
        "node-1.log": steps(50, ranks=(0, 1)) + raised(CLOSED, rank=0) + raised(CLOSED, rank=1),
        "node-2.log": steps(48, at=START + 540, ranks=(2, 3)) + raised("ValueError: bad label", rank=3),
    }
    found = diagnosed(tmp_path, files)
    assert found.notes == (
        "the clock of node-2 is 9 min ahead of that of node-1 (± 5 s, from a training step that both print)",
    )


def test_death_of_a_process_and_what_its_peers_see(tmp_path: Path) -> None:
    """No step is printed: the only moment that both hosts know is the end of rank 2."""
    lost = (
        "[rank0]:[W1104 02:00:52.100112 socket.cpp:464] [c10d] sendBytes failed on SocketImpl(fd=3, addr=[node-1]:4000,"
        " remote=[node-2]:5000): Broken pipe\n"
    )
    first = lost + account("02:00:55.000", 4100, failed=(0, 1, 4110)) + report("node-1", (0, 0, 1, 4110, "02:00:54"))
    second = account("02:09:54.100", 5100, stopped=(5111,), failed=(0, -11, 5110)) + report(
        "node-2", (2, 0, -11, 5110, "02:09:51")
    )
    found = diagnosed(tmp_path, {"node-1.log": first, "node-2.log": second})
    assert found.initiating is not None and found.initiating.rank == 2
    (said,) = found.notes
    assert "9 min ahead" in said and "± 60 s" in said


@pytest.mark.parametrize(("one", "three", "first"), [(90, 60, 3), (55, 100, 1)])
def test_two_failures_of_their_own_are_ordered_by_one_clock(tmp_path: Path, one: int, three: int, first: int) -> None:
    files = {
        "node-1.log": steps(50, ranks=(0, 1)) + failed(1, "ValueError: bad", START + one),
        "node-2.log": steps(50, at=START + 420, ranks=(2, 3)) + failed(3, "KeyError: 3", START + 420 + three),
    }
    found = diagnosed(tmp_path, files)
    assert found.initiating is not None and found.initiating.rank == first
    assert "A second failure is independent of it" in found.cause and "later" in found.cause


def test_ends_of_processes_stand_for_errors_without_a_time(tmp_path: Path) -> None:
    files = {
        "node-1.log": steps(50, ranks=(0, 1)) + raised("ValueError: bad", rank=1) + report("node-1", (1, 1, 1, 41, "02:01:30")),
        "node-2.log": steps(50, at=START + 420, ranks=(2, 3))
        + raised("KeyError: 3", rank=3)
        + report("node-2", (3, 1, 1, 51, "02:08:00")),
    }
    found = diagnosed(tmp_path, files)
    assert found.initiating is not None
    assert (found.initiating.rank, found.initiating.certainty) == (3, "likely")


def test_ends_that_are_seconds_apart_are_no_order(tmp_path: Path) -> None:
    files = {
        "rank_0.log": steps(50) + raised("ValueError: bad", rank=0),
        "rank_1.log": steps(50) + raised("KeyError: 3", rank=1),
        "console.log": report("node-1", (0, 0, 1, 41, "02:01:30"), (1, 1, 1, 42, "02:01:38")),
    }
    found = diagnosed(tmp_path, files)
    assert found.initiating is not None and found.initiating.certainty != "established"
    assert "later" not in found.cause


def test_kernel_of_the_second_node_is_tied_to_its_clock(tmp_path: Path) -> None:
    """Local rank 0 of the only node that was handed over is global rank 2, as its report says."""
    killed = "[ 9000.100000] Out of memory: Killed process 5110 (python) total-vm:99999999kB, anon-rss:88888888kB\n"
    console = account("02:00:50.100", 5100, stopped=(5111,), failed=(0, -9, 5110))
    files = {
        "node-2-dmesg.txt": f"[ 8000.000000] usb 1-1: new device\n{killed}",
        "node-2.log": steps(48, ranks=(2, 3)) + console + report("node-2", (2, 0, -9, 5110, "02:00:50")),
    }
    found = diagnosed(tmp_path, files)
    assert found.initiating is not None
    assert (found.initiating.rank, found.others) == (2, ())
    assert any("seconds since boot of node-2 are tied to the clock" in note for note in found.notes)
