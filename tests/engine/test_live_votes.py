"""Whom stacks of live processes and answers of RAS show: the one that stands elsewhere, and nobody where they do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstfault.engine.investigate import investigate
from firstfault.ingest.bundle import gather, gather_text
from firstfault.knowledge.pack import load_pack
from firstfault.model.diagnosis import Diagnosis
from flight_dumps import Run, write

HANGS = Path(__file__).parents[1] / "data" / "hangs"
_WAITS = """\
== rank {rank} ==
Process {pid}: python train.py
Python v3.11.9 (/usr/bin/python3.11)

Thread {pid} (idle): "MainThread"
    {call} (torch/distributed/distributed_c10d.py:3252)
    wrapper (torch/distributed/c10d_logger.py:83)
    step (train.py:{line})
    <module> (train.py:90)
"""


def _files(*names: str) -> Diagnosis:
    return investigate(gather([HANGS / name for name in names], load_pack()), load_pack())


def _text(text: str) -> Diagnosis:
    return investigate(gather_text(text, load_pack()), load_pack())


def _waits(rank: int, call: str = "all_reduce", line: int = 40) -> str:
    return _WAITS.format(rank=rank, pid=4000 + rank, call=call, line=line)


def _stack(rank: int, *frames: str) -> str:
    body = "".join(f"    {frame}\n" for frame in frames)
    return f'== rank {rank} ==\nProcess {4000 + rank}: python train.py\n\nThread {4000 + rank} (idle): "MainThread"\n{body}'


def _first_missing(diagnosis: Diagnosis) -> str:
    return diagnosis.missing[0].fact


@pytest.mark.parametrize("folder", ["data_worker", "faulthandler"])
def test_the_rank_that_reads_while_the_others_wait(folder: str) -> None:
    found = _files(folder)
    assert found.initiating is not None
    assert found.initiating.rank == 2
    assert found.entry == "slow-data-on-one-rank"
    assert found.verdict == "likely"


def test_a_rank_in_its_own_code() -> None:
    found = _files("lock")
    assert found.initiating is not None
    assert (found.initiating.rank, found.entry) == (2, "collective-straggler")


def test_equal_stacks_suspect_nobody() -> None:
    found = _text("".join(_waits(rank) for rank in range(4)))
    assert found.verdict == "undetermined"
    assert found.initiating is None or found.initiating.rank is None
    assert _first_missing(found) == "hang.ras_behind"


def test_one_stack_asks_for_the_others() -> None:
    found = _text(_waits(1))
    assert _first_missing(found) == "hang.stack_outlier"
    assert "py-spy dump" in found.missing[0].command


def test_the_one_in_another_collective_of_many() -> None:
    found = _text(_waits(0) + _waits(1) + _waits(2, "broadcast", 51) + _waits(3))
    assert found.initiating is not None
    assert (found.initiating.rank, found.entry) == (2, "collective-mismatch")


def test_two_against_two_decide_nothing() -> None:
    found = _text(_waits(0) + _waits(1) + _waits(2, "broadcast", 51) + _waits(3, "broadcast", 51))
    assert found.initiating is None or found.initiating.rank is None


def test_a_rank_that_waits_for_its_gpu_is_no_suspect() -> None:
    synchronizes = _stack(3, "synchronize (torch/cuda/__init__.py:1050)", "step (train.py:44)", "<module> (train.py:90)")
    found = _text(_waits(0) + _waits(1) + _waits(2) + synchronizes)
    assert found.initiating is None or found.initiating.rank is None


def test_processes_that_moved_between_two_stacks_make_progress() -> None:
    reads = _stack(2, "read_shard (data.py:12)", "<module> (train.py:90)")
    first = _waits(0) + _waits(1) + reads
    second = _waits(0, line=41) + _waits(1, line=41) + reads
    assert _text(first + first).initiating is not None
    found = _text(first + second)
    assert found.initiating is None or found.initiating.rank is None


def test_a_rank_that_stays_behind_in_two_answers_of_ras() -> None:
    found = _files("ras/ras-1.txt", "ras/ras-2.txt")
    assert found.initiating is not None
    assert found.initiating.rank == 5


def test_one_answer_of_ras_asks_for_another() -> None:
    found = _files("ras/ras-1.txt")
    assert found.verdict == "undetermined"
    assert found.initiating is None or found.initiating.rank is None
    assert _first_missing(found) == "hang.ras_behind"


def test_a_difference_that_is_gone_in_the_next_answer_is_none() -> None:
    found = _files("ras/ras-1.txt", "ras/ras-2-resolved.txt")
    assert found.initiating is None
    assert found.entry is None


def test_the_one_rank_ahead_is_not_blamed() -> None:
    text = (HANGS / "ras" / "ras-1.txt").read_text(encoding="utf-8")
    ahead = text.replace("operation 64", "operation 60").replace("up to operation 60 --", "up to operation 61 --")
    found = _text(ahead + ahead)
    assert found.initiating is None or found.initiating.rank is None


def test_a_backward_pass_waits_in_the_thread_of_its_hooks() -> None:
    backward = "".join(
        _stack(rank, "backward (torch/autograd/__init__.py:266)", "main (train.py:83)", "<module> (train.py:87)")
        + "Thread 4079 (active)\n    all_gather_into_tensor (torch/distributed/distributed_c10d.py:2709)\n"
        for rank in (0, 1)
    )
    saves = _stack(2, "save (torch/serialization.py:628)", "save_checkpoint (train.py:51)", "<module> (train.py:87)")
    found = _text(backward + saves)
    assert found.initiating is not None
    assert (found.initiating.rank, found.entry) == (2, "checkpoint-save-too-long")


def test_processes_without_a_rank_leave_the_rank_open() -> None:
    found = _text((_waits(0) + _waits(1) + _stack(2, "collate (train.py:9)", "<module> (train.py:90)")).replace("rank", "part"))
    assert found.initiating is not None
    assert found.initiating.rank is None
    assert found.facts["hang.stack_outlier"]["value"] is True


def test_two_answers_of_ras_alike_to_the_byte_are_two_answers(tmp_path: Path) -> None:
    for name in ("ras-1.txt", "ras-2.txt"):
        (tmp_path / name).write_bytes((HANGS / "ras" / "ras-1.txt").read_bytes())
    found = investigate(gather([tmp_path], load_pack()), load_pack())
    assert found.initiating is not None
    assert found.initiating.rank == 5


@pytest.mark.parametrize(("odd", "ranks"), [(2, (2,)), (1, (1, 2))])
def test_dumps_and_stacks_vote_together(odd: int, ranks: tuple[int, ...], tmp_path: Path) -> None:
    write(tmp_path, Run(4, 60, stop={2: 33}).dumps())
    busy = _stack(odd, "acquire (threading.py:300)", "load (data.py:12)", "<module> (train.py:90)")
    stacks = "\n".join(busy if rank == odd else _waits(rank) for rank in range(4))
    (tmp_path / "stacks.txt").write_text(stacks)
    found = investigate(gather([tmp_path], load_pack()), load_pack())
    assert found.initiating is not None
    assert found.initiating.ranks == ranks
    assert found.initiating.certainty == ("likely" if len(ranks) == 1 else "undetermined")
    assert found.verdict != "established"
    assert ("does not agree on whom they wait for" in found.cause) is (len(ranks) > 1)
