"""Several jobs that appended to one file: the last of them is the one that is asked about."""

from __future__ import annotations

import pytest

from firstfault.engine.investigate import investigate
from firstfault.ingest.bundle import gather_text
from firstfault.knowledge.pack import load_pack

PACK = load_pack()
ERROR = (
    "Traceback (most recent call last):\n"
    '  File "/home/user/train.py", line 61, in main\n    x = row["label"]\nKeyError: \'label\'\n'
)


def steps(first: int, last: int) -> str:
    return "".join(f"step {step}/2000 loss {3 - step / 1000:.3f}\n" for step in range(first, last, 10))


def stop(job: int) -> str:
    return f"slurmstepd: error: *** JOB {job} ON node-1 CANCELLED AT 2026-03-0{job % 10}T10:00:00 DUE TO TIME LIMIT ***\n"


def diagnose(text: str):
    return investigate(gather_text(text, PACK, name="slurm.out"), PACK)


@pytest.mark.parametrize(
    "text",
    [
        steps(0, 500) + stop(101) + steps(400, 900) + ERROR,
        steps(0, 500) + stop(101) + steps(400, 900) + stop(102) + steps(800, 1200) + ERROR,
        steps(0, 500) + stop(101) + steps(510, 900) + stop(102) + steps(910, 1200) + ERROR,
    ],
    ids=["the counter falls", "twice", "other jobs, counters that go on"],
)
def test_a_failure_of_the_last_job_is_no_consequence_of_an_earlier_stop(text: str) -> None:
    found = diagnose(text)
    assert found.facts["exc.root_type"]["value"] == "KeyError"
    assert found.entry != "slurm-time-limit"
    assert [item.entry for item in found.collateral] == []


def test_the_stop_of_the_last_job_is_the_answer() -> None:
    found = diagnose(steps(0, 500) + stop(101) + steps(400, 900) + ERROR + steps(800, 1200) + stop(102))
    assert found.entry == "slurm-time-limit"
    assert found.initiating is not None and found.evidence[0].text == stop(102).strip()


def test_training_in_the_time_of_grace_begins_no_new_run() -> None:
    found = diagnose(steps(0, 500) + stop(101) + steps(500, 520) + ERROR)
    assert found.entry == "slurm-time-limit"


def test_ranks_that_print_the_same_counter_out_of_step_begin_no_new_run() -> None:
    before = "".join(f"step {step}/2000 loss 2\n" * 2 for step in range(0, 300, 10)) + "step 300/2000 loss 2\n"
    found = diagnose(before + "step 310/2000 loss 2\n" + stop(101) + "step 300/2000 loss 2\nstep 310/2000 loss 2\n")
    assert found.entry == "slurm-time-limit"
