"""How far the run got, in which framework, with which batch and accumulation."""

from __future__ import annotations

import msgspec
import pytest

from engine.faults import Log
from engine.runs import CALL, MAIN, crash, facts_of, lib, pack_of
from firstfault.engine.align import align
from firstfault.engine.attribute import attribute
from firstfault.engine.derive import derive
from firstfault.engine.derive.launch import _command_text
from firstfault.model.bundle import Bundle
from firstfault.model.fact import Setting
from firstfault.model.span import SourceSpan


def with_settings(log, *settings):
    made = tuple(
        Setting(family=family, key=key, value=value, span=SourceSpan("conf", line, 0), text=text)
        for line, (family, key, value, text) in enumerate(settings, start=1)
    )
    report = msgspec.structs.replace(log.report(), settings=made)
    found = align(Bundle(reports=(report,)))
    pack = pack_of()
    return derive(found, attribute(found, pack.causal), pack)


def test_steps_before_the_failure():
    facts = facts_of(crash(MAIN, above=12))
    assert facts.value("run.steps_done") == 12


@pytest.mark.parametrize(
    ("frames", "framework"),
    [
        ((lib("transformers/trainer.py", "train"), CALL), "transformers"),
        ((lib("lightning/pytorch/trainer/trainer.py", "fit"), lib("transformers/trainer.py", "x")), "lightning"),
        ((lib("deepspeed/runtime/engine.py", "forward"),), "deepspeed"),
        ((MAIN, CALL), "torch"),
    ],
)
def test_framework_of_the_frames(frames, framework):
    assert facts_of(crash(*frames)).value("run.framework") == framework


def test_deepspeed_file_wins_and_auto_is_unknown():
    log = crash(MAIN)
    both = (
        ("arguments", "gradient_accumulation_steps", 4, "x"),
        ("deepspeed", "gradient_accumulation_steps", 8, "y"),
    )
    assert with_settings(log, *both).value("train.accumulation_steps") == 8
    auto = (("deepspeed", "gradient_accumulation_steps", "auto", "y"), ("command", "--gradient_accumulation_steps", "4", "z"))
    assert with_settings(log, *auto).value("train.accumulation_steps") == 4


def test_command_is_kept_without_prompt_and_comment():
    assert _command_text("$ accelerate launch train.py   # batch 2") == "accelerate launch train.py"
    facts = with_settings(crash(MAIN), ("command", "launcher", "accelerate", "$ accelerate launch train.py"))
    assert facts.value("launch.command") == "accelerate launch train.py"
    assert facts.value("run.framework") == "accelerate"


def test_dataparallel_from_frames():
    wrapped = crash(MAIN, CALL, lib("torch/nn/parallel/data_parallel.py", "forward"))
    assert facts_of(wrapped).value("trainer.uses_dataparallel") is True
    plain = crash(MAIN, CALL, ("model.py", "forward", "x"))
    assert facts_of(plain).value("trainer.uses_dataparallel") is False
    cut = crash(MAIN, CALL, ("model.py", "forward", "x"), whole=False)
    assert facts_of(cut).value("trainer.uses_dataparallel") is None


def test_retain_graph_on_the_users_own_line():
    log = crash(("train.py", "main", "loss.backward(retain_graph=True)"), lib("torch/_tensor.py", "backward"))
    facts = facts_of(log)
    assert facts.value("script.retain_graph") is True and facts["script.retain_graph"].spans


def test_no_failure_gives_class_none():
    facts = facts_of(Log("run.log").steps(5).note("trainer.finished"))
    assert facts.value("fault.class") in {"none", "silent"}
    assert facts.value("fault.own_exceptions") is None
