from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec

from diagnosis_samples import DIFF, established, symmetric
from firstfault.model.diagnosis import Diagnosis, Fix
from firstfault.render.patch import git_apply, left_out, to_patch

BEFORE = "\n" * 11 + "data:\n  path: corpus.jsonl\n  max_length: null\n  seed: 7\n"


def _diagnosis(*fixes: Fix) -> Diagnosis:
    return Diagnosis(verdict="established", fix=fixes)


def _edit(text: str, file: str = "train.yaml") -> Fix:
    return Fix(title=f"change {file}", kind="edit", file=file, text=text, applies=True)


def test_git_takes_the_patch_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text(BEFORE)
    patch = to_patch(established())
    subprocess.run(["git", "apply", "-"], input=patch.encode(), cwd=tmp_path, check=True)
    assert (tmp_path / "train.yaml").read_text() == BEFORE.replace("null", "4096")


def test_only_fixes_that_apply_are_in_it() -> None:
    assert to_patch(established()) == DIFF
    assert [fix.file for fix in left_out(established())] == ["train.py"]
    assert to_patch(symmetric()) == ""
    assert len(left_out(symmetric())) == 2


def test_a_second_change_of_one_file_is_left_out() -> None:
    other = DIFF.replace("4096", "2048")
    diagnosis = _diagnosis(_edit(DIFF), _edit(other), _edit(DIFF.replace("train.yaml", "eval.yaml"), "eval.yaml"))
    assert to_patch(diagnosis) == DIFF + DIFF.replace("train.yaml", "eval.yaml")
    assert left_out(diagnosis) == [diagnosis.fix[1]]


def test_equal_fixes_are_one() -> None:
    assert to_patch(_diagnosis(_edit(DIFF), _edit(DIFF))) == DIFF


def test_a_diff_without_final_line_break_gets_one() -> None:
    assert to_patch(_diagnosis(_edit(DIFF.rstrip("\n")))) == DIFF


def test_text_is_not_touched() -> None:
    fix = msgspec.structs.replace(established().fix[0], text=DIFF.replace("seed", "\tseed \x1b é"))
    assert "\tseed \x1b é" in to_patch(_diagnosis(fix))


def test_the_command_names_the_folder_that_the_paths_start_from() -> None:
    assert git_apply(_diagnosis(_edit(DIFF))) == "git apply"
    assert git_apply(_diagnosis(_edit(DIFF, "/home/my user/train.yaml"))) == "git -C '/home/my user' apply"
    assert git_apply(_diagnosis(_edit(DIFF, "/train.yaml"))) == "git -C / apply"
    assert git_apply(_diagnosis(_edit(DIFF, "../../train.yaml"))) == "git -C ../.. apply"


def test_one_patch_starts_in_one_folder() -> None:
    diagnosis = _diagnosis(_edit(DIFF), _edit(DIFF.replace("train.yaml", "eval.yaml"), "../eval.yaml"))
    assert to_patch(diagnosis) == DIFF
    assert len(left_out(diagnosis)) == 1
