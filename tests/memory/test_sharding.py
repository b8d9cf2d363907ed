"""Sharded steps on paper beside real ones: two gloo processes with torch 2.13, live storages counted at every operation."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from firstfault.memory.closed_form import forecast
from firstfault.memory.plan import DType, MemoryPlan, Optimizer, Parallel, Strategy

SMALL = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 256, "intermediate_size": 1024,
    "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000,
    "tie_word_embeddings": False,
}  # fmt: skip
PLAN = MemoryPlan(
    config=SMALL, weights="bfloat16", optimizer=Optimizer(name="sgd"), micro_batch=1, seq_len=64, checkpointing=True,
    attention="eager", saves_checkpoint=False,
)  # fmt: skip
NUMEL = 6 * 983_552 + 512_256


def found(plan: MemoryPlan) -> dict[str, int]:
    """Live bytes at the peak of each phase, without the workspaces of a GPU's kernels."""
    made = forecast(plan)
    return {
        phase.name: phase.allocated.mid - sum(one.bytes for one in phase.components if one.name == "workspaces")
        for phase in made.phases
    }


@pytest.mark.parametrize(
    ("strategy", "forward", "backward"), [("fsdp1", 10_078_016, 19_836_232), ("fsdp2", 13_553_472, 20_262_216)]
)
def test_gathered_layers_and_reductions_live_as_long_as_in_a_real_step(strategy: Strategy, forward: int, backward: int) -> None:
    peaks = found(replace(PLAN, parallel=Parallel(strategy=strategy, world=2)))
    assert max(peaks["forward"], peaks["loss"]) == pytest.approx(forward, rel=0.005)
    assert peaks["backward"] == pytest.approx(backward, rel=0.005)


def test_before_the_first_layer_nothing_is_gathered_ahead() -> None:
    plan = replace(PLAN, config=SMALL | {"num_hidden_layers": 1}, parallel=Parallel(strategy="fsdp1", world=2))
    ahead = replace(plan, parallel=replace(plan.parallel, prefetch_layers=3))
    assert found(plan) == found(ahead)


@pytest.mark.parametrize("compute", ["bfloat16", None])
def test_shards_gradients_and_state_have_the_type_of_the_weights_not_of_the_computation(compute: DType | None) -> None:
    plan = replace(
        PLAN, weights="float32", autocast=compute, optimizer=Optimizer(implementation="fused"),
        parallel=Parallel(strategy="fsdp1", world=2),
    )  # fmt: skip
    # Weights, gradients and both moments in fp32.
    assert found(plan)["optimizer"] == pytest.approx(16 * NUMEL / 2, rel=0.005)


def test_weights_that_are_kept_are_there_through_the_loss() -> None:
    plan = replace(PLAN, parallel=Parallel(strategy="fsdp1", world=2, reshard=False))
    freed = found(replace(plan, parallel=replace(plan.parallel, reshard=True)))
    assert found(plan)["loss"] - freed["loss"] == pytest.approx(2 * 6 * 983_552, rel=0.01)


def test_offload_leaves_neither_shards_nor_their_gradients_nor_state_on_the_device() -> None:
    plan = replace(PLAN, optimizer=Optimizer(implementation="fused"))
    on_host = Parallel(strategy="fsdp1", world=2, offload_weights=True, offload_optimizer=True)
    assert found(replace(plan, parallel=on_host))["optimizer"] < 0.01 * 2 * NUMEL
