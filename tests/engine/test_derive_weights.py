"""Adapters, dtype and bytes of the weights, and what a host loads."""

from __future__ import annotations

import msgspec
import pytest

from engine.faults import world
from engine.runs import MAIN, crash, lib, pack_of, told
from firstfault.engine.align import align
from firstfault.engine.attribute import attribute
from firstfault.engine.derive import derive
from firstfault.model.fact import Setting
from firstfault.model.span import SourceSpan

BILLIONS = "7,000,000,000"


def setting(key, value, family="arguments"):
    return Setting(family=family, key=key, value=value, span=SourceSpan("run.log", 1, 0), text=key)


def facts_with(*settings, share=None, frames=(), answered=()):
    log = crash(MAIN, *frames)
    if share is not None:
        log.note("peft.trainable", share=share, all=BILLIONS)
    bundle = world(1, log)
    report = msgspec.structs.replace(bundle.reports[0], settings=settings)
    found = align(msgspec.structs.replace(bundle, reports=(report, *bundle.reports[1:])))
    return derive(found, attribute(found, pack_of().causal), pack_of(), answered)


@pytest.mark.parametrize(
    ("share", "settings", "frames", "expected"),
    [
        (0.06, (), (), True),
        (100.0, (), (), False),
        (40.0, (), (), None),
        (None, (setting("use_peft", True),), (), True),
        (None, (setting("use_lora", "False"),), (), False),
        (None, (setting("adapter", "qlora", "config"),), (), True),
        (None, (setting("adapter", None, "config"),), (), None),
        (None, (setting("use_peft", True), setting("use_lora", False)), (), None),
        (None, (), (lib("peft/tuners/lora/layer.py", "forward"),), True),
        (None, (), (), None),
    ],
)
def test_adapters(share, settings, frames, expected):
    assert facts_with(*settings, share=share, frames=frames).value("train.adapters") is expected


@pytest.mark.parametrize(
    ("value", "expected"), [("float16", "fp16"), ("torch.bfloat16", "bf16"), ("float32", "fp32"), ("auto", None), (None, None)]
)
def test_dtype_that_the_arguments_ask_for(value, expected):
    assert facts_with(setting("torch_dtype", value)).value("train.weights_dtype") == expected


def test_dtype_of_the_base_is_not_that_of_the_adapters():
    assert facts_with(setting("torch_dtype", "float16"), share=0.06).value("train.weights_dtype") is None


def test_bytes_of_the_weights():
    facts = facts_with(setting("torch_dtype", "bfloat16"), setting("weights_bytes", 5, "printed"), share=100.0)
    assert facts.value("memory.weights_bytes") == 14_000_000_000
    assert facts_with(setting("weights_bytes", 5000, "printed"), share=100.0).value("memory.weights_bytes") == 5000
    assert facts_with(share=100.0).value("memory.weights_bytes") is None


SIZE = setting("weights_bytes", 5000, "printed")


@pytest.mark.parametrize(
    ("settings", "answered", "expected"),
    [
        ((SIZE,), (told("launch.processes", 4),), 20_000),
        ((SIZE,), (), None),
        ((), (told("launch.processes", 4),), None),
        ((SIZE,), (told("launch.processes", 4), told("run.zero_stage", 3)), None),
        ((SIZE, setting("fsdp_config.fsdp_cpu_ram_efficient_loading", True, "accelerate")), (), 0),
    ],
)
def test_what_a_host_loads(settings, answered, expected):
    assert facts_with(*settings, answered=answered).value("host.load_copies_bytes") == expected
