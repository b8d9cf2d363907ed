"""Shapes of batches, the length of a sample, and a request as large as the logits."""

from __future__ import annotations

import msgspec
import pytest

from engine.faults import LINE_BYTES, world
from engine.runs import MAIN, crash, pack_of, told
from firstfault.engine.align import align
from firstfault.engine.attribute import attribute
from firstfault.engine.derive import derive
from firstfault.model.fact import Setting
from firstfault.model.span import SourceSpan

PATH = "run.log"


def setting(key, value, line=1, family="printed"):
    return Setting(family=family, key=key, value=value, span=SourceSpan(PATH, line, line * LINE_BYTES), text=key)


def shown(first, largest, last, at=(1, 4, 8), suffix=""):
    named = zip(("first", "largest_before", "last"), (first, largest, last), at, strict=True)
    return tuple(setting(f"input_ids.{name}{suffix}", shape, line) for name, shape, line in named)


def facts_with(*settings, answered=(), first_step=2, last_step=7, **crashed):
    """A run that fails in line 10, with progress lines from `first_step` to `last_step`."""
    log = crash(MAIN, above=9, **crashed)
    span = SourceSpan(PATH, first_step, first_step * LINE_BYTES)
    log.progress = [
        msgspec.structs.replace(
            log.progress[0], first_span=span, last_span=SourceSpan(PATH, last_step, last_step * LINE_BYTES), first_step=1
        )
    ]
    bundle = world(1, log)
    report = msgspec.structs.replace(bundle.reports[0], settings=settings)
    found = align(msgspec.structs.replace(bundle, reports=(report, *bundle.reports[1:])))
    return derive(found, attribute(found, pack_of().causal), pack_of(), answered)


def test_failing_batch_against_the_largest_before():
    facts = facts_with(*shown("2x100", "2x120", "2x300"))
    assert facts.value("oom.batch_length_ratio") == 2.5
    assert [span.line for span in facts["oom.batch_length_ratio"].spans] == [8, 4]


@pytest.mark.parametrize(
    "more",
    [
        # Printed after the step, not before: the failing batch printed nothing.
        {"first_step": 0},
        {"last_step": 9},
        {"fault_class": "python_exception", "error": "ValueError: x", "name": "python.exception"},
    ],
)
def test_shape_of_another_batch_says_nothing(more):
    assert facts_with(*shown("2x100", "2x120", "2x300"), **more).value("oom.batch_length_ratio") is None


def test_one_shape_or_shapes_of_several_parts_say_nothing():
    assert facts_with(*shown("2x100", "2x120", "2x300")[::2]).value("oom.batch_length_ratio") is None
    twice = (*shown("2x100", "2x120", "2x300"), *shown("2x100", "2x120", "2x300"))
    assert facts_with(*twice).value("oom.batch_length_ratio") is None


def test_length_of_a_sample_is_the_printed_one_or_the_argument():
    limit = setting("max_seq_length", "4096", family="arguments")
    assert facts_with(*shown("2x100", "2x120", "2x300"), limit).value("train.seq_len") == 300
    assert facts_with(limit).value("train.seq_len") == 4096
    assert facts_with(limit, setting("block_size", 512, family="arguments")).value("train.seq_len") is None


def test_vocabulary_where_all_agree():
    assert facts_with(setting("vocab_size", 32000)).value("model.vocab_size") == 32000
    assert facts_with(setting("vocab_size", 32000), setting("vocab_size", 50257)).value("model.vocab_size") is None


BATCH = (*shown("2x100", "2x120", "4x2048"), setting("vocab_size", 32000))


@pytest.mark.parametrize(
    ("settings", "request_bytes", "expected"),
    [
        (BATCH, 4 * 2048 * 32000 * 4, True),
        (BATCH, 4 * 2047 * 32000 * 2, True),
        (BATCH, 1.004 * 4 * 2048 * 32000 * 4, True),
        (BATCH, 1.1 * 4 * 2048 * 32000 * 4, None),
        (BATCH, 4 * 2048 * 32000, False),
        (BATCH[:-1], 4 * 2048 * 32000 * 4, None),
        # The limit of the length is no length: the batch may be shorter.
        ((setting("max_seq_length", 2048, family="arguments"), BATCH[-1]), 4 * 2048 * 32000, None),
        ((setting("max_seq_length", 2048, family="arguments"), BATCH[-1]), 4 * 2048 * 32000 * 4, True),
    ],
)
def test_request_as_large_as_the_logits(settings, request_bytes, expected):
    answered = (told("oom.requested_bytes", int(request_bytes)), told("train.micro_batch", 4))
    assert facts_with(*settings, answered=answered).value("oom.logits_match") is expected
