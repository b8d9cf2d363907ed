"""Changes of a plan in the user's own files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml
from msgspec.structs import replace

from firstfault.memory.closed_form import forecast
from firstfault.memory.edits import changed_settings, edit_files
from firstfault.memory.fit import with_changes
from firstfault.memory.models import find_model
from firstfault.memory.plan import Device, MemoryPlan, Optimizer, Parallel

PLAN = MemoryPlan(config=find_model("Qwen/Qwen3-0.6B")[1], micro_batch=16, seq_len=512)
YAML = "model_name_or_path: Qwen/Qwen3-0.6B\nper_device_train_batch_size: 16  # as before\noptim: adamw_torch\n"
JSON = '{\n  "per_device_train_batch_size": 16,\n  "bf16": false\n}\n'


def test_a_key_that_is_there_is_changed_in_its_line_and_keeps_its_comment() -> None:
    files, diff = edit_files({"train.yaml": YAML}, changed_settings(PLAN, replace(PLAN, micro_batch=8, accumulate=2)))
    assert "per_device_train_batch_size: 8  # as before\n" in files["train.yaml"]
    assert yaml.safe_load(files["train.yaml"])["gradient_accumulation_steps"] == 2
    assert "-per_device_train_batch_size: 16  # as before\n+per_device_train_batch_size: 8" in diff


def test_json_stays_json() -> None:
    after = replace(PLAN, autocast="bfloat16", optimizer=Optimizer(name="adamw_8bit"))
    files, _ = edit_files({"args.json": JSON}, changed_settings(PLAN, after))
    told = yaml.safe_load(files["args.json"])
    assert (told["bf16"], told["optim"], told["per_device_train_batch_size"]) == (True, "adamw_bnb_8bit", 16)


def test_what_no_file_can_say_has_no_diff() -> None:
    assert edit_files({"train.yaml": YAML}, changed_settings(PLAN, replace(PLAN, weights="bfloat16"))) == ({}, "")
    assert edit_files({"ds.json": '{"zero_optimization": {"stage": 2}}'}, {"checkpointing": True}) == ({}, "")
    sharded = replace(PLAN, parallel=Parallel(strategy="fsdp2", world=2))
    assert changed_settings(PLAN, sharded) == {}


def test_a_key_of_deepspeed_is_changed_where_it_stands() -> None:
    files, _ = edit_files({"ds.json": '{\n  "train_micro_batch_size_per_gpu": 16\n}\n'}, {"batch": 4})
    assert yaml.safe_load(files["ds.json"]) == {"train_micro_batch_size_per_gpu": 4}


def test_the_diffs_of_fit_apply_one_after_the_other(tmp_path: Path) -> None:
    plan = replace(PLAN, device=Device(memory_bytes=12 * 1024**3))
    made = with_changes(plan, forecast(plan), fit=True, files={"train.yaml": YAML})
    assert made.fit and made.fit[-1].verdict == "fits"
    (tmp_path / "train.yaml").write_text(YAML, encoding="utf-8")
    for change in made.fit:
        if change.edit.startswith("--- "):
            subprocess.run(["git", "apply", "--unidiff-zero", "-"], input=change.edit, text=True, cwd=tmp_path, check=True)
    assert yaml.safe_load((tmp_path / "train.yaml").read_text(encoding="utf-8"))["per_device_train_batch_size"] < 16
