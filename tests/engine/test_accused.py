"""What is shown of suspected ranks: each with its own evidence, the line it did not reach, its last lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstfault.engine.investigate import investigate
from firstfault.engine.why import explain_rank
from firstfault.ingest.bundle import gather, gather_text
from firstfault.knowledge.pack import load_pack
from firstfault.model.diagnosis import Diagnosis
from flight_dumps import Run, write

PACK = load_pack()
STACKS = Path(__file__).parents[1] / "data" / "hangs" / "lock"


def diagnosed(folder: Path) -> Diagnosis:
    return investigate(gather([folder], PACK), PACK)


def reasons(found: Diagnosis) -> str:
    return "\n".join(reason.text for reason in found.reasons)


def test_the_line_that_a_late_rank_did_not_reach_and_its_last_call(tmp_path: Path) -> None:
    found = diagnosed(write(tmp_path, Run(8, stop={5: 21}).dumps(frames=True)))
    assert "The last call that rank 5 completed there, all_reduce #2, stands at train.py:87 in step" in reasons(found)
    assert "The line that rank 5 did not reach: train.py:87 in step, where others wait in all_reduce #3" in reasons(found)


def test_the_open_call_of_a_rank_whose_gpu_stands_still(tmp_path: Path) -> None:
    found = diagnosed(write(tmp_path, Run(8, stall={5: 21}).dumps(frames=True)))
    assert "The call that rank 5 has open, _all_gather_base #20, stands at train.py:85 in step" in reasons(found)


def test_dumps_without_stacks_name_no_line(tmp_path: Path) -> None:
    assert "did not reach" not in reasons(diagnosed(write(tmp_path, Run(8, stop={5: 21}).dumps())))


def test_stacks_show_the_line_at_which_the_others_wait() -> None:
    found = diagnosed(STACKS)
    assert "The line that it did not reach: hang.py:28 in train, where others wait" in reasons(found)


def test_the_last_three_lines_of_a_silent_rank_whatever_they_say() -> None:
    cause = "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation"
    line = f"[rank{{0}}]: RuntimeError: {cause} to complete\n"
    silent = "".join(f"[rank2]: colour of batch {number} is mauve\n" for number in range(6))
    text = "$ torchrun --standalone --nproc-per-node 4 train.py\n" + silent + "".join(line.format(rank) for rank in (0, 1, 3))
    found = investigate(gather_text(text, PACK), PACK)
    shown = next(reason for reason in found.reasons if reason.text == "What rank 2 printed last before that")
    cited = {one.id: one.text for one in found.evidence}
    assert [cited[key].removeprefix("[rank2]: ") for key in shown.evidence] == [
        f"colour of batch {n} is mauve" for n in (3, 4, 5)
    ]


def test_a_stopped_gpu_asks_the_machine(tmp_path: Path) -> None:
    found = diagnosed(write(tmp_path, Run(8, stall={5: 21}).dumps()))
    assert found.entry == "gpu-stopped-in-collective"
    assert found.verdict == "undetermined"
    assert [one.fact for one in found.missing[:3]] == ["gpu.xid_first", "gpu.handle_lost", "hang.blocked_in"]
    assert "dmesg" in found.missing[0].command
    assert "nvidia-smi" in found.missing[1].command
    assert "rank 5" in found.missing[2].command


def test_a_path_that_stands_still_asks_ras_and_the_links(tmp_path: Path) -> None:
    found = diagnosed(write(tmp_path, Run(8, stall=dict.fromkeys(range(8), 21), lag=0).dumps()))
    assert found.entry == "nccl-all-ranks-stuck"
    assert [one.fact for one in found.missing[:3]] == ["hang.ras_behind", "host.link_errors", "gpu.xid_first"]


def test_a_call_far_from_the_first_is_no_matter_of_the_start(tmp_path: Path) -> None:
    found = diagnosed(write(tmp_path, Run(8, stop={5: 21}).dumps()))
    assert found.facts["collective.is_first"]["value"] is False
    assert "nccl-first-collective-timeout" not in {one.entry for one in found.alternatives if one.verdict == "possible"}


def test_a_wait_that_was_only_seen_is_no_time_out() -> None:
    found = diagnosed(STACKS)
    assert {mark.what for mark in found.timeline if mark.kind == "collateral"} == {"waits in a collective"}
    assert not any(mark.kind == "initiating" for mark in found.timeline)
    assert "timed out" not in found.title + found.cause + "".join(one.what for one in found.collateral)


@pytest.mark.parametrize(("rank", "says"), [(4, "for rank 5"), (0, "behind ranks that wait for rank 5")])
def test_why_a_waiting_rank_is_not_the_one(tmp_path: Path, rank: int, says: str) -> None:
    answer = explain_rank(rank, gather([write(tmp_path, Run(8, stall={5: 21}).dumps())], PACK), PACK)
    assert answer.role == "collateral"
    assert answer.says.endswith(f"{says}.")
    assert says in answer.waited_for[0].text
    assert answer.waited_for[0].evidence


def test_why_the_suspect_shows_kind_call_lag_and_who_waits(tmp_path: Path) -> None:
    folder = write(tmp_path, Run(8, stall={5: 21}).dumps(frames=True))
    answer = explain_rank(5, gather([folder], PACK), PACK)
    shown = [one.text for one in answer.shown]
    assert "_all_gather_base #20 of TENSOR_MODEL_PARALLEL_GROUP" in shown[0]
    assert "completed 3 more" in shown[0]
    assert shown[1] == "For it wait ranks 1, 4, 6 and 7"
    assert "train.py:85" in shown[-1]
    assert not answer.waited_for


def test_why_of_stacks() -> None:
    bundle = gather([STACKS], PACK)
    assert (
        explain_rank(1, bundle, PACK).says == "Rank 1 is not the one: it waits in a call that cannot complete without rank 2."
    )
    assert any("did not reach: hang.py:28" in one.text for one in explain_rank(2, bundle, PACK).shown)
    assert not explain_rank(2, bundle, PACK).last_lines


def test_dumps_of_two_attempts_are_not_mixed(tmp_path: Path) -> None:
    write(tmp_path / "attempt_0", Run(8, stop={2: 10}).dumps())
    write(tmp_path / "attempt_1", Run(8, stop={5: 21}).dumps())
    found = diagnosed(tmp_path)
    assert found.initiating is not None
    assert (found.initiating.rank, found.entry) == (5, "collective-straggler")


def test_the_stack_of_the_late_rank_says_what_it_does(tmp_path: Path) -> None:
    folder = write(tmp_path, Run(8, stop={2: 21}).dumps())
    (folder / "stack-rank2.txt").write_bytes((STACKS / "stack-rank2.txt").read_bytes())
    assert diagnosed(folder).facts["collective.suspect_activity"]["value"] == "own_code"


def test_empty_dumps_do_not_show_a_good_end(tmp_path: Path) -> None:
    dumps = {rank: {**dump, "entries": [], "pg_status": {}} for rank, dump in Run(8).dumps().items()}
    assert diagnosed(write(tmp_path, dumps)).verdict == "undetermined"
