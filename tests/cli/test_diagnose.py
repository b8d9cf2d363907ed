from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Engine
from diagnosis_samples import DIFF, no_failure, symmetric, undetermined

Call = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(("make", "code"), [(symmetric, 1), (undetermined, 3), (no_failure, 0)])
def test_the_exit_code_is_the_verdict(engine: Engine, call: Call, make: Callable[[], object], code: int) -> None:
    engine.answer = make()  # type: ignore[assignment]
    assert call("run.log")[0] == code


def test_not_a_terminal_gives_80_plain_columns(engine: Engine, call: Call) -> None:
    _, out, err = call("runs/job 1")
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 80
    assert "apply: firstfault diagnose 'runs/job 1' --patch | git apply" in out
    assert err == ""


def test_titles_of_entries_come_from_the_pack(engine: Engine, call: Call) -> None:
    engine.answer = undetermined()
    assert "Predictions of the whole evaluation stay on the GPU" in call("run.log")[1]


def test_colour_width_and_ascii_on_request(engine: Engine, call: Call) -> None:
    assert "\x1b[1;31mFAILED" in call("run.log", "--color", "always")[1]
    assert max(map(len, call("run.log", "--width", "120")[1].splitlines())) > 80
    assert call("run.log", "--ascii")[1].isascii()


@pytest.mark.parametrize(("form", "begin"), [("json", "{"), ("markdown", "## FAILED"), ("html", "<!doctype html>")])
def test_formats(engine: Engine, call: Call, form: str, begin: str) -> None:
    assert call("run.log", "--format", form)[1].startswith(begin)


@pytest.mark.parametrize(
    ("name", "begin"), [("a.json", "{"), ("a.md", "## FAILED"), ("a.HTML", "<!doctype"), ("a.txt", "4 ranks")]
)
def test_the_suffix_of_the_output_is_its_format(engine: Engine, call: Call, tmp_path: Path, name: str, begin: str) -> None:
    code, out, err = call("run.log", "--output", str(tmp_path / name))
    assert (code, out) == (1, "")
    assert err == f"written: {tmp_path / name}\n"
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(begin)


def test_an_output_that_cannot_be_written_is_a_usage_error(engine: Engine, call: Call, tmp_path: Path) -> None:
    code, _, err = call("run.log", "--output", str(tmp_path / "no" / "a.json"))
    assert code == 2
    assert "cannot be written" in err


def test_facts_and_answers_are_handed_over(engine: Engine, call: Call) -> None:
    call("run.log", "--fact", "oom.phase=gather", "--fact", "a.b= x=y ", "--answer", "gpus.txt")
    assert engine.facts == {"oom.phase": "gather", "a.b": "x=y"}
    assert engine.inputs == ["run.log", "gpus.txt"]


def test_later_commands_name_the_inputs_without_the_answers(engine: Engine, call: Call) -> None:
    assert "diagnose run.log --patch" in call("run.log", "--answer", "gpus.txt")[1]


@pytest.mark.parametrize("fact", ["oom.phase", "=gather"])
def test_a_fact_needs_a_name_and_a_value(engine: Engine, call: Call, fact: str) -> None:
    code, _, err = call("run.log", "--fact", fact)
    assert code == 2
    assert "NAME=VALUE" in err


def test_a_patch_is_the_patch_and_nothing_else(engine: Engine, call: Call) -> None:
    code, out, err = call("run.log", "--patch")
    assert (code, out) == (1, DIFF)
    assert err == "not in the patch: train.py: Sort samples by length\n"


def test_no_patch_is_said_on_standard_error(engine: Engine, call: Call) -> None:
    engine.answer = symmetric()
    _, out, err = call("run.log", "--patch")
    assert out == ""
    assert err.startswith("No fix of this answer is a patch.\n")


def test_a_patch_goes_to_a_file(engine: Engine, call: Call, tmp_path: Path) -> None:
    call("run.log", "--patch", "--output", str(tmp_path / "fix.patch"))
    assert (tmp_path / "fix.patch").read_text() == DIFF


def test_standard_input_is_read_for_a_dash(engine: Engine, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a log\n")))
    call("-")
    assert engine.stdin == b"a log\n"


def test_standard_input_is_left_alone_otherwise(engine: Engine, call: Call) -> None:
    call("run.log")
    assert engine.stdin == b""


def test_a_mistyped_command_is_named(engine: Engine, call: Call) -> None:
    code, _, err = call("explian", "cuda-oom")
    assert code == 2
    assert "Did you mean `firstfault explain`?" in err
    assert engine.inputs == []


def test_a_file_called_like_a_command_is_a_file(
    engine: Engine, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "explian").write_text("a log")
    assert call("explian")[0] == 1


def test_json_is_one_object(engine: Engine, call: Call) -> None:
    assert json.loads(call("run.log", "--format", "json")[1])["entry"] == "memory-longest-batch"
