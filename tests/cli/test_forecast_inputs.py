"""Where a forecast takes its values from: sizes without a file, and the DeepSpeed file that other arguments name."""

from __future__ import annotations

import json

import pytest

from firstfault.cli.main import run

SIZES = "layers=24,hidden=2048,heads=16,vocab=32000,type=llama"


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def answer(capsys, *words):
    code = run(["forecast", "--format", "json", *words])
    return code, json.loads(capsys.readouterr().out)


def test_plain_sizes_are_a_model(capsys):
    _, made = answer(capsys, "--model", SIZES)
    layer = 4 * 2048 * 2048 + 3 * 2048 * 8192 + 2 * 2048
    assert made["parameters"] == 24 * layer + 2 * 32000 * 2048 + 2048


@pytest.mark.parametrize(("words", "told"), [("layers=24", "hidden, heads, vocab"), ("layers=24,deep=3", "deep=3")])
def test_sizes_that_are_missing_or_unknown_are_named(capsys, words, told):
    assert run(["forecast", "--model", words]) == 2
    assert told in capsys.readouterr().err


def test_the_deepspeed_file_that_the_arguments_or_the_command_name_is_read(capsys, tmp_path):
    (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}}')
    (tmp_path / "train.json").write_text('{"deepspeed": "ds.json"}')
    _, plain = answer(capsys, "--model", SIZES, "--gpus", "4")
    _, named = answer(capsys, "--model", SIZES, "--gpus", "4", "--config", "train.json")
    words = ("torchrun", "--nproc_per_node", "4", "train.py", "--deepspeed", "ds.json")
    _, launched = answer(capsys, "--model", SIZES, "--gpus", "4", "--", *words)
    peaks = [max(phase["allocated"]["mid"] for phase in made["phases"]) for made in (plain, named, launched)]
    assert peaks[1] == peaks[2] < 0.7 * peaks[0]


def test_deepspeed_inside_the_arguments_is_read(capsys, tmp_path):
    (tmp_path / "train.json").write_text('{"deepspeed": {"zero_optimization": {"stage": 3}}}')
    _, plain = answer(capsys, "--model", SIZES, "--gpus", "4")
    _, named = answer(capsys, "--model", SIZES, "--gpus", "4", "--config", "train.json")
    assert named["phases"][0]["allocated"]["mid"] < plain["phases"][0]["allocated"]["mid"]
