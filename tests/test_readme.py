"""The README keeps its word: its first block installs and diagnoses, and no command in it names what does not exist."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from firstfault.cli.commands import COMMANDS
from firstfault.cli.group import all_options

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)


def test_second_block_is_the_command_of_ci() -> None:
    assert BLOCKS[1].split() == [".ci/run"]
    assert (ROOT / ".ci" / "run").is_file()


def test_commands_and_options_exist() -> None:
    named = {
        option for line in TEXT.splitlines() if "firstfault" in line for option in re.findall(r"(?<![\w-])--[a-z-]+", line)
    }
    assert named and named <= all_options()
    verbs = set(re.findall(r"`firstfault (\w+)(?= |`)", TEXT))
    assert verbs and {verb for verb in verbs if not (ROOT / verb).exists() and verb != "run"} <= set(COMMANDS)


@pytest.mark.full
def test_first_block_installs_and_diagnoses(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    for name in listed:
        if (ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, clone / name)
    done = subprocess.run(["bash", "-e", "-c", BLOCKS[0]], cwd=clone, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert "rank 2 (localhost) failed first" in done.stdout
    assert "rank-exception" in done.stdout
