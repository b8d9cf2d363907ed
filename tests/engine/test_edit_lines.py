"""Keys that are taken out or renamed, and launch lines that change: each diff goes through `git apply`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from firstfault.engine.edit import Change, patch
from firstfault.ingest.plan_files import report_of, script_report
from firstfault.model.bundle import Bundle, SourceReport

YAML = """\
# ours
distributed_type: FSDP
num_gpus: 4  # old
ipex_config:
  use_xpu: true

  ipex: false
fsdp_config:
  fsdp_version: 2
  fsdp_ofload_params: true  # saves memory
tpu_env:
- A=1
num_processes: 4
"""
JSON = '{\n  "train_batch_size": 64,\n  "fp16": {\n    "enabled": true\n  },\n  "gradient_cliping": 1.0\n}\n'


def config(text: str, name: str) -> SourceReport:
    report = report_of(name, text)
    assert report is not None
    return report


def shell(text: str) -> SourceReport:
    report = script_report("job.sh", text)
    assert report is not None
    return report


def applied(report: SourceReport, folder: Path, *changes: Change) -> str | None:
    """The file after `git apply`, None where there is no diff."""
    made = patch(changes, Bundle(reports=(report,)))
    if made is None:
        return None
    assert made.applies and report.text is not None
    target = folder / report.source.path
    target.write_bytes(report.text.encode())
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    subprocess.run(["git", "apply", "-"], cwd=folder, input=made.diff.encode(), check=True)
    return target.read_bytes().decode()


@pytest.mark.parametrize(
    ("key", "gone"),
    [
        ("num_gpus", "num_gpus: 4  # old\n"),
        ("ipex_config", "ipex_config:\n  use_xpu: true\n"),
        ("fsdp_config.fsdp_version", "  fsdp_version: 2\n"),
        ("tpu_env", "tpu_env:\n- A=1\n"),
    ],
)
def test_a_key_goes_with_what_is_nested_below_it(tmp_path: Path, key: str, gone: str) -> None:
    text = YAML.replace("\n\n  ipex: false", "")
    after = applied(config(text, "c.yaml"), tmp_path, Change("accelerate", key, remove=True))
    assert after == text.replace(gone, "")


def test_several_keys_go_or_none(tmp_path: Path) -> None:
    both = [Change("accelerate", key, remove=True) for key in ("num_gpus", "fsdp_config.fsdp_version")]
    after = applied(config(YAML, "c.yaml"), tmp_path, *both)
    assert after is not None and "num_gpus" not in after and "fsdp_version" not in after
    assert applied(config(YAML, "c.yaml"), tmp_path, *both, Change("accelerate", "absent", remove=True)) is None


def test_a_key_is_renamed_where_it_stands(tmp_path: Path) -> None:
    change = Change("accelerate", "fsdp_config.fsdp_ofload_params", rename="fsdp_config.fsdp_offload_params")
    assert applied(config(YAML, "c.yaml"), tmp_path, change) == YAML.replace("ofload", "offload")


def test_keys_of_a_deepspeed_file(tmp_path: Path) -> None:
    report = config(JSON, "ds.json")
    renamed = Change("deepspeed", "gradient_cliping", rename="gradient_clipping")
    assert applied(report, tmp_path, renamed) == JSON.replace("cliping", "clipping")
    assert applied(report, tmp_path, Change("deepspeed", "train_batch_size", remove=True)) == JSON.replace(
        '  "train_batch_size": 64,\n', ""
    )
    # What stood before the last key loses its comma.
    assert applied(report, tmp_path, Change("deepspeed", "gradient_cliping", remove=True)) == JSON.replace(
        '  },\n  "gradient_cliping": 1.0\n', "  }\n"
    )
    one_line = config('{"train_batch_size": 64, "steps_per_print": 1}\n', "ds.json")
    assert applied(one_line, tmp_path, Change("deepspeed", "train_batch_size", remove=True)) is None


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        ("torchrun t.py\n", Change("command", "--nproc_per_node", "gpu", add=True), "torchrun --nproc_per_node gpu t.py\n"),
        (
            "torchrun \\\n  --nnodes 1 \\\n  t.py\n",
            Change("command", "--nnodes", "2"),
            "torchrun \\\n  --nnodes 2 \\\n  t.py\n",
        ),
        (
            "torchrun --nproc-per-node=2 t.py\n",
            Change("command", "--nproc_per_node", "4"),
            "torchrun --nproc-per-node=4 t.py\n",
        ),
        (
            "torchrun --standalone --nnodes 2 t.py\n",
            Change("command", "--standalone", remove=True),
            "torchrun --nnodes 2 t.py\n",
        ),
        ("torchrun \\\n  --standalone \\\n  t.py\n", Change("command", "--standalone", remove=True), "torchrun \\\n  t.py\n"),
        ("python t.py\n", Change("environment", "CUDA_VISIBLE_DEVICES", "0", add=True), "CUDA_VISIBLE_DEVICES=0 python t.py\n"),
        (
            "nohup python t.py &\n",
            Change("environment", "CUDA_VISIBLE_DEVICES", "0", add=True),
            "nohup env CUDA_VISIBLE_DEVICES=0 python t.py &\n",
        ),
        (
            "cd x && accelerate launch t.py\r\n",
            Change("environment", "CUDA_VISIBLE_DEVICES", "0", add=True),
            "cd x && CUDA_VISIBLE_DEVICES=0 accelerate launch t.py\r\n",
        ),
        (
            "export CUDA_VISIBLE_DEVICES=0,1\npython t.py\n",
            Change("environment", "CUDA_VISIBLE_DEVICES", "0", add=True),
            "export CUDA_VISIBLE_DEVICES=0\npython t.py\n",
        ),
        (
            "export RANK=0 LOCAL_RANK=0\npython t.py\n",
            Change("environment", "RANK", remove=True),
            "export LOCAL_RANK=0\npython t.py\n",
        ),
        ("export RANK=0\npython t.py\n", Change("environment", "RANK", remove=True), "python t.py\n"),
    ],
)
def test_a_launch_line_changes(tmp_path: Path, before: str, change: Change, after: str) -> None:
    assert applied(shell(before), tmp_path, change) == after


@pytest.mark.parametrize(
    "text", ["torchrun a.py\ntorchrun b.py\n", "./train.sh\n", "python -c 'import os' && python t.py && python u.py\n"]
)
def test_where_several_launches_stand_none_is_changed(tmp_path: Path, text: str) -> None:
    assert applied(shell(text), tmp_path, Change("command", "--nproc_per_node", "gpu", add=True)) is None
    assert applied(shell(text), tmp_path, Change("environment", "CUDA_VISIBLE_DEVICES", "0", add=True)) is None
