"""Peaks of a step, pinned to runs on meta tensors with a storage tracker (torch 2.13, transformers 5.24)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from firstfault.memory.closed_form import Step, forecast
from firstfault.memory.families import read_config
from firstfault.memory.models import bundled
from firstfault.memory.plan import Device, Evaluation, Lora, MemoryPlan, Optimizer, Parallel

QWEN = bundled()["Qwen/Qwen3-0.6B"]
LLAMA = bundled()["meta-llama/Llama-3.2-1B"]
PHI = bundled()["microsoft/phi-1_5"]
L4 = Device(memory_bytes=23034 << 20)
GB = 10**9


def peaks(plan: MemoryPlan) -> dict[str, int]:
    return {phase.name: phase.allocated.mid for phase in forecast(plan).phases}


TRACED = [
    # model, type, checkpointing, attention, forward or loss, backward, optimizer: GB, batch 2 x 512, foreach AdamW
    (QWEN, "float32", False, "sdpa", 13.1112, 13.7335, 11.9212),
    (QWEN, "bfloat16", False, "sdpa", 7.2011, 7.5122, 5.9607),
    (QWEN, "bfloat16", True, "sdpa", 5.1997, 5.5109, 5.9607),
    (LLAMA, "bfloat16", False, "sdpa", 10.526, 10.937, 12.358),
    (LLAMA, "float32", False, "sdpa", 20.470, 21.874, 24.716),
    (LLAMA, "bfloat16", True, "sdpa", 8.812, 10.937, 12.358),
    (bundled()["Qwen/Qwen2.5-0.5B"], "bfloat16", False, "eager", 7.070, 7.381, 4.941),
    (bundled()["google/gemma-3-1b-pt"], "bfloat16", False, "sdpa", 11.684, 12.221, 9.999),
    (bundled()["TinyLlama/TinyLlama-1.1B-Chat-v1.0"], "float32", False, "sdpa", 18.840, 18.987, 22.001),
    (bundled()["EleutherAI/pythia-410m"], "float32", False, "sdpa", 6.998, 7.204, 8.107),
    ({**PHI, "num_hidden_layers": 8}, "float32", False, "sdpa", 9.534, 9.810, 12.252),
]


@pytest.mark.parametrize("row", TRACED, ids=lambda row: f"{row[0]['model_type']}-{row[1]}-{row[2]}-{row[3]}")
def test_the_peaks_of_a_traced_step(row):
    config, weights, checkpointing, attention, forward, backward, optimizer = row
    plan = MemoryPlan(
        config=config, weights=weights, checkpointing=checkpointing, attention=attention, micro_batch=2, seq_len=512
    )  # fmt: skip
    found = peaks(plan)
    # What CUDA adds inside its operations: cuBLAS workspaces, attention's scratch.
    workspaces = 2 * 8_519_680
    assert max(found["forward"], found["loss"]) - workspaces == pytest.approx(forward * GB, rel=0.005)
    assert found["optimizer"] - workspaces == pytest.approx(optimizer * GB, rel=0.001)
    assert max(found["backward"], found["optimizer"]) == pytest.approx(max(backward, optimizer) * GB, rel=0.005)


@pytest.mark.parametrize(("n", "verdict"), [(1, "fits"), (4, "does not fit"), (8, "does not fit")])
def test_the_forum_case(n, verdict):
    parallel = Parallel(strategy="dp" if n > 1 else "single", world=n)
    made = forecast(
        MemoryPlan(
            config=QWEN, micro_batch=8, seq_len=300, optimizer=Optimizer(implementation="fused"), device=L4, parallel=parallel
        )
    )
    assert made.verdict == verdict
    if n == 4:
        assert made.first_oom is not None
        assert made.first_oom.phase == "gather"
        assert made.first_oom.request == pytest.approx(4 * 8 * 300 * 151936 * 4, abs=512)


def test_state_does_not_grow_with_accumulation_but_kept_graphs_do():
    plan = MemoryPlan(config=QWEN, micro_batch=1, seq_len=256, accumulate=2)
    two, eight = peaks(plan), peaks(replace(plan, accumulate=8))
    assert two == eight
    kept = [peaks(replace(plan, keeps_graphs=True, accumulate=k))["accumulation"] for k in (2, 4, 8)]
    assert kept[1] - kept[0] == pytest.approx(2 * 1.226 * GB, rel=0.02)
    assert kept[2] - kept[1] == pytest.approx(4 * 1.226 * GB, rel=0.02)


def test_optimizers_by_what_they_take_beside_weights_and_gradients():
    weights = 596049920 * 4
    plan = MemoryPlan(config=QWEN, micro_batch=1, seq_len=16)
    found = {
        name: peaks(replace(plan, optimizer=optimizer))["optimizer"] - 2 * weights - 2 * 8_519_680
        for name, optimizer in {
            "foreach": Optimizer(),
            "fused": Optimizer(implementation="fused"),
            "loop": Optimizer(implementation="loop"),
            "sgd": Optimizer(name="sgd"),
            "8bit": Optimizer(name="adamw_8bit"),
            "adafactor": Optimizer(name="adafactor"),
        }.items()
    }
    assert found["foreach"] == pytest.approx(3 * weights, rel=0.001)
    assert found["fused"] == pytest.approx(2 * weights, rel=0.001)
    assert found["loop"] == pytest.approx(2 * weights + 2 * 151936 * 1024 * 4, rel=0.001)
    assert found["sgd"] < 1_000_000
    embedding = 151936 * 1024
    assert found["8bit"] == pytest.approx(8 * embedding + (596049920 - embedding) * (2 + 8 / 256), rel=0.01)
    assert found["adafactor"] < weights


def test_ddp_adds_one_set_of_gradients_unless_they_are_views_of_the_buckets():
    plan = MemoryPlan(config=QWEN, micro_batch=1, seq_len=64, parallel=Parallel(strategy="ddp", world=2))
    viewed = replace(plan, parallel=replace(plan.parallel, bucket_view=True))
    assert peaks(plan)["optimizer"] - peaks(viewed)["optimizer"] == pytest.approx(596049920 * 4, rel=0.001)


@pytest.mark.parametrize(("world", "loaded", "optimizer"), [(8, 0.275, 1.375), (2, 1.10, 5.50)])
def test_fsdp2_holds_shards(world, loaded, optimizer):
    # TinyLlama in bf16 with foreach AdamW under FakeTensorMode and the fake process group.
    plan = MemoryPlan(
        config=bundled()["TinyLlama/TinyLlama-1.1B-Chat-v1.0"], weights="bfloat16", micro_batch=1, seq_len=512,
        parallel=Parallel(strategy="fsdp2", world=world),
    )  # fmt: skip
    found = peaks(plan)
    assert found["load"] == pytest.approx(loaded * GB, rel=0.01)
    assert found["optimizer"] - 2 * 8_519_680 == pytest.approx(optimizer * GB, rel=0.01)


def test_zero_stages_divide_state_then_gradients_then_weights():
    plan = MemoryPlan(config=LLAMA, weights="bfloat16", micro_batch=1, seq_len=64, optimizer=Optimizer(implementation="fused"))
    found = [
        peaks(replace(plan, parallel=Parallel(strategy=f"zero{stage}", world=8)))  # type: ignore[arg-type]
        for stage in range(4)
    ]
    after = [one["checkpoint save"] for one in found]
    assert after[0] > after[1] >= after[2] > after[3]
    # fp32 master weights and both moments: 12 bytes a parameter.
    assert after[0] - after[1] == pytest.approx(12 * 1235814400 * 7 / 8, rel=0.01)
    offloaded = peaks(replace(plan, parallel=Parallel(strategy="zero2", world=8, offload_optimizer=True)))
    assert offloaded["checkpoint save"] < after[2]


def test_predictions_are_gathered_only_with_metrics_and_go_with_accumulation_steps():
    plan = MemoryPlan(config=QWEN, micro_batch=8, seq_len=300, parallel=Parallel(strategy="ddp", world=4, bucket_view=True))
    logits = 8 * 300 * 151936 * 4
    without = forecast(replace(plan, evaluation=Evaluation()))
    assert "evaluation gather" not in [phase.name for phase in without.phases]
    kept = peaks(replace(plan, evaluation=Evaluation(metrics=True)))
    moved = peaks(replace(plan, evaluation=Evaluation(metrics=True, accumulation_steps=1)))
    assert kept["evaluation gather"] - moved["evaluation gather"] == pytest.approx(12 * logits, rel=0.01)


def test_adapters_train_few_parameters_and_quantized_weights_are_small():
    plan = MemoryPlan(
        config=LLAMA, weights="bfloat16", micro_batch=1, seq_len=128, lora=Lora(rank=16, targets=("q_proj", "v_proj"))
    )
    made = forecast(plan)
    assert made.trainable_parameters == 16 * 16 * (2048 + 2048 + 2048 + 512)
    assert peaks(plan)["optimizer"] < 3 * GB
    assert peaks(replace(plan, quantization="nf4"))["load"] < 0.6 * peaks(plan)["load"]


def test_fused_and_chunked_losses_do_not_hold_the_logits():
    plan = MemoryPlan(config=QWEN, weights="bfloat16", micro_batch=4, seq_len=1024, checkpointing=True)
    found = [
        max(one["loss"], one["backward"])
        for one in (peaks(replace(plan, loss=loss)) for loss in ("upcast", "plain", "fused", "chunked"))
    ]
    assert found[0] > found[1] > found[2]
    assert found[3] < found[1]


def test_autocast_keeps_copies_of_the_weights_until_backward():
    plan = MemoryPlan(config=LLAMA, micro_batch=1, seq_len=128)
    mixed = forecast(replace(plan, autocast="bfloat16"))
    forward = next(phase for phase in mixed.phases if phase.name == "loss")
    copies = next(part.bytes for part in forward.components if part.name == "weights in low precision")
    assert copies == pytest.approx(1235814400 * 2, rel=0.01)


@pytest.mark.parametrize("name", bundled())
def test_every_bundled_model_can_be_forecast_and_its_components_add_up(name):
    made = forecast(MemoryPlan(config=bundled()[name], weights="bfloat16", micro_batch=1, seq_len=128))
    assert made.phases
    for phase in made.phases:
        assert sum(part.bytes for part in phase.components) == phase.allocated.mid
        assert phase.allocated.lo <= phase.allocated.mid <= phase.allocated.hi
        assert phase.total.lo <= phase.total.mid <= phase.total.hi


def test_kbit_preparation_computes_the_rest_in_fp32():
    lora = Lora(rank=16, targets=("q_proj", "v_proj"))
    plan = MemoryPlan(config=LLAMA, weights="bfloat16", micro_batch=4, seq_len=512, lora=lora, quantization="nf4")
    prepared = peaks(replace(plan, prepares_kbit=True))
    embedding = 128256 * 2048
    assert prepared["load"] - peaks(plan)["load"] == pytest.approx(2 * embedding, rel=0.03)
    assert prepared["backward"] > 1.4 * peaks(plan)["backward"]


def test_a_window_that_is_reached_makes_a_mask_and_other_kernels():
    config = {**bundled()["mistralai/Mistral-7B-v0.1"], "num_hidden_layers": 4}
    plan = MemoryPlan(config=config, weights="bfloat16", micro_batch=1, seq_len=4096)
    without = peaks(replace(plan, config={**config, "sliding_window": None}))
    assert peaks(plan)["forward"] > without["forward"] + 4 * 4096 * 4096 * 2
    flash = replace(plan, attention="flash_attention_2")
    assert peaks(flash) == without
    assert peaks(replace(plan, seq_len=2048))["forward"] < without["forward"]


def test_adapters_keep_the_last_hidden_state_while_the_loss_is_computed():
    plan = MemoryPlan(config=QWEN, weights="bfloat16", micro_batch=4, seq_len=512, lora=Lora(), checkpointing=True)
    model = Step(plan, read_config(QWEN)).model
    model.forward()
    assert model.last is not None
    assert model.last.numel == 4 * 512 * 1024
