from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from firstfault.scan.scanner import Scanner
from firstfault.server.web.scan_pack import scan_pack
from server.scan.hostile import write_hostile
from server.scan.sides import FOLDERS, PACK, STATIC, Side, python_side

NODE = shutil.which("node")
RUNNER = Path(__file__).parent / "scan_files.mjs"

pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed: the browser's modules are not run here")


def node_says(sides: list[Side], folder: Path) -> list[dict[str, object]]:
    (folder / "pack.json").write_bytes(scan_pack(PACK).data)
    lists = [[[name, str(path)] for name, path in side.files] for side in sides]
    (folder / "lists.json").write_text(json.dumps(lists), encoding="utf-8")
    words = [NODE or "", str(RUNNER), str(STATIC), str(folder / "pack.json"), str(folder / "lists.json")]
    run = subprocess.run(words, capture_output=True, text=True, encoding="utf-8", check=False)
    assert run.returncode == 0, run.stderr[-4000:]
    return [json.loads(line) for line in run.stdout.splitlines()]


def assert_alike(folders: list[Path], work: Path) -> None:
    scanner = Scanner(PACK.signals)
    found = {folder: side for folder in folders if (side := python_side(folder, scanner)) is not None}
    said = node_says(list(found.values()), work)
    for (folder, side), other in zip(found.items(), said, strict=True):
        assert other["events"] == side.events, folder
        assert base64.b64decode(str(other["capsule"])) == side.capsule, folder


def test_events_and_capsules_of_all_cases_and_examples_are_those_of_the_engine(tmp_path):
    assert_alike(FOLDERS, tmp_path)


def test_and_of_large_drawn_damaged_and_packed_logs(tmp_path):
    assert_alike(write_hostile(tmp_path / "logs"), tmp_path)


def test_node_is_told_of_a_zstd_frame_as_well(tmp_path):
    zstd = pytest.importorskip("backports.zstd")
    folder = tmp_path / "logs"
    folder.mkdir()
    text = b"RuntimeError: CUDA error: out of memory\n" * 3
    (folder / "run.log.zst").write_bytes(zstd.compress(text))
    assert_alike([folder], tmp_path)
