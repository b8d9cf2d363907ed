"""What `plan --patch` prints goes through `git apply`, and the finding is gone when the changed files are planned again."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from engine.test_launch_faults import FREQUENT, SILENT
from firstfault.cli.main import run

GIT = shutil.which("git") or "git"
ROWS = [
    row
    for row in (*FREQUENT, *SILENT)
    if not {"ports_in_use", "driver"} & set(row[2]) and not any(name.startswith("~") for name in row[2].get("files", {}))
]
# For these the change is one of a script, of another machine's command or of what was meant: a pattern or a command is shown.
BY_HAND = frozenset(
    """
    no configuration; device_map auto; file beats the option; rdzv_backend never read; enable_cpu_affinity never read;
    downcast_bf16 never read; value of a switch; no machine rank; no address; one rank for all; address as a variable;
    launcher once per task; local rank of torch; local rank of deepspeed; variable beside num_gpus;
    slot that is not there; quantised model on one device; logits of an evaluation; layer class; notebook launcher;
    fp16 weights; fsdp as an option; fsdp in the script; ids do not count;
    fsdp table without its mode; mode of the file dropped; same network leaves no endpoint; c10d without endpoint;
    compile under DeepSpeed; ids replace the variable; hostfile None; stale .deepspeed_env; tasks of srun; processes of mpirun;
    no process at all
    """.replace("\n    ", " ")
    .strip()
    .split("; ")
)


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("HF_HOME", "XDG_CACHE_HOME", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")


@pytest.mark.parametrize(("name", "line", "known", "entry"), [pytest.param(*row, id=row[0]) for row in ROWS])
def test_the_change_is_applied_and_its_finding_is_gone(
    name: str, line: str, known: dict[str, Any], entry: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for path, text in known.get("files", {}).items():
        Path(path).write_text(text)
    Path("job.sh").write_text(f"#!/bin/bash\nset -e\n{line}\n")
    versions = [
        word for package, version in known.get("versions", {}).items() for word in ("--versions", f"{package}={version}")
    ]
    words = ["plan", "--gpus", str(known.get("gpus", 4)), *versions]
    assert entry in found(capsys, words)
    run([*words, "--patch", "job.sh"])
    patch = capsys.readouterr().out
    assert bool(patch) is (name not in BY_HAND)
    if patch:
        subprocess.run([GIT, "apply", "-"], input=patch, text=True, check=True)
        assert entry not in found(capsys, words)


def found(capsys: pytest.CaptureFixture[str], words: list[str]) -> list[str]:
    run([*words, "--format", "json", "job.sh"])
    return [one["entry"] for one in json.loads(capsys.readouterr().out)["findings"]]
