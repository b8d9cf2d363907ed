from __future__ import annotations

from typing import Any

import pytest

from launch_plans import ACCELERATE, values, yaml


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (yaml("MULTI_GPU", "num_processes: 2"), {"run.strategy": ("ddp",)}),
        (yaml("MULTI_GPU", "num_processes: 1"), {}),
        (
            yaml("FSDP", "num_processes: 2", "fsdp_config: {fsdp_offload_params: true}"),
            {"run.strategy": ("fsdp1",), "host.offload": "both"},
        ),
        (yaml("FSDP", "num_processes: 2", "fsdp_config: {fsdp_version: 2}"), {"run.strategy": ("fsdp2",)}),
        (
            yaml("DEEPSPEED", "num_processes: 2", "deepspeed_config: {zero_stage: 2, offload_optimizer_device: cpu}"),
            {"run.strategy": ("zero2",), "run.zero_stage": 2, "host.offload": "optimizer"},
        ),
        (
            yaml(
                "DEEPSPEED",
                "num_processes: 2",
                "deepspeed_config: {zero_stage: 3, offload_optimizer_device: none, offload_param_device: none}",
            ),
            {"run.strategy": ("zero3",), "run.zero_stage": 3, "host.offload": "none"},
        ),
        (yaml("DEEPSPEED", "num_processes: 2", "deepspeed_config: {deepspeed_config_file: other.json, zero_stage: 3}"), {}),
    ],
)
def test_how_accelerate_spreads_the_model(config: str, expected: dict[str, Any]) -> None:
    found = values(f"{ACCELERATE} t.py", config=config)
    assert {name: found[name] for name in ("run.strategy", "run.zero_stage", "host.offload") if name in found} == expected


JSON = '{"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}, "offload_optimizer": {"device": "cpu"}}}'


@pytest.mark.parametrize(
    "command", ["deepspeed t.py --deepspeed ds.json", "torchrun t.py --deepspeed conf/ds.json", "deepspeed t.py", ""]
)
def test_the_deepspeed_file_decides(command: str) -> None:
    found = values(command, deepspeed=JSON)
    assert (found["run.zero_stage"], found["run.strategy"], found["host.offload"]) == (3, ("zero3",), "both")


def test_a_deepspeed_file_that_the_command_does_not_use_says_nothing() -> None:
    assert "run.zero_stage" not in values("torchrun t.py", deepspeed=JSON)
    assert "run.zero_stage" not in values("deepspeed t.py --deepspeed other.json", deepspeed=JSON)


def test_auto_leaves_the_stage_open() -> None:
    assert "run.zero_stage" not in values("deepspeed t.py", deepspeed='{"zero_optimization": {"stage": "auto"}}')


def test_one_process_with_one_gpu_is_single() -> None:
    assert values(f"{ACCELERATE} t.py", config=yaml('"NO"'), count=1)["run.strategy"] == ("single",)
    assert "run.strategy" not in values(f"{ACCELERATE} t.py", config=yaml('"NO"'), count=4)
    assert "run.strategy" not in values("torchrun --nproc_per_node 4 t.py", count=4)
