from __future__ import annotations

import json
from pathlib import Path

import pytest

from firstfault.cli.main import run
from memory_snapshots import Device, dump, snapshot, train

QWEN = ("--model", "qwen3-0.6b", "--batch", "8", "--seq", "300")


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No nvidia-smi, no configuration and no interpreter of this machine is found."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("HF_HOME", "XDG_CACHE_HOME", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, object]]:
    code = run(["forecast", "--format", "json", *words])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("words", "code", "verdict"),
    [
        (("--memory", "23034MiB"), 0, "fits"),
        (("--memory", "23034MiB", "--gpus", "4", "--parallel", "dp"), 1, "does not fit"),
        (("--gpu", "L4", "--gpus", "2", "--parallel", "dp"), 3, "tight"),
        ((), 3, "unknown"),
    ],
)
def test_the_exit_code_says_whether_it_fits(capsys, words, code, verdict):
    found, made = answer(capsys, *QWEN, *words)
    assert (found, made["verdict"]) == (code, verdict)


def test_files_of_arguments_accelerate_and_deepspeed_are_read(capsys, tmp_path):
    (tmp_path / "train.yaml").write_text(
        "model_name_or_path: Qwen/Qwen3-0.6B\nper_device_train_batch_size: 2\nmax_seq_length: 128\n"
        "gradient_checkpointing: true\n"
        "bf16: true\noptim: adamw_torch\n"
    )
    (tmp_path / "ds.json").write_text('{\t"zero_optimization": {"stage": 3}}')
    (tmp_path / "accelerate.yaml").write_text("distributed_type: DEEPSPEED\nnum_processes: 4\n")
    files = [word for name in ("train.yaml", "ds.json", "accelerate.yaml") for word in ("--config", name)]
    _, made = answer(capsys, *files)
    assumed = {one["fact"]: (one["value"], one["source"]) for one in made["assumptions"]}  # type: ignore[attr-defined]
    assert assumed["sequence length"] == (128, "train.yaml")
    assert assumed["checkpointing"] == (True, "train.yaml")
    assert assumed["optimizer"] == ("adamw foreach", "train.yaml")
    load = made["phases"][0]["allocated"]["mid"]  # type: ignore[index]
    assert load == pytest.approx(596049920 * 2 / 4, rel=0.01)


def test_an_unquoted_no_of_yaml_is_no(capsys, tmp_path):
    (tmp_path / "accelerate.yaml").write_text("distributed_type: NO\nmixed_precision: no\nnum_processes: 4\n")
    _, made = answer(capsys, "--model", "gpt2", "--config", "accelerate.yaml")
    parts = {part["name"] for phase in made["phases"] for part in phase["components"]}  # type: ignore[attr-defined]
    assert "DDP buckets" not in parts
    assert "weights in low precision" not in parts


def test_options_win_over_files(capsys, tmp_path):
    (tmp_path / "train.yaml").write_text("max_seq_length: 128\n")
    _, made = answer(capsys, "--model", "gpt2", "--config", "train.yaml", "--seq", "64")
    assumed = {one["fact"]: one["value"] for one in made["assumptions"]}  # type: ignore[attr-defined]
    assert assumed["sequence length"] == 64


def test_a_launch_command_gives_devices_and_arguments(capsys):
    words = (
        "--",
        "torchrun",
        "--nproc_per_node",
        "4",
        "train.py",
        "--model_name_or_path",
        "openai-community/gpt2",
        "--max_length",
        "64",
    )
    _, made = answer(capsys, *words)
    assert made["model"] == "openai-community/gpt2"
    forward = made["phases"][1]["components"]  # type: ignore[index]
    assert any(part["name"] == "DDP buckets" for part in forward)


def test_a_config_of_ones_own(capsys, tmp_path):
    (tmp_path / "config.json").write_text(
        json.dumps({
            "model_type": "llama", "vocab_size": 1000, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
            "num_attention_heads": 4,
        })
    )  # fmt: skip
    for name in ("config.json", "."):
        _, made = answer(capsys, "--model", name)
        assert made["parameters"] == 2 * 1000 * 64 + 2 * (4 * 64 * 64 + 3 * 64 * 128 + 2 * 64) + 64


def test_fit_proposes_changes_that_end_in_fits(capsys):
    _, made = answer(capsys, *QWEN, "--memory", "12GB", "--fit")
    fit = made["fit"]
    assert fit and fit[-1]["verdict"] == "fits"  # type: ignore[index]
    assert fit[-1]["peak"] < 12 << 30  # type: ignore[index]
    assert made["changes"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), 2),
        (("--model", "no-such-model"), 2),
        (("--model", "missing/config.json"), 4),
        (("--model", "gpt2", "--gpu", "abacus"), 2),
        (("--model", "gpt2", "--memory", "much"), 2),
        (("--model", "gpt2", "--optim", "magic"), 2),
        (("--model", "gpt2", "--config", "missing.yaml"), 4),
        (("--model", "gpt2", "--gpus", "2", "--parallel", "hope"), 2),
    ],
)
def test_what_does_not_exist_is_told(capsys, words, code):
    assert run(["forecast", *words]) == code
    assert capsys.readouterr().err


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(capsys, width):
    words = (*QWEN, "--memory", "23034MiB", "--gpus", "4", "--parallel", "dp", "--fit", "--metrics")
    assert run(["forecast", *words, "--width", str(width)]) == 1
    text = capsys.readouterr().out
    assert all(len(line) <= width for line in text.splitlines())
    for word in ("DOES NOT FIT", "gather", "5.43 GiB", "PHASE", "MAKE IT FIT", "ASSUMED"):
        assert word in text


def test_ascii_only(capsys):
    run(["forecast", *QWEN, "--ascii"])
    assert capsys.readouterr().out.isascii()


OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 5.44 GiB. GPU 0 has a total capacity of 22.49 GiB of which "
    "1.42 GiB is free. Including non-PyTorch memory, this process has 21.07 GiB memory in use. Of the allocated memory "
    "18.95 GiB is allocated by PyTorch, and 1.65 GiB is reserved by PyTorch but unallocated.\n"
)
SPREAD = (*QWEN, "--gpus", "4", "--parallel", "dp")


def test_a_message_of_the_run_corrects_the_forecast(capsys, tmp_path):
    (tmp_path / "run.log").write_text(OOM)
    code, made = answer(capsys, *SPREAD, "--from", "run.log")
    assert (code, made["tier"], made["verdict"]) == (1, "measured", "does not fit")
    assumed = {one["fact"]: one for one in made["assumptions"]}  # type: ignore[attr-defined]
    assert assumed["not explained"]["value"].startswith("+0.")
    assert made["limit"] == pytest.approx(22.49 * (1 << 30), rel=0.001)
    assert run(["forecast", *SPREAD, "--from", "run.log", "--width", "80"]) == 1
    out = capsys.readouterr().out
    assert "calibrated by a measurement" in out
    assert "By run.log: 19 GiB" in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--tier", "2"), 2, "needs a measurement"),
        (("--tier", "1", "--from", "run.log"), 2, "uses no measurement"),
        (("--from", "run.log", "--snapshot", "run.log"), 2, "two measurements"),
        (("--from", "empty.log"), 4, "no out-of-memory message"),
        (("--snapshot", "empty.log"), 4, "snapshot"),
        (("--python", "no-such-python"), 2, "no interpreter"),
    ],
)
def test_measurements_that_are_none_and_options_that_contradict_each_other(capsys, tmp_path, words, code, says):
    (tmp_path / "run.log").write_text(OOM)
    (tmp_path / "empty.log").write_text("epoch 1\nepoch 2\n")
    assert run(["forecast", *QWEN, *words]) == code
    assert says in capsys.readouterr().err


def test_an_interpreter_that_cannot_trace_leaves_the_formula_with_a_note(capsys, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no torch here >&2\n")
    python.chmod(0o755)
    _, made = answer(capsys, *QWEN, "--python", str(python))
    assert made["tier"] == "formula"
    assert "no torch here" in made["notes"][0]  # type: ignore[index]
    _, plain = answer(capsys, *QWEN, "--tier", "0", "--python", str(python))
    assert plain["notes"] == []


def test_a_snapshot_of_another_run_is_said_to_be_one(capsys, tmp_path):
    device = Device()
    train(device, 3)
    dump(tmp_path / "step.pickle", snapshot(device))
    _, made = answer(capsys, *QWEN, "--snapshot", "step.pickle")
    assert made["tier"] == "measured"
    assert "step.pickle" in made["notes"][0]  # type: ignore[index]
    assert "another" in made["notes"][1]  # type: ignore[index]
