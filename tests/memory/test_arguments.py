"""Settings of files and flags as a plan."""

from __future__ import annotations

import pytest

from firstfault.memory.arguments import Given, Settings, flat, make_plan
from firstfault.memory.plan import Device, MemoryPlan, Parallel


def plan_of(*files: dict[str, object], **flags: object) -> MemoryPlan:
    settings: Settings = {}
    for file in files:
        settings |= flat(file, "a file")
    settings |= {name: Given(value, name) for name, value in flags.items()}
    return make_plan("", {}, settings, Device())


@pytest.mark.parametrize(
    "file",
    [
        {"distributed_type": "FSDP", "fsdp_config": {"fsdp_sharding_strategy": "SHARD_GRAD_OP"}},
        {"distributed_type": "FSDP", "fsdp_config": {"fsdp_sharding_strategy": 2}},
        {"distributed_type": "FSDP", "fsdp_config": {"fsdp_version": 2, "fsdp_reshard_after_forward": False}},
        {"fsdp": "shard_grad_op auto_wrap"},
        {"fsdp": ["shard_grad_op", "auto_wrap"]},
    ],
)
def test_gathered_weights_that_are_kept_are_told_by_every_file(file: dict[str, object]) -> None:
    parallel = plan_of(file, gpus=4).parallel
    assert parallel.strategy in ("fsdp1", "fsdp2") and not parallel.reshard


@pytest.mark.parametrize(
    "file",
    [
        {"distributed_type": "FSDP", "fsdp_config": {"fsdp_offload_params": True}},
        {"fsdp": "full_shard auto_wrap offload"},
    ],
)
def test_fsdp_in_host_memory(file: dict[str, object]) -> None:
    parallel = plan_of(file, gpus=4).parallel
    assert parallel.reshard and parallel.offload_weights and parallel.offload_optimizer


def test_a_name_that_is_off_shards_nothing() -> None:
    assert plan_of({"fsdp": False}, gpus=4).parallel == Parallel(strategy="ddp", world=4)


def test_targets_of_adapters_are_read_from_a_list_too() -> None:
    lora = plan_of({"lora_r": 16, "lora_target_modules": ["q_proj", "o_proj"]}).lora
    assert lora is not None and lora.targets == ("q_proj", "o_proj")


@pytest.mark.parametrize(("name", "implementation"), [("adamw_apex_fused", "fused"), ("paged_adamw", "fused")])
def test_names_of_the_trainer(name: str, implementation: str) -> None:
    assert plan_of(optim=name).optimizer.implementation == implementation
