"""Why a rank is, or is not, the one: its role in words, what it waited for, how it ended, its last lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstfault.engine.investigate import investigate
from firstfault.engine.why import explain_rank
from firstfault.errors import UsageError
from firstfault.ingest.bundle import gather
from firstfault.knowledge.pack import load_pack

PACK = load_pack()
RAISED = (
    "Traceback (most recent call last):\n"
    '  File "/home/user/train.py", line 61, in <module>\n    batch = next(it)\n'
    '  File "/home/user/data.py", line 31, in __getitem__\n    return self.items[i]["text"]\n'
    "KeyError: 'text'\n"
)
TIMED_OUT = (
    "[rank{rank}]:[E302 10:17:04.620005538 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=78, OpType=ALLREDUCE, NumelIn=80, NumelOut=80, Timeout(ms)=600000) ran for 600020 milliseconds "
    "before timing out.\n"
)


def steps(last: int) -> str:
    return "".join(f"2026-03-02 10:06:{step:02d},123 INFO step {step}/1000 loss=2.{step:03d}\n" for step in range(1, last + 1))


def run(folder: Path, size: int, *, failing: int | None = 2, quiet: tuple[int, ...] = (), absent: tuple[int, ...] = ()) -> Path:
    """Logs of `size` ranks: one raises, the others time out, the quiet ones just end, of the absent ones there is no log."""
    for rank in range(size):
        if rank in absent:
            continue
        body = RAISED if rank == failing else "" if rank in quiet else TIMED_OUT.format(rank=rank)
        (folder / f"rank_{rank}.log").write_text(steps(9) + body)
    return folder


def asked(folder: Path, rank: int):
    return explain_rank(rank, gather([str(folder)], PACK), PACK)


def shown(answer, statement) -> list[str]:
    texts = {item.id: item.text for item in answer.evidence}
    return [texts[key] for key in statement.evidence]


def test_the_rank_that_failed_first(tmp_path: Path) -> None:
    answer = asked(run(tmp_path, 4), 2)
    assert (answer.role, answer.certainty) == ("initiating", "established")
    assert answer.says.startswith("Rank 2 failed first: ")
    assert shown(answer, answer.events[0]) == ["KeyError: 'text'"]
    assert not answer.waited_for
    assert answer.next_step == "firstfault diagnose INPUTS"


def test_a_rank_that_waited_names_for_whom_and_since_when(tmp_path: Path) -> None:
    answer = asked(run(tmp_path, 4), 1)
    assert answer.role == "collateral"
    assert answer.says.startswith("Rank 1 is not the one: what it reports follows from the failure of rank 2")
    assert answer.waited_for[0].text == "It was in ALLREDUCE number 78 for 10 min, which cannot complete without rank 2"
    assert "Watchdog caught" in shown(answer, answer.waited_for[0])[0]
    assert len(answer.last_lines) == 3
    assert answer.last_lines[-1].text.endswith("step 9/1000 loss=2.009")
    assert shown(answer, answer.last_lines[-1]) == [answer.last_lines[-1].text]
    assert answer.next_step == "firstfault why 2 INPUTS"


def test_a_rank_without_a_failure_of_its_own(tmp_path: Path) -> None:
    answer = asked(run(tmp_path, 4, quiet=(3,)), 3)
    assert answer.role == "unmarked"
    assert not answer.events
    assert answer.last_lines


def test_a_silent_rank_is_a_suspect_where_all_others_waited(tmp_path: Path) -> None:
    answer = asked(run(tmp_path, 4, failing=None, quiet=(3,)), 3)
    assert answer.role in ("initiating", "suspect")
    assert "rank 3" in answer.says.lower()
    assert answer.certainty != "established"


def test_a_rank_of_which_nothing_was_handed_over(tmp_path: Path) -> None:
    folder = run(tmp_path, 4, absent=(3,))
    (folder / "launch.sh").write_text("torchrun --nproc_per_node 4 train.py\n")
    answer = asked(folder, 3)
    assert answer.role == "absent"
    assert "Nothing of rank 3 was handed over" in answer.says
    assert answer.next_step == "firstfault diagnose INPUTS --answer LOG-OF-RANK-3"


def test_all_alike(tmp_path: Path) -> None:
    for rank in range(3):
        (tmp_path / f"rank_{rank}.log").write_text(RAISED)
    answer = asked(tmp_path, 1)
    assert answer.role == "symmetric"
    assert "no one of them was first" in answer.says


def test_a_run_without_failure(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"rank_{rank}.log").write_text(steps(9).replace("/1000", "/9"))
    answer = asked(tmp_path, 1)
    assert (answer.role, answer.certainty) == ("unmarked", None)
    assert answer.says == "Rank 1 did not fail: no failure was found in what was handed over."


def test_how_a_rank_ended(tmp_path: Path) -> None:
    folder = run(tmp_path, 2, failing=0)
    (folder / "console.log").write_text(
        "W0302 10:17:20.000000 77 torch/distributed/elastic/multiprocessing/api.py:900] "
        "Sending process 91 closing signal SIGTERM\n"
        "E0302 10:17:21.000000 77 torch/distributed/elastic/multiprocessing/api.py:874] "
        "failed (exitcode: 1) local_rank: 0 (pid: 90) of binary: /usr/bin/python\n"
    )
    assert [end.text for end in asked(folder, 0).ended] == ["It left with exit code 1"]


@pytest.mark.parametrize(("rank", "says"), [(7, "has no rank 7"), (99, "has no rank 99")])
def test_a_rank_beyond_the_world_is_refused(tmp_path: Path, rank: int, says: str) -> None:
    folder = run(tmp_path, 4)
    (folder / "launch.sh").write_text("torchrun --nproc_per_node 4 train.py\n")
    with pytest.raises(UsageError, match=says):
        asked(folder, rank)


def test_without_ranks_the_question_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(RAISED)
    with pytest.raises(UsageError, match="names a rank"):
        asked(tmp_path, 0)


def test_a_thousand_ranks_all_stand_in_the_timeline_and_among_the_consequences(tmp_path: Path) -> None:
    diagnosis = investigate(gather([str(run(tmp_path, 1024, failing=517, quiet=(3, 900)))], PACK), PACK)
    assert diagnosis.initiating is not None
    assert diagnosis.initiating.rank == 517
    assert {mark.rank for mark in diagnosis.timeline} == set(range(1024))
    assert {item.rank for item in diagnosis.collateral} == set(range(1024)) - {3, 517, 900}


def test_a_rank_without_record_does_not_contradict_an_established_first(tmp_path: Path) -> None:
    api = "torch/distributed/elastic/multiprocessing/api.py"
    raised = "".join(f"[rank1]: {line}\n" for line in RAISED.splitlines())
    (tmp_path / "console.log").write_text(
        f"{raised}W1130 10:00:00.000000 100 {api}:908] Sending process 110 closing signal SIGTERM\n"
        f"E1130 10:00:30.200000 100 {api}:984] failed (exitcode: 1) local_rank: 1 (pid: 111) of binary: /usr/bin/python3\n"
    )
    answer = asked(tmp_path, 0)
    assert (answer.role, answer.certainty) == ("absent", "established")
    assert "may even have been first" not in answer.says
