"""Dumps in a whole diagnosis: the ranks named, the evidence cited by its place in the dump, and no failure invented."""

from pathlib import Path

import pytest

from firstfault.engine.investigate import investigate
from firstfault.ingest.bundle import gather
from firstfault.knowledge.pack import load_pack
from firstfault.model.diagnosis import Diagnosis
from firstfault.render.terminal import render_diagnosis
from flight_dumps import Run, write

DATA = Path(__file__).parents[1] / "data" / "flight_recorder"


def _diagnosis(*paths: Path) -> Diagnosis:
    pack = load_pack()
    return investigate(gather(paths, pack), pack)


@pytest.mark.parametrize("name", ["gpu_error_2nd", "lock_gil_1st"])
def test_the_injected_ranks_stand_in_the_answer_with_their_counters(name: str) -> None:
    found = _diagnosis(DATA / name)
    assert found.initiating is not None
    assert found.initiating.ranks == (9, 14)
    assert found.initiating.relation == "several"
    shown = [one for one in found.evidence if one.part == "pg_status[5]"]
    assert {one.rank for one in shown} >= {9, 14}
    assert all("last enqueued" in one.text for one in shown)
    of_each = [reason for reason in found.reasons if reason.text.startswith(("Rank 9 had", "Rank 14 had"))]
    assert len(of_each) == 2
    assert all("#8" in reason.text and "of TENSOR_MODEL_PARALLEL_GROUP" in reason.text for reason in of_each)
    assert not set(of_each[0].evidence) & set(of_each[1].evidence)
    assert {one.rank for one in found.collateral} >= set(range(1, 16)) - {9, 14}
    assert not {one.rank for one in found.collateral} & {9, 14}
    assert "_dump_9:pg_status[5]" in render_diagnosis(found)


def test_one_rank_is_named_alone_and_its_kind_is_a_fact(tmp_path: Path) -> None:
    found = _diagnosis(write(tmp_path, Run(16, 60, stop={6: 33}).dumps()))
    assert found.initiating is not None
    assert (found.initiating.rank, found.initiating.certainty) == (6, "likely")
    assert found.facts["collective.suspect_kind"]["value"] == "never_entered"
    assert "collective-straggler" in found.path


def test_a_divergent_call_is_a_desync_of_the_minority(tmp_path: Path) -> None:
    found = _diagnosis(write(tmp_path, Run(16, 60, other={(5, 30): ("broadcast", [[4]])}).dumps()))
    assert found.initiating is not None
    assert found.initiating.rank == 5
    assert found.facts["collective.op_differs"]["value"] is True
    assert found.facts["collective.minority_rank"]["value"] == 5


def test_dumps_in_which_nobody_waits_are_no_failure(tmp_path: Path) -> None:
    assert _diagnosis(write(tmp_path, Run(16, 60).dumps())).verdict == "no_failure"


def test_a_single_dump_is_undetermined_and_names_nobody(tmp_path: Path) -> None:
    found = _diagnosis(write(tmp_path, Run(16, 60, stop={6: 33}).dumps(), ranks=[0]))
    assert found.verdict == "undetermined"
    assert found.initiating is None or found.initiating.rank is None
    assert found.missing
    assert any("a single dump" in note for note in found.notes)


def test_equal_counters_on_all_ranks_blame_the_path_and_no_rank(tmp_path: Path) -> None:
    other = {(rank, 30): ("all_reduce", [[8192, 1]]) for rank in range(16)}
    found = _diagnosis(write(tmp_path, Run(16, 60, other=other).dumps()))
    assert found.initiating is not None
    assert (found.initiating.rank, found.initiating.ranks) == (None, ())
    assert found.facts["collective.suspect_kind"]["value"] == "fabric"


def test_a_failure_of_its_own_comes_before_what_the_dumps_show(tmp_path: Path) -> None:
    write(tmp_path, Run(16, 60, stop={6: 33}).dumps())
    trace = 'Traceback (most recent call last):\n  File "/home/user/train.py", line 3, in <module>\n    step()\n'
    (tmp_path / "rank_6.log").write_text(trace + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
    found = _diagnosis(tmp_path)
    assert found.initiating is not None
    assert found.initiating.rank == 6
    assert found.category == "memory"


def test_the_diagnosis_is_the_same_without_one_innocent_dump(tmp_path: Path) -> None:
    found = _diagnosis(write(tmp_path, Run(16, 60, stop={6: 33}).dumps(), ranks=sorted({*range(16)} - {7})))
    assert found.initiating is not None
    assert found.initiating.rank == 6
    assert any("dump of rank 7" in note for note in found.notes)


def test_one_quiet_dump_of_many_does_not_show_that_nothing_failed(tmp_path: Path) -> None:
    found = _diagnosis(write(tmp_path, Run(16, 60, stop={6: 33}).dumps(), ranks=[6]))
    assert found.verdict == "undetermined"
    assert found.initiating is None


def test_a_single_dump_of_gloo_asks_for_those_of_the_other_ranks() -> None:
    found = _diagnosis(DATA / "gloo_late" / "gloo_1")
    assert (found.verdict, found.initiating) == ("undetermined", None)
    asked = found.missing[0]
    assert (asked.fact, asked.values) == ("collective.dumps_of_all", ())
    assert "nccl_trace_rank_" in asked.command
    assert "Nothing in what was read failed" not in render_diagnosis(found)


def test_a_dump_cited_as_a_whole_says_what_it_is(tmp_path: Path) -> None:
    found = _diagnosis(DATA / "gpu_error_2nd" / "_dump_9")
    assert all(one.text for one in found.evidence)
    assert any(one.text == "flight-recorder dump of nccl, version 2.9" for one in found.evidence)
