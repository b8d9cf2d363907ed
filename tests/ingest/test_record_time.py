"""The time of a traceback is that of the record above it, and of no other line."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstfault.ingest.bundle import gather
from firstfault.knowledge.pack import load_pack

PACK = load_pack()
TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\nValueError: bad\n'


def times(text: str, tmp_path: Path) -> list[str | None]:
    path = tmp_path / "run.log"
    path.write_text(text, encoding="utf-8")
    (report,) = gather([path], PACK).reports
    return [event.place.time.text if event.place.time else None for event in report.events if event.traceback is not None]


@pytest.mark.parametrize(
    "record", ["2025-11-04 02:01:00,100 - ERROR - failed", "2025-11-04 02:01:00,100 CRITICAL train: uncaught exception"]
)
def test_record_that_a_logger_printed(record: str, tmp_path: Path) -> None:
    assert times(f"2025-11-04 02:00:59,100 - INFO - step 3\n{record}\n{TRACEBACK}", tmp_path) == ["2025-11-04 02:01:00,100"]


def test_line_of_progress_above_says_nothing_of_the_time(tmp_path: Path) -> None:
    assert times(f"2025-11-04 02:01:00,100 - INFO - step 3 loss 2.1\n{TRACEBACK}", tmp_path) == [None]


def test_record_of_another_rank_in_between(tmp_path: Path) -> None:
    lines = TRACEBACK.splitlines(keepends=True)
    labelled = "".join(f"[rank1]: {line}" for line in lines)
    text = "[rank1]: 2025-11-04 02:01:00,100 - ERROR - failed\n[rank0]: 2025-11-04 02:02:00,100 - ERROR - other\n" + labelled
    assert times(text, tmp_path) == ["2025-11-04 02:01:00,100"]


def test_log_that_goes_on_below_is_no_part_of_the_message(tmp_path: Path) -> None:
    text = f"2025-11-04 02:01:00,100 - ERROR - failed\n{TRACEBACK}2025-11-04 02:01:02,100 - INFO - leaving\n"
    assert times(text, tmp_path) == ["2025-11-04 02:01:00,100"]
