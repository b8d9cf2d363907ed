from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from firstfault.ingest.vitals import PRODUCES, read_vitals
from reader_lines import context, lines

MIB = 1 << 20


def read(records: list[dict[str, Any]]) -> dict[str, Any]:
    text = "\n".join(json.dumps(record) for record in records)
    facts, notes = read_vitals(lines(text), context("vitals.jsonl", "vitals"))
    assert notes == ()
    assert {fact.name for fact in facts} <= set(PRODUCES)
    assert all(fact.spans for fact in facts)
    return {fact.name: fact.value for fact in facts}


def window(step: int, allocated: list[int], saved: list[int] | None = None) -> list[dict[str, Any]]:
    return [
        {"rank": 0, "step": step, "micro_step": index, "allocated_bytes": size}
        | ({"saved_bytes_after_backward": saved[index]} if saved else {})
        for index, size in enumerate(allocated)
    ]


def test_a_staircase_of_micro_batches() -> None:
    records = [{"rank": 0, "accumulation_steps": 8}, *window(0, [1000, 2000, 3000, 4000], [5, 10, 15, 20])]
    assert read(records) == {
        "train.accumulation_steps": 8,
        "memory.micro_step_slope_bytes": 1000,
        "memory.micro_step_r2": 1.0,
        "autograd.saved_bytes_after_backward": 20,
        "autograd.saved_bytes_rising_micro_steps": 3,
        "run.steps_done": 0,
    }


def test_the_first_step_up_is_gradients_and_no_growth() -> None:
    found = read(window(3, [1000, 7000, 7000, 7000], [0, 0, 0, 0]))
    assert (found["memory.micro_step_slope_bytes"], found["autograd.saved_bytes_rising_micro_steps"]) == (0, 0)


def test_too_few_points_say_nothing() -> None:
    assert read(window(0, [1000, 2000, 3000])) == {"run.steps_done": 0}


def test_a_rise_that_ended_is_not_counted() -> None:
    found = read(window(0, [1] * 5, [1, 2, 3, 3, 4]))
    assert found["autograd.saved_bytes_rising_micro_steps"] == 1


def test_growth_from_step_to_step() -> None:
    growing = [{"step": step, "allocated_bytes": 100 * MIB + 5 * MIB * step} for step in range(12)]
    found = read(growing)
    assert (found["memory.step_slope_bytes"], found["memory.flat_before"], found["run.steps_done"]) == (5 * MIB, False, 11)


def test_flat_memory_with_a_last_step_that_failed() -> None:
    sizes = [100 * MIB + MIB * (step % 2) for step in range(12)] + [160 * MIB]
    found = read([{"step": step, "allocated_bytes": size} for step, size in enumerate(sizes)])
    assert (found["memory.step_slope_bytes"], found["memory.flat_before"]) == (0, True)


def test_few_steps_say_nothing_of_growth() -> None:
    found = read([{"step": step, "allocated_bytes": MIB * step} for step in range(8)])
    assert "memory.step_slope_bytes" not in found
    assert "memory.flat_before" not in found


def test_ranks_do_not_mix() -> None:
    records = [*window(0, [1000, 2000, 3000, 4000]), {"rank": 1, "step": 0, "micro_step": 2, "allocated_bytes": 9}]
    assert read(records)["memory.micro_step_slope_bytes"] == 1000


def test_lines_that_are_no_records_are_counted() -> None:
    _, (note,) = read_vitals(
        lines('{"step": 1}\n[1]\nnot json\n{"step": "x"}\n' + "[" * 5000), context("vitals.jsonl", "vitals")
    )
    assert note.what.startswith("3 lines")


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=3)
)
KEYS = st.sampled_from(["rank", "step", "micro_step", "allocated_bytes", "saved_bytes_after_backward", "accumulation_steps"])


@settings(max_examples=40)
@given(st.lists(st.dictionaries(KEYS, VALUES), max_size=10))
def test_any_record_is_survived(records: list[dict[str, Any]]) -> None:
    read(records)


def test_the_allocation_that_failed_names_its_micro_batch() -> None:
    records = [*window(0, [1000, 2000]), {"rank": 0, "step": 0, "micro_step": 1, "event": "oom", "requested_bytes": 512}]
    found = read(records)
    assert (found["oom.micro_index"], found["oom.requested_bytes"]) == (1, 512)
