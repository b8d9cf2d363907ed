"""What a DeepSpeed file alone shows: keys that stop DeepSpeed, and settings that exclude each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from firstfault.cli.main import run


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def check(capsys: pytest.CaptureFixture[str], config: dict[str, Any], *words: str) -> str:
    Path("ds.json").write_text(json.dumps(config, indent=2))
    run(["plan", "--check", *words, "ds.json"])
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("config", "key", "meant"),
    [
        ({"zero_optimization": {"stage": 2, "overlap_com": True}}, "zero_optimization.overlap_com", '"overlap_comm": true'),
        (
            {"zero_optimization": {"stage": 3, "offload_optimizer": {"pin_memry": True}}},
            "offload_optimizer.pin_memry",
            '"pin_memory": true',
        ),
        ({"fp16": {"enabled": True, "loss_scal": 0}}, "fp16.loss_scal", '"loss_scale": 0'),
    ],
)
def test_an_unknown_key_of_a_strict_table_is_renamed(
    config: dict[str, Any], key: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = check(capsys, config)
    assert "deepspeed-config-error (ds.json:" in said
    assert f"{key}: DeepSpeed knows no such key" in said
    assert f"+ {meant}" in check(capsys, config, "--patch").replace("+    ", "+ ").replace("+      ", "+ ")


def test_both_spellings_of_stage_3_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    zero = {"stage": 3, "stage3_prefetch_bucket_size": "auto", "param_persistence_threshold": 10_000}
    assert "nothing is wrong" in check(capsys, {"zero_optimization": zero})


def test_two_precisions_are_one_too_many(capsys: pytest.CaptureFixture[str]) -> None:
    said = check(capsys, {"fp16": {"enabled": True}, "bf16": {"enabled": True}})
    assert "fp16 and bf16 are both switched on" in said
    assert "nothing is wrong" in check(capsys, {"fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}})
