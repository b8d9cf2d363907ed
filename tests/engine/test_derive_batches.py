"""Whether the ranks have as many batches of the same content, and all of the weights."""

from __future__ import annotations

import msgspec
import pytest

from engine.faults import Log, world
from engine.last_words import waiting
from engine.runs import facts_of, pack_of
from firstfault.engine.align import align
from firstfault.engine.attribute import attribute
from firstfault.engine.derive import derive
from firstfault.model.fact import Setting
from firstfault.model.span import SourceSpan


def batches(*lines):
    logs = waiting(len(lines))
    for log, line in zip(logs, lines, strict=True):
        log.says("step 3: images=1").says(line).says("loss 2.1")
    return facts_of(*logs, size=len(lines)).value("data.batch_content_differs")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("step 4 images=1", "step 4 images=0", "step 4 images=2"), True),
        (("step 4 images=1", "step 4 images=2", "step 4 images=2"), None),
        (("step 4 images=1", "step 4 images=0", "step 4 images=0"), None),
        (("step 4 images=1", "step 5 images=0", "step 4 images=2"), None),
        (("step 4 skipped=1", "step 4 skipped=0", "step 4 skipped=2"), None),
    ],
)
def test_count_that_is_zero_on_one_rank_at_the_last_step(lines, expected):
    assert batches(*lines) is expected


def left_early(own, others):
    logs = waiting(3, without=(1,))
    for log in logs:
        log.steps(own if log.place.rank == 1 else others)
    console = Log("console.log").exit(-15, rank=2, pid=12, told=True).exit(1, rank=0, pid=10).exit(-15, rank=2, pid=12)
    return facts_of(*logs, console, size=3)


def test_rank_that_left_after_fewer_steps_had_fewer_batches():
    found = left_early(7, 8)
    assert found.value("data.batches_differ") is True
    assert "rank 1 left after step 7" in found["data.batches_differ"].origin
    assert left_early(8, 8).value("data.batches_differ") is None


@pytest.mark.parametrize(
    ("family", "key", "value", "expected"),
    [
        ("deepspeed", "zero_optimization.stage", 3, False),
        ("deepspeed", "zero_optimization.stage", 2, True),
        ("accelerate", "fsdp_config.fsdp_sharding_strategy", "NO_SHARD", True),
        ("deepspeed", "zero_optimization.stage", "auto", None),
    ],
)
def test_configuration_says_who_holds_the_weights(family, key, value, expected):
    bundle = world(2, *waiting(2))
    span = SourceSpan("ds.json", 4, 90)
    setting = Setting(family=family, key=key, value=value, span=span, text=f"{key}: {value}")
    report = msgspec.structs.replace(bundle.reports[-1], settings=(setting,))
    found = align(msgspec.structs.replace(bundle, reports=(*bundle.reports[:-1], report)))
    facts = derive(found, attribute(found, pack_of().causal), pack_of())
    assert facts.value("run.weights_replicated") is expected


def test_save_of_a_sharded_model_shows_that_it_is_sharded():
    logs = waiting(2)
    logs[0].note("accelerate.fsdp_save")
    assert facts_of(*logs, size=2).value("run.weights_replicated") is False
