from __future__ import annotations

from collections.abc import Callable

import pytest

from cli.conftest import Engine

Call = Callable[..., tuple[int, str, str]]


def test_an_entry(engine: Engine, call: Call) -> None:
    code, out, _ = call("explain", "cuda-oom")
    assert code == 0
    assert out.startswith("A GPU ran out of memory\n")
    assert "Short words." in out
    assert "    +b" in out


def test_markdown(engine: Engine, call: Call) -> None:
    assert call("explain", "cuda-oom", "--format", "markdown")[1].startswith("# A GPU ran out of memory\n")


@pytest.mark.parametrize("arguments", [("explain",), ("explain", "--list")])
def test_all_entries(engine: Engine, call: Call, arguments: tuple[str, ...]) -> None:
    code, out, _ = call(*arguments)
    assert code == 0
    assert "eval-predictions-kept-on-gpu: Predictions of the whole evaluation stay on the GPU" in " ".join(out.split())


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("cuda-om", "cuda-oom"),
        ("CUDA-OOM-optimiser-state", "cuda-oom-optimizer-state"),
        ("longer batch", "memory-longest-batch"),
    ],
)
def test_a_slip_names_what_was_meant(engine: Engine, call: Call, typed: str, meant: str) -> None:
    code, out, err = call("explain", typed)
    assert (code, out) == (2, "")
    assert f"no entry is called {typed}" in err
    assert meant in err


def test_an_unknown_word_leads_to_the_list(engine: Engine, call: Call) -> None:
    assert "firstfault explain --list" in call("explain", "zzz")[2]
