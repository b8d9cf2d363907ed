"""Output that is written late: what stands below an error in the file may have happened before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.layouts import CLOSED, diagnosed, raised, steps

DONE = "2025-11-04 02:00:55,100 - INFO - Training completed. Saved to out\n"


def failed(clock: str, rank: int | None = None) -> str:
    label = "" if rank is None else f"[rank{rank}]: "
    return f"{label}2025-11-04 {clock},100 - ERROR - failed\n{raised('ValueError: bad', rank=rank)}"


def test_end_of_training_that_was_written_after_a_later_error(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, {"run.log": failed("02:05:00") + steps(50) + DONE})
    assert found.verdict != "no_failure"
    assert "failed while the run was being closed" in found.cause


def test_end_of_training_after_an_error(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, {"run.log": failed("02:00:20") + steps(50) + DONE}).verdict == "no_failure"


def test_clocks_of_two_zones_are_no_late_flush(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, {"run.log": failed("07:00:20") + steps(50) + DONE}).verdict == "no_failure"


@pytest.mark.parametrize("total", ["", "/50"])
def test_steps_that_were_written_after_a_later_error(tmp_path: Path, total: str) -> None:
    text = steps(50).replace(" loss", f"{total} loss")
    assert diagnosed(tmp_path, {"run.log": failed("02:05:00") + text}).verdict != "no_failure"


def test_peer_whose_steps_were_written_late(tmp_path: Path) -> None:
    lost = f"[rank1]: 2025-11-04 02:00:53,000 - ERROR - failed\n{raised(CLOSED, rank=1)}"
    found = diagnosed(tmp_path, {"rank_0.log": steps(50) + failed("02:00:51", 0), "rank_1.log": lost + steps(50)})
    assert found.initiating is not None and found.initiating.rank == 0
    assert {one.rank for one in found.collateral} == {1}


STEP = "2026-01-01 10:00:{:02d} INFO step {} loss 2.1\n"
TRACE = """\
Traceback (most recent call last):
  File "/w/data.py", line 12, in read
    r = get(url)
ConnectionError: reset by peer
"""


def verdict(folder: Path, text: str) -> str:
    return diagnosed(folder, {"run.log": text}).verdict


def test_dated_steps_on_both_sides_of_a_traceback_near_the_top_were_not_held_back(tmp_path: Path) -> None:
    below = "".join(STEP.format(10 + n, 20 + n) for n in range(5))
    above = STEP.format(1, 10) + STEP.format(2, 11)
    assert verdict(tmp_path, above + TRACE + below) == "no_failure"
    # Behind so much text the lines above may be what a full buffer let go.
    filler = "".join(f"2026-01-01 10:00:00 INFO loading shard {n} of the data set\n" for n in range(200))
    assert verdict(tmp_path, STEP.format(1, 10) + filler + STEP.format(2, 11) + TRACE + below) != "no_failure"
