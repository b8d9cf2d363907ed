from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path

import pytest

from firstfault.cli.main import run
from firstfault.cli.memory import _told
from memory_snapshots import MIB, Device, dump, snapshot, train


@pytest.fixture
def fine(tmp_path: Path) -> Path:
    device = Device()
    train(device, 3)
    return dump(tmp_path / "fine.pickle", snapshot(device))


@pytest.fixture
def oom(tmp_path: Path) -> Path:
    device = Device(0, 900 * MIB)
    with pytest.raises(MemoryError):
        train(device, 9, leak=30 * MIB)
    return dump(tmp_path / "oom.pickle", snapshot(device))


def test_exit_code_1_says_that_an_allocation_failed(fine: Path, oom: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["memory", str(fine)]) == 0
    assert "no failed allocation" in capsys.readouterr().out
    assert run(["memory", str(oom)]) == 1
    assert "OUT OF MEMORY" in capsys.readouterr().out


def test_the_name_of_the_output_decides_its_form(oom: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, begins in (("a.html", "<!doctype html>"), ("a.json", '{\n  "schema"'), ("a.txt", "")):
        assert run(["memory", str(oom), "--output", str(tmp_path / name)]) == 1
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(begins)
    assert "OUT OF MEMORY" in (tmp_path / "a.txt").read_text(encoding="utf-8")
    assert capsys.readouterr().out == ""
    assert run(["memory", str(oom), "--format", "html"]) == 1
    assert capsys.readouterr().out.startswith("<!doctype html>")
    assert run(["memory", str(oom), "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["schema"] == "firstfault.memory/1"


def test_packed_snapshots_are_read(oom: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = oom.with_name("oom.pickle.gz")
    packed.write_bytes(gzip.compress(oom.read_bytes()))
    assert run(["memory", str(packed)]) == 1
    assert "OUT OF MEMORY" in capsys.readouterr().out


@pytest.mark.parametrize("content", [b"", b"no pickle", b"\x80\x04N.", b"\x80\x04cos\nsystem\n.", b"\x80\x04}."])
def test_exit_code_4_where_nothing_of_a_snapshot_is_in_it(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.pickle"
    path.write_bytes(content)
    assert run(["memory", str(path)]) == 4
    assert "a.pickle" in capsys.readouterr().err


def test_exit_code_4_where_there_is_no_file(tmp_path: Path) -> None:
    assert run(["memory", str(tmp_path / "none")]) == 4
    assert run(["memory", str(tmp_path)]) == 4


def test_progress_is_told_to_a_terminal_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    data = io.BytesIO(b"x" * 40_000_000)
    assert _told(data.read, 40_000_000) == data.read
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert _told(data.read, 1_000) == data.read
    read = _told(data.read, 40_000_000)
    while read(1 << 20):
        pass
    said = capsys.readouterr().err
    assert "reading 41 %" in said
    assert said.endswith("\r\x1b[K")
