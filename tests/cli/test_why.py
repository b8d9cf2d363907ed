"""`firstfault why` from the shell: its arguments, its forms, its refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for rank in range(2):
        (tmp_path / f"rank_{rank}.log").write_text(
            "Traceback (most recent call last):\n"
            '  File "train.py", line 3, in <module>\n    x = 1 / 0\n'
            "ZeroDivisionError: division by zero\n"
            if rank
            else "step 1/10 loss=2.0\nstep 2/10 loss=1.9\n"
        )
    return tmp_path


def test_a_rank_is_explained(call: Call, folder: Path) -> None:
    code, out, err = call("why", "1", str(folder))
    assert (code, err) == (0, "")
    assert out.startswith("FIRST  rank 1\n")
    assert "more: firstfault diagnose" in out
    assert out.rstrip().endswith(str(folder))


def test_as_json(call: Call, folder: Path) -> None:
    code, out, _ = call("why", "1", str(folder), "--format", "json")
    assert code == 0
    assert (json.loads(out)["rank"], json.loads(out)["role"]) == (1, "initiating")


def test_a_rank_that_was_not_seen(call: Call, folder: Path) -> None:
    code, out, err = call("why", "9", str(folder))
    assert (code, out) == (2, "")
    assert "rank 9" in err


def test_no_rank_is_a_word(call: Call, folder: Path) -> None:
    assert call("why", "first", str(folder))[0] == 2
