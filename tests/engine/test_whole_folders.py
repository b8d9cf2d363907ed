"""Folders as Slurm, torchrun and several nodes leave them, from the files to the rank."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.layouts import CLOSED, account, diagnosed, raised, report, steps
from firstfault.model.diagnosis import Diagnosis

SRUN = """srun: error: node-2: task 5: Exited with exit code 1
srun: Terminating StepId=123.0
slurmstepd: error: *** STEP 123.0 ON node-1 CANCELLED AT 2025-11-04T02:01:00 ***
srun: error: node-1: tasks 0-3: Terminated
srun: error: node-2: tasks 4,6-7: Terminated
"""
TASKS = {f"logs/job-123-{task}.out": f"task {task} of 8\n{steps(30)}" for task in range(8)}


def named(found: Diagnosis) -> tuple[int | None, str]:
    assert found.initiating is not None
    return found.initiating.rank, found.initiating.certainty


def followed(found: Diagnosis) -> set[int | None]:
    return {one.rank for one in found.collateral} - {None}


def test_task_of_srun_that_ended_by_itself_is_the_rank(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, {"slurm-123.out": steps(30, ranks=range(8)) + SRUN})
    assert named(found) == (5, "likely")
    assert followed(found) == {0, 1, 2, 3, 4, 6, 7}
    assert "Rank 5 ended with an error code" in found.cause


def test_sigterm_of_a_step_that_ends_is_no_act_from_outside(tmp_path: Path) -> None:
    # One task a node: task 1 is the launcher of a node, and no rank.
    text = """srun: error: node-2: task 1: Exited with exit code 1
srun: Terminating StepId=123.0
slurmstepd: error: *** STEP 123.0 ON node-1 CANCELLED AT 2025-11-04T02:01:00 ***
srun: error: node-1: task 0: Terminated
"""
    found = diagnosed(tmp_path, {"slurm-123.out": "WORLD_SIZE=16\n" + text})
    assert found.verdict == "undetermined"
    assert found.initiating is None or found.initiating.rank is None
    assert "SIGTERM" not in found.cause


def test_task_that_was_killed_before_the_step_ended(tmp_path: Path) -> None:
    text = """srun: error: node-2: task 5: Killed
srun: Terminating StepId=123.0
slurmstepd: error: *** STEP 123.0 ON node-1 CANCELLED AT 2025-11-04T02:01:00 ***
srun: error: node-1: tasks 0-3: Terminated
"""
    found = diagnosed(tmp_path, {"slurm-123.out": steps(30, ranks=range(8)) + text})
    assert found.initiating is not None and found.initiating.rank == 5


def test_missing_file_of_a_task_is_named_with_its_place(tmp_path: Path) -> None:
    files = {path: text for path, text in TASKS.items() if "-5." not in path}
    found = diagnosed(tmp_path, {**files, "slurm-123.out": SRUN})
    assert named(found) == (5, "likely")
    assert f"look at {tmp_path}/logs/job-123-5.out" in found.cause


def test_rank_below_the_highest_one_exists_though_nobody_tells_the_world(tmp_path: Path) -> None:
    files = {f"rank_{rank}.log": f"I am {rank}\n{steps(30)}{raised(CLOSED, rank=rank)}" for rank in (0, 1, 2, 4, 5)}
    found = diagnosed(tmp_path, files)
    assert named(found) == (3, "likely")
    assert followed(found) == {0, 1, 2, 4, 5}


def test_rank_that_ended_while_the_launcher_stopped_the_others(tmp_path: Path) -> None:
    """No line of any rank: who was told to end was alive, who ended by itself was not."""
    console = account("02:00:50.100", 4100, stopped=(4111, 4112, 4113), failed=(0, 1, 4110))
    grace = (
        "W1104 02:01:20.140 4100 torch/distributed/elastic/multiprocessing/api.py:919]"
        " Unable to shutdown process 4112 via Signals.SIGTERM, forcefully exiting via Signals.SIGKILL\n"
    )
    end = report("node-1", (0, 0, 1, 4110, "02:00:50"), (2, 2, -9, 4112, "02:01:20"))
    found = diagnosed(tmp_path, {"console.log": steps(30, ranks=range(4)) + grace + console + end})
    assert named(found) == (0, "likely")
    assert "The launcher itself killed rank 2 (SIGKILL)" in found.cause


@pytest.mark.parametrize("own", [False, True])
def test_every_node_prints_a_root_cause_of_its_own(tmp_path: Path, own: bool) -> None:
    """node-2 prints first by seven minutes, and its clock is behind: the steps that both print tell."""
    first = steps(50, ranks=(0, 1)) + raised(CLOSED, rank=0) + raised(CLOSED, rank=1)
    first += account("02:00:52.100", 4100, failed=(0, 1, 4110)) + report(
        "node-1", (0, 0, 1, 4110, "02:00:51"), (1, 1, 1, 4111, "02:00:51")
    )
    second = steps(50, at=7200 - 420, ranks=(2, 3)) + raised("ValueError: bad label", rank=3) + raised(CLOSED, rank=2)
    second += account("01:53:52.100", 5100, failed=(1, 1, 5111)) + report(
        "node-2", (3, 1, 1, 5111, "01:53:50"), (2, 0, 1, 5110, "01:53:52")
    )
    names = ("node-1/console.log", "node-2/console.log") if own else ("node-1.log", "node-2.log")
    found = diagnosed(tmp_path, dict(zip(names, (first, second), strict=True)))
    assert named(found) == (3, "established")
    assert followed(found) >= {0, 1, 2}
    assert any("clock of node-2 is 7 min behind" in note for note in found.notes)


def test_rank_that_never_joined_is_the_one_without_a_log(tmp_path: Path) -> None:
    error = "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 3/4 clients joined."
    found = diagnosed(tmp_path, {f"rank_{rank}.log": f"I am {rank}\n{raised(error, rank=rank)}" for rank in range(3)})
    assert named(found) == (3, "likely")
    assert {(one.rank, one.explained_by) for one in found.collateral} >= {(r, "what happened on rank 3") for r in range(3)}


@pytest.mark.parametrize("absent", [(), (2,)])
def test_waits_alike_on_all_other_ranks_are_consequences(tmp_path: Path, absent: tuple[int, ...]) -> None:
    """Time-outs of torch 2.0, which hold no counters."""
    timeout = (
        "[E ProcessGroupNCCL.cpp:828] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=120,"
        " OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600043 milliseconds before timing out.\n"
    )
    files = {f"rank_{rank}.log": steps(50) + timeout.format(rank=rank) for rank in (0, 1, 3)}
    found = diagnosed(tmp_path, files if absent else {**files, "rank_2.log": steps(50)})
    assert named(found) == (2, "likely")
    assert followed(found) == {0, 1, 3}


def restarted(times: int) -> str:
    """Attempts of one launcher in one console, each begun anew at step 0 below the end of the one before."""
    text = ""
    for attempt in range(times):
        pids = [4100 + 10 * attempt + rank for rank in range(4)]
        text += "".join(f"[rank{rank}]: step {step} loss 2.1\n" for step in range(10) for rank in range(4))
        text += raised("ValueError: bad", rank=2) + "".join(raised(CLOSED, rank=rank) for rank in (0, 1, 3))
        text += account(f"02:0{attempt}:52.100", 4000, stopped=(pids[0], pids[1], pids[3]), failed=(2, 1, pids[2]))
    return text


def test_failure_that_comes_back_in_one_console(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, {"console.log": restarted(3) + report("node-1", (2, 2, 1, 4122, "02:02:51"))})
    assert named(found) == (2, "established")
    assert found.initiating is not None and found.initiating.attempt == 2
    assert "It came back: attempts 0 and 1 failed in the same way, on the same rank" in found.cause


def test_failure_that_a_restart_survived(tmp_path: Path) -> None:
    goes_on = "".join(f"[rank{rank}]: step {step}/40 loss 2.1\n" for step in range(1, 41) for rank in range(4))
    found = diagnosed(tmp_path, {"console.log": restarted(1) + goes_on + "[rank0]: Training completed.\n"})
    assert found.verdict == "no_failure"
    assert "Attempt 0 failed (rank 2 raised an exception), the run was restarted" in found.cause


def test_abort_by_its_exit_code_alone_does_not_outweigh_a_kill(tmp_path: Path) -> None:
    """Each node prints a root cause; a rank whose peer was killed is aborted by its watchdog."""
    first = account("02:00:52.100", 4100, stopped=(4111,), failed=(0, -6, 4110)) + report(
        "node-1", (0, 0, -6, 4110, "02:00:51")
    )
    second = account("02:07:52.100", 5100, stopped=(5110,), failed=(1, -9, 5111)) + report(
        "node-2", (3, 1, -9, 5111, "02:07:50")
    )
    found = diagnosed(tmp_path, {"node-1.log": first, "node-2.log": second})
    assert named(found) == (3, "likely")
