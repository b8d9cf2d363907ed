"""What the comparison with recorded grids takes for equal."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench"
CASE = {"gpus": 4, "yaml": {"distributed_type": "MULTI_GPU", "num_processes": 2, "main_process_port": 0}}


@pytest.fixture
def grid(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    import launch_grid

    return launch_grid


def _differing(grid: ModuleType, **recorded: Any) -> list[str]:
    plan = grid.plan_known(grid.request_of(CASE, {"accelerate": "1.15.0"}))
    return [name for name, _, _ in grid.differences({"log": [], **recorded}, plan, grid.PROMISED)]


def test_only_what_the_row_has_is_compared_and_drawn_values_agree(grid: ModuleType) -> None:
    assert _differing(grid, nproc_per_node=2, rdzv_endpoint="127.0.0.1:40123") == []
    assert _differing(grid, nproc_per_node=4, rdzv_endpoint="10.0.0.1:40123") == ["nproc_per_node", "rdzv_endpoint"]


def test_variables_are_compared_both_ways(grid: ModuleType) -> None:
    assert "env_set.ACCELERATE_MIXED_PRECISION" in _differing(grid, env_set={"OMP_NUM_THREADS": "1"})


def test_the_last_line_counts_the_rows(grid: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                       monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    row = {"id": "x-1", "case": CASE, "versions": {"accelerate": "1.15.0"}, "log": [], "error": None, "nproc_per_node": 2}
    wrong = {**row, "id": "x-2", "nproc_per_node": 3}
    by_version = {"id": "x-3", "case": CASE, "by_version": {"1.4.0": {"nproc_per_node": 2}}}
    file = tmp_path / "grid.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in (row, wrong, by_version)))
    monkeypatch.setattr(sys, "argv", ["launch_grid.py", str(file)])
    assert grid.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["x-2: nproc_per_node: recorded 3, planned 2", "2/3"]
