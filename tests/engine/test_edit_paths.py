from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from firstfault.engine.edit import Change, patch
from firstfault.ingest.bundle import gather
from firstfault.knowledge.pack import load_pack
from firstfault.model.diagnosis import Diagnosis, Fix
from firstfault.render.patch import git_apply, to_patch

YAML = "compute_environment: LOCAL_MACHINE\ndistributed_type: NO\nnum_processes: 1\n"


@pytest.mark.parametrize(
    "named", ["../conf/acc.yaml", "{root}/conf/acc.yaml", "../work/../conf/acc.yaml", "{root}/work/acc.yaml"]
)
@pytest.mark.parametrize("repository", [True, False])
def test_the_command_of_a_patch_changes_the_file_wherever_it_lies(tmp_path, monkeypatch, named, repository):
    for name in ("conf", "work"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "acc.yaml").write_text(YAML)
    if repository:
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.chdir(tmp_path / "work")
    path = named.format(root=tmp_path)
    made = patch([Change("accelerate", "num_processes", "4")], gather([path], load_pack()))
    assert made is not None
    assert made.applies
    fix = Fix(title="t", kind="edit", file=made.path, text=made.diff, applies=True)
    diagnosis = Diagnosis(verdict="established", fix=(fix,))
    subprocess.run(git_apply(diagnosis), shell=True, input=to_patch(diagnosis).encode(), check=True)
    assert Path(path).read_text() == YAML.replace("num_processes: 1", "num_processes: 4")
