"""The counters that watchdogs of torch print, as records: who is behind, wraps of -1, and where the stuck call was made."""

from __future__ import annotations

from firstfault.engine.investigate import investigate
from firstfault.ingest.bundle import gather_text
from firstfault.knowledge.pack import load_pack
from firstfault.model.diagnosis import Diagnosis


def _watchdog(rank: int, work: int, enqueued: int, completed: int, op: str = "ALLREDUCE") -> str:
    head = f"[rank{rank}]:[E917 01:30:20.00{rank}538748 ProcessGroupNCCL.cpp"
    return (
        f"{head}:632] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={work}, OpType={op}, "
        "NumelIn=4194304, NumelOut=4194304, Timeout(ms)=600000) ran for 600037 milliseconds before timing out.\n"
        f"{head}:2268] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog at work sequence id: {work} "
        f"PG status: last enqueued work: {enqueued}, last completed work: {completed}\n"
    )


def _site(rank: int, function: str, line: int) -> str:
    library = "/opt/venv/lib/python3.12/site-packages/torch/distributed"
    return (
        f"[rank{rank}]:[E917 01:30:20.107538748 ProcessGroupNCCL.cpp:801] Stack trace of the failed collective: \n"
        f"#0 all_reduce from {library}/distributed_c10d.py:3174\n#1 {function} from /home/user/train.py:{line}\n\n"
    )


def _found(text: str) -> Diagnosis:
    return investigate(gather_text("step 879 loss 2.1\n" + text, load_pack()), load_pack())


def _rank(found: Diagnosis) -> int | None:
    return found.initiating.rank if found.initiating else None


def test_a_rank_whose_calls_stay_open_is_named() -> None:
    found = _found("".join(_watchdog(rank, 880, 892, 879) for rank in (0, 1, 3)) + _watchdog(2, 875, 892, 874))
    assert _rank(found) == 2
    assert found.facts["collective.suspect_kind"]["value"] == "gpu_stalled"


def test_one_call_less_is_no_lag() -> None:
    found = _found("".join(_watchdog(rank, 880, 892, 879) for rank in (0, 1, 3)) + _watchdog(2, 879, 892, 878))
    assert _rank(found) is None


def test_a_root_may_be_ahead() -> None:
    others = "".join(_watchdog(rank, 880, 892, 879, "BROADCAST") for rank in (0, 1, 3))
    assert _rank(_found(others + _watchdog(2, 875, 892, 874, "BROADCAST"))) is None


def test_one_rank_ahead_of_all_is_not_named() -> None:
    found = _found("".join(_watchdog(rank, 875, 892, 874) for rank in (0, 1, 3)) + _watchdog(2, 880, 892, 879))
    assert _rank(found) is None


def test_minus_one_as_a_large_number_is_none_completed() -> None:
    old = "[rank{0}]:[E917 01:30:20.00{0}538748 ProcessGroupNCCL.cpp:1785] [PG 0 Rank {0}] Timeout at NCCL work: 1, "
    old += "last enqueued NCCL work: 1, last completed NCCL work: {1}.\n"
    for wrapped in (18446744073709551615, 3452013982):
        found = _found("".join(old.format(rank, wrapped) for rank in range(3)))
        assert found.facts.get("collective.is_first", {}).get("value") is not False


def test_the_one_call_that_was_made_elsewhere() -> None:
    waits = [_watchdog(rank, 880, 882, 879) for rank in range(4)]
    sites = [_site(rank, *(("validate", 77) if rank == 1 else ("train_step", 40))) for rank in range(4)]
    found = _found("".join(wait + site for wait, site in zip(waits, sites, strict=True)))
    assert _rank(found) == 1
    assert found.entry == "collective-desync"


def test_equal_call_sites_name_nobody() -> None:
    text = "".join(_watchdog(rank, 880, 882, 879) + _site(rank, "train_step", 40) for rank in range(4))
    assert _rank(_found(text)) is None


def test_a_watchdog_that_stands_still_is_blocked_on_its_host() -> None:
    gil = (
        "[rank3]:[E917 01:30:29.939000000 ProcessGroupNCCL.cpp:1395] [PG ID 0 PG GUID 0(default_pg) Rank 3] "
        "Could not acquire GIL within 300 ms on exit, possible GIL induced hang\n"
    )
    found = _found("".join(_watchdog(rank, 880, 882, 879) for rank in (0, 1, 2)) + gil)
    assert _rank(found) == 3
    assert found.facts["collective.suspect_kind"]["value"] == "host_blocked"


def test_the_sentence_names_group_call_and_lag() -> None:
    found = _found("".join(_watchdog(rank, 880, 892, 879) for rank in (0, 1, 3)) + _watchdog(2, 875, 892, 874))
    assert "rank 2 had entered allreduce #875 of default_pg and not completed it" in found.cause.replace("Rank", "rank")
    assert "completed 5 more" in found.cause


def test_a_rank_behind_by_its_counters() -> None:
    found = _found("".join(_watchdog(rank, 880, 892, 879) for rank in (0, 1, 3)) + _watchdog(2, 879, 879, 878))
    assert _rank(found) == 2
    assert found.facts["collective.suspect_kind"]["value"] == "behind"
