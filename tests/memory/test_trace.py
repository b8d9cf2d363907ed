"""The traced step: what is said where there is none, and that it tells what a real step on the CPU takes."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

import pytest
from msgspec.structs import replace

from firstfault.memory import closed_form, tiers
from firstfault.memory.models import bundled
from firstfault.memory.plan import Device, Evaluation, Lora, MemoryPlan, Optimizer, Parallel
from firstfault.memory.replay import Replay
from firstfault.memory.trace import Request, Trace, trace, traces
from firstfault.memory.traced_forecast import forecast_of, untraceable

QWEN = bundled()["Qwen/Qwen3-0.6B"]
MIB = 1 << 20
GIB = 1 << 30
PLAN = MemoryPlan(model="qwen", config=QWEN, micro_batch=8, seq_len=300, optimizer=Optimizer(implementation="fused"))


@pytest.fixture(scope="module")
def python() -> str:
    """An interpreter with torch and transformers."""
    named = os.environ.get("FIRSTFAULT_TORCH_PYTHON")
    if not named:
        pytest.skip("FIRSTFAULT_TORCH_PYTHON names no interpreter with torch and transformers")
    return named


def script(tmp_path, text: str) -> str:
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_an_interpreter_that_is_not_there_is_said_in_a_note_and_the_formula_answers():
    made, _ = tiers.forecast(PLAN, python="/nowhere/python")
    assert made.tier == "formula"
    assert made.notes == (
        "No step was traced, this is the formula: /nowhere/python cannot be started: No such file or directory.",
    )
    assert made.phases == closed_form.forecast(PLAN).phases


@pytest.mark.skipif(find_spec("torch") is not None, reason="this interpreter has torch")
def test_an_interpreter_without_torch_is_said_in_a_note():
    made, _ = tiers.forecast(PLAN, python=sys.executable)
    assert made.tier == "formula"
    assert made.notes[0].endswith(f"{sys.executable} has no torch.")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("echo no interpreter; exit 3", "does not answer"),
        ("echo '[\"a\"' ; echo out of order >&2", "out of order"),
        ('echo \'{"done": {"parameters": "many"}}\'', "is not understood"),
        ("sleep 30", "longer than 0.5 s"),
    ],
)
def test_a_program_that_answers_otherwise_is_a_failure(tmp_path, text, why):
    found = trace(PLAN, script(tmp_path, text), seconds=0.5)
    assert why in (found.failure or "")


@pytest.mark.parametrize(
    ("plan", "what"),
    [
        (replace(PLAN, parallel=Parallel(strategy="fsdp2", world=8)), "fsdp2"),
        (replace(PLAN, quantization="nf4"), "bitsandbytes"),
        (replace(PLAN, optimizer=Optimizer(name="adamw_8bit")), "bitsandbytes"),
        (replace(PLAN, loss="fused"), "fused loss"),
        (replace(PLAN, parallel=Parallel(strategy="zero2", world=2)), "zero2"),
    ],
)
def test_what_a_trace_cannot_show_is_left_to_the_formula(plan, what):
    assert what in (untraceable(plan) or "")
    assert tiers.forecast(plan, python="/nowhere/python")[0].tier == "formula"


EVENTS = [
    ["p", "load"],
    ["a", 1, 10 * GIB, "weights", ""],
    ["p", "forward"],
    ["a", 2, 8 * GIB, "activations", "layers.0"],
    ["p", "backward"],
    ["a", 3, 4 * GIB, "activations", "head"],
    ["k", 3, "gradients"],
    ["f", 2],
    ["p", "checkpoint save"],
]


@pytest.mark.parametrize(
    ("memory", "verdict"), [(None, "unknown"), (24 * GIB, "fits"), (22 * GIB + 400 * MIB, "tight"), (20 * GIB, "does not fit")]
)
def test_the_verdict_is_that_of_replays_with_the_least_and_the_most_context(memory, verdict):
    plan = replace(PLAN, device=Device(memory_bytes=memory))
    made = forecast_of(plan, Trace(events=EVENTS, versions={"torch": "2.13.0"}))
    assert (made.verdict, made.tier) == (verdict, "trace")
    assert [phase.name for phase in made.phases] == ["load", "forward", "backward", "checkpoint save"]
    assert made.phases[made.peak].allocated.mid == 22 * GIB
    assert all(sum(part.bytes for part in phase.components) == phase.allocated.mid for phase in made.phases)
    assert "torch" in [one.fact for one in made.assumptions]
    if verdict == "does not fit":
        assert made.first_oom is not None
        assert (made.first_oom.phase, made.first_oom.request) == ("backward", 4 * GIB)
        assert made.first_oom.what == "activations of head"


def small(name: str) -> dict[str, object]:
    sizes = {"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 8, "head_dim": 8}
    sizes |= {"num_key_value_heads": 2, "n_embd": 64, "n_layer": 2, "n_head": 8, "vocab_size": 1000, "n_positions": 128}
    return {key: sizes.get(key, value) for key, value in bundled()[name].items()}


LLAMA = MemoryPlan(config=small("meta-llama/Llama-3.2-1B"), micro_batch=2, seq_len=64)
REAL = {
    "foreach": LLAMA,
    "loop, qwen3": replace(LLAMA, config=small("Qwen/Qwen3-0.6B"), optimizer=Optimizer(implementation="loop")),
    "fused bf16": replace(LLAMA, weights="bfloat16", optimizer=Optimizer(implementation="fused")),
    "checkpointed, gpt2": replace(LLAMA, config=small("openai-community/gpt2"), checkpointing=True),
    "graphs kept, sgd": replace(LLAMA, accumulate=3, keeps_graphs=True, optimizer=Optimizer(name="sgd_momentum")),
    "adapters, evaluation": replace(
        LLAMA, lora=Lora(targets=("all-linear",), dropout=0.1), evaluation=Evaluation(micro_batch=4, metrics=True)
    ),
    "eager, adafactor": replace(LLAMA, attention="eager", optimizer=Optimizer(name="adafactor")),
}


def tensors_only(found: Trace) -> dict[str, int]:
    """Peaks by phase to the byte, without what only CUDA's kernels take."""
    peaks: dict[str, int] = {}
    held: dict[int, int] = {}
    phase = ""
    for event in found.events:
        if event[0] == "a" and event[3] != "workspaces":
            held[event[1]] = event[2]
        elif event[0] == "f":
            held.pop(event[1], None)
        elif event[0] == "p":
            phase = event[1]
        peaks[phase] = max(peaks.get(phase, 0), sum(held.values()))
    return peaks


def test_a_trace_without_content_tells_what_the_same_step_takes_for_real_on_the_cpu(python):
    requests = [Request(plan=plan, kernel="math", device=device) for plan in REAL.values() for device in ("meta", "cpu")]
    found = list(traces(requests, python))
    assert [one.failure for one in found] == [None] * len(requests)
    for name, traced, real in zip(REAL, found[::2], found[1::2], strict=True):
        assert tensors_only(traced) == pytest.approx(tensors_only(real), rel=0.001), name
        assert traced.parameters == real.parameters


FAMILIES = {
    "gpt2": ("openai-community/gpt2", {"padded": True}),
    "llama": ("HuggingFaceTB/SmolLM2-135M", {"weights": "bfloat16", "checkpointing": True}),
    "qwen3": ("Qwen/Qwen3-0.6B", {"autocast": "bfloat16", "accumulate": 2}),
    "gpt_neox": ("EleutherAI/pythia-160m", {"weights": "bfloat16", "accumulate": 4, "keeps_graphs": True}),
    "opt": ("facebook/opt-125m", {"optimizer": Optimizer(name="adafactor")}),
    "flash": ("Qwen/Qwen3-0.6B", {"weights": "bfloat16", "attention": "flash_attention_2"}),
    "window": (
        "mistralai/Mistral-7B-v0.1",
        {
            "config": {**bundled()["mistralai/Mistral-7B-v0.1"], "num_hidden_layers": 4, "sliding_window": 256},
            "weights": "bfloat16",
            "optimizer": Optimizer(name="sgd"),
        },
    ),
    "gemma3": ("google/gemma-3-1b-pt", {"lora": Lora(rank=8, targets=("all-linear",)), "weights": "bfloat16"}),
}


def test_the_formula_is_within_half_a_percent_of_the_trace(python):
    plans = [
        MemoryPlan(**{"config": bundled()[name], "micro_batch": 2, "seq_len": 256} | changed)  # type: ignore[arg-type]
        for name, changed in FAMILIES.values()
    ]
    for name, plan, found in zip(FAMILIES, plans, traces([Request(plan=one) for one in plans], python), strict=True):
        assert found.failure is None
        made = closed_form.forecast(plan)
        assert (made.parameters, made.trainable_parameters) == (found.parameters, found.trainable), name
        traced = max(peak.live for peak in Replay(found.events, plan.allocator).peaks.values())
        assert made.phases[made.peak].allocated.mid == pytest.approx(traced, rel=0.005), name


@pytest.mark.parametrize(("gpus", "verdict"), [(1, "fits"), (4, "does not fit")])
def test_the_forum_case(python, gpus, verdict):
    parallel = Parallel(strategy="dp" if gpus > 1 else "single", world=gpus)
    made, _ = tiers.forecast(replace(PLAN, device=Device(memory_bytes=23034 * MIB), parallel=parallel), python=python)
    assert (made.tier, made.verdict) == ("trace", verdict)
    if gpus > 1:
        assert made.first_oom is not None
        assert made.first_oom.phase == "gather"
        assert made.first_oom.request == pytest.approx(5.43 * GIB, rel=0.002)


def test_code_that_comes_with_a_model_is_never_run(python, tmp_path):
    (tmp_path / "modeling_own.py").write_text("raise SystemExit('run')\n")
    config = {**small("meta-llama/Llama-3.2-1B"), "auto_map": {"AutoModelForCausalLM": f"{tmp_path}--modeling_own.Own"}}
    assert trace(replace(LLAMA, config=config), python).failure is None
    unknown = trace(replace(LLAMA, config={"model_type": "own", "auto_map": config["auto_map"]}), python)
    assert "own" in (unknown.failure or "")
