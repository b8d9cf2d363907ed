"""A page-locked buffer that was refused, and a model that was loaded before ZeRO-3 was configured."""

from __future__ import annotations

import msgspec

from engine.faults import Log
from engine.runs import MAIN, crash, facts_of, frame, lib, scope_of
from firstfault.engine.derive import host
from firstfault.model.fact import Fact, FactSet

STATUS = "torch.AcceleratorError: CUDA error: out of memory"


def derived(*logs):
    return {fact.name: fact.value for fact in host.derive(scope_of(*logs), FactSet())}


def refused(*frames, signal="torch.cuda.out_of_memory_status"):
    log = crash(*frames, error=STATUS)
    log.events[-1] = msgspec.structs.replace(log.events[-1], signal=signal)
    return log


def deepspeed(*signals):
    log = Log("run.log")
    for signal in signals:
        log.note(signal)
        log.events[-1] = msgspec.structs.replace(log.events[-1], signal=signal)
    return log


def test_a_frame_that_pins_makes_it_page_locked_memory():
    assert derived(refused(MAIN, frame("train.py", "stage", "buffer = buffer.pin_memory()"))) == {"oom.allocator": "pinned"}
    assert derived(refused(MAIN, lib("torch/utils/data/_utils/pin_memory.py", "pin_memory", "return data"))) == {
        "oom.allocator": "pinned"
    }


def test_other_frames_and_other_messages_say_nothing_of_it():
    assert derived(refused(MAIN, frame("train.py", "step", "y = x.cuda()"))) == {}
    assert derived(refused(MAIN, frame("train.py", "stage", "buffer.pin_memory()"), signal="torch.oom.cuda.2_1")) == {}
    far = [frame("train.py", "stage", "buffer.pin_memory()")] + [frame("train.py", f"inner{i}", "call()") for i in range(4)]
    assert derived(refused(MAIN, *far)) == {}


def test_weights_that_are_complete_before_the_group_exists_were_loaded_whole():
    for loaded in ("transformers.weights_loaded", "transformers.shards_loaded"):
        assert derived(deepspeed(loaded, "deepspeed.init_distributed", loaded)) == {"script.zero_config_late": True}


def test_weights_loaded_after_the_group_say_nothing():
    assert derived(deepspeed("deepspeed.init_distributed", "transformers.weights_loaded")) == {}
    assert derived(deepspeed("transformers.weights_loaded")) == {}


def test_a_partitioned_model_was_configured_in_time():
    events = ("transformers.weights_loaded", "deepspeed.init_distributed", "deepspeed.zero_init_done")
    assert derived(deepspeed(*events)) == {"script.zero_config_late": False}


def test_facts_of_another_host_are_not_those_of_the_failing_one():
    log = Log("rank-1.log", rank=1, host="node-1").fault("exit_sigkill")
    for name, value in (("node-2", None), ("node-1", True)):
        kernel = Log("dmesg.txt", kind="kernel", host=name)
        kernel.facts.append(Fact(name="host.machine_check", value=True, origin="test"))
        assert facts_of(log, kernel, size=2).value("host.machine_check") is value
