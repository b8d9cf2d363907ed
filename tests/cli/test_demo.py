from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Engine
from firstfault.trial import examples as demo_module

Call = Callable[..., tuple[int, str, str]]
INDEX = """\
[first-run]
title = "The first run"
made = "recorded"
[second]
title = "The second"
"""


@pytest.fixture(autouse=True)
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "examples"
    for name in ("first-run", "second"):
        (folder / name).mkdir(parents=True)
        (folder / name / "run.log").write_text(f"{name}\n")
    (folder / "index.toml").write_text(INDEX)
    monkeypatch.setattr(demo_module, "_PLACES", (tmp_path / "nowhere", folder))
    monkeypatch.chdir(tmp_path)
    return folder


def test_the_list(call: Call) -> None:
    assert call("demo", "--list") == (0, "first-run  The first run\nsecond     The second\n", "")


def test_the_first_example_is_the_default(engine: Engine, call: Call, examples: Path) -> None:
    code, out, _ = call("demo")
    assert code == 0
    assert out.startswith("example: The first run\nmade:    recorded\n$ firstfault diagnose first-run\n4 ranks")
    assert out.endswith(f"files: {examples / 'first-run'} (copy them: --keep DIR)\n")
    assert engine.inputs == ["first-run"]
    assert Path.cwd() == examples.parent


def test_another_example(engine: Engine, call: Call) -> None:
    assert call("demo", "second")[0] == 0
    assert engine.inputs == ["second"]


def test_an_unknown_example(engine: Engine, call: Call) -> None:
    code, _, err = call("demo", "third")
    assert code == 2
    assert "first-run, second" in err


def test_keep_copies_the_files(engine: Engine, call: Call, tmp_path: Path) -> None:
    _, out, _ = call("demo", "second", "--keep", str(tmp_path / "mine"))
    assert (tmp_path / "mine" / "second" / "run.log").read_text() == "second\n"
    assert out.endswith(f"files: {tmp_path / 'mine' / 'second'}\n")


def test_the_folder_is_restored_after_an_error(engine: Engine, call: Call, tmp_path: Path) -> None:
    engine.error = ZeroDivisionError()
    assert call("demo")[0] == 70
    assert Path.cwd() == tmp_path


def test_an_installation_without_examples(engine: Engine, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_module, "_PLACES", (tmp_path / "nowhere",))
    code, _, err = call("demo")
    assert code == 2
    assert "no examples" in err
