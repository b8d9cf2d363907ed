"""Which rank the others wait for: real sets, real sets with other numbers, sets by construction, and what cannot be decided."""

import pickle
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from firstfault.engine.hang.analysis import HangAnalysis, analyse
from firstfault.engine.hang.wait_for import components
from firstfault.ingest.bundle import gather
from firstfault.ingest.safe_pickle import load_plain
from firstfault.knowledge.pack import load_pack
from flight_dumps import Run, torch_pickle, write

DATA = Path(__file__).parents[1] / "data" / "flight_recorder"
INJECTED = {"gpu_error_2nd": "gpu-stalled", "lock_gil_1st": "never-entered"}


def _analysed(folder: Path, world: int | None = None) -> HangAnalysis:
    bundle = gather([folder], load_pack())
    return analyse([record for report in bundle.reports for record in report.records], world)


def _of(tmp_path: Path, run: Run, ranks: Sequence[int] | None = None, **options: Any) -> HangAnalysis:
    return _analysed(write(tmp_path / "dumps", run.dumps(**options), ranks=ranks))


@pytest.mark.parametrize(("name", "kind"), INJECTED.items())
def test_both_injected_ranks_are_named_and_nobody_else(name: str, kind: str) -> None:
    found = _analysed(DATA / name)
    assert found.verdict == "named"
    assert found.ranks == (9, 14)
    assert {(one.kind, one.confidence) for one in found.suspects} == {(kind, "high")}
    assert all(one.op and one.seq and one.lag and one.evidence and one.says for one in found.suspects)
    assert {one.rank for one in found.waiting} >= set(range(16)) - {9, 14}


@pytest.mark.parametrize("name", INJECTED)
@pytest.mark.parametrize("seed", range(4))
def test_the_same_fault_under_other_numbers(tmp_path: Path, name: str, seed: int) -> None:
    # Ranks change places within their pipeline stage, groups and calls get other numbers, and the files other names.
    chance = random.Random(seed)
    stage = chance.sample(range(8), 8)
    new = {rank: stage[rank % 8] + rank // 8 * 8 for rank in range(16)}
    shift = chance.randrange(1, 100_000)
    for rank in range(16):
        dump = _renumbered(load_plain((DATA / name / f"_dump_{rank}").read_bytes()), new, shift)
        (tmp_path / f"trace-host7-{new[rank]}").write_bytes(torch_pickle(dump))
    assert _analysed(tmp_path).ranks == tuple(sorted((new[9], new[14])))


def _renumbered(dump: Any, new: dict[int, int], shift: int) -> Any:
    for group in dump["pg_config"].values():
        group["ranks"] = str(sorted(new[int(rank)] for rank in re.findall(r"\d+", group["ranks"])))
    for counters in dump["pg_status"].values():
        for key in ("last_enqueued_collective", "last_completed_collective"):
            counters[key] += shift
    for entry in dump["entries"]:
        entry["collective_seq_id"] += shift
        entry["p2p_seq_id"] += shift if entry["is_p2p"] else 0
        if entry["process_group"][0] == "0" and entry["is_p2p"]:
            name = entry["profiling_name"]
            entry["profiling_name"] = re.sub(r"\d+", lambda found: str(new[int(found[0])]), name)
    return dump


@pytest.mark.parametrize("only_active", [True, False])
@pytest.mark.parametrize("rank", [0, 5, 14])
@pytest.mark.parametrize("at", [1, 31, 32, 39])
def test_a_rank_that_stops_calling_is_named(tmp_path: Path, rank: int, at: int, only_active: bool) -> None:
    found = _of(tmp_path, Run(16, 60, stop={rank: at}), only_active=only_active)
    assert [(one.rank, one.kind) for one in found.suspects] == [(rank, "never-entered")]


@pytest.mark.parametrize("rank", [3, 13])
def test_a_rank_whose_gpu_stops_is_named_though_it_entered(tmp_path: Path, rank: int) -> None:
    (suspect,) = _of(tmp_path, Run(16, 60, stall={rank: 33}, lag=4)).suspects
    assert (suspect.rank, suspect.kind) == (rank, "gpu-stalled")
    assert suspect.lag is not None
    assert suspect.lag >= 2


def test_two_faults_of_two_kinds_at_once_are_both_named(tmp_path: Path) -> None:
    found = _of(tmp_path, Run(16, 60, stop={2: 30}, stall={13: 29}))
    assert {(one.rank, one.kind) for one in found.suspects} == {(2, "never-entered"), (13, "gpu-stalled")}


def test_the_rank_with_another_call_is_named_and_not_the_majority(tmp_path: Path) -> None:
    for rank in (4, 7):
        run = Run(16, 60, other={(rank, 30): ("broadcast", [[4]])})
        (suspect,) = _analysed(write(tmp_path / str(rank), run.dumps())).suspects
        assert (suspect.rank, suspect.kind, suspect.seq) == (rank, "divergent-call", 28)
        assert "broadcast of [4]" in suspect.says


def test_a_tie_names_both_sides_at_low_confidence(tmp_path: Path) -> None:
    other: Any = {(rank, 30): ("broadcast", [[4]]) for rank in (4, 5)}
    found = _of(tmp_path, Run(16, 60, other=other))
    assert [(one.rank, one.confidence) for one in found.suspects] == [(rank, "low") for rank in (4, 5, 6, 7)]


def test_an_all_to_all_is_compared_by_its_total_only(tmp_path: Path) -> None:
    fair: Any = {(rank, 30): ("all_to_all", [[100 + rank]]) for rank in range(4, 8)}
    found = _of(tmp_path, Run(16, 60, other=fair))
    assert not found.ranks
    dumps = Run(16, 60, other=fair).dumps()
    next(one for one in dumps[6]["entries"] if one["profiling_name"] == "nccl:all_to_all")["output_sizes"] = [[1]]
    found = _analysed(write(tmp_path / "wrong", dumps))
    assert {one.kind for one in found.suspects} == {"divergent-call"}
    assert {one.confidence for one in found.suspects} == {"low"}


def test_where_all_came_and_none_left_nobody_is_blamed(tmp_path: Path) -> None:
    other: Any = {(rank, 30): ("all_reduce", [[8192, 1]]) for rank in range(16)}
    found = _of(tmp_path, Run(16, 60, other=other))
    assert (found.verdict, found.ranks, found.all_equal) == ("path", (), True)
    assert [one.kind for one in found.suspects] == ["fabric-or-library"]


def test_groups_entered_in_another_order_are_a_cycle_of_waits(tmp_path: Path) -> None:
    dumps = Run(8, 60, stop=dict.fromkeys(range(8), 30)).dumps()
    # Rank 0 entered one more call of `dp`, rank 4 one more of `tp`; each lacks in the other's.
    for rank, number in ((0, "2"), (4, "0")):
        dumps[rank]["pg_status"][number]["last_enqueued_collective"] += 1 if number == "2" else 2
    dumps[0]["pg_config"]["0"]["ranks"] = dumps[4]["pg_config"]["0"]["ranks"] = "[0, 4]"
    found = _analysed(write(tmp_path, dumps, ranks=[0, 4]))
    assert {(one.rank, one.kind) for one in found.suspects} == {(0, "order-inversion"), (4, "order-inversion")}


def test_a_run_in_which_all_is_done_is_quiet(tmp_path: Path) -> None:
    found = _of(tmp_path, Run(16, 60))
    assert (found.verdict, found.suspects, found.waiting) == ("quiet", (), ())


def test_a_single_dump_says_where_its_rank_waits_and_not_for_whom(tmp_path: Path) -> None:
    found = _of(tmp_path, Run(16, 60, stop={6: 33}), ranks=[0])
    assert (found.verdict, found.suspects) == ("undetermined", ())
    assert [one.rank for one in found.waiting] == [0]
    assert any("a single dump" in note for note in found.notes)


def test_a_missing_dump_is_suspect_only_if_nobody_else_explains_the_wait(tmp_path: Path) -> None:
    dumps = Run(16, 60, stop={6: 33}).dumps()
    without = {}
    for rank in (6, 7):
        without[rank] = _analysed(write(tmp_path / str(rank), dumps, ranks=[other for other in dumps if other != rank]))
    assert [(one.rank, one.kind, one.confidence) for one in without[6].suspects] == [(6, "no-record", "low")]
    assert [(one.rank, one.kind) for one in without[7].suspects] == [(6, "never-entered")]
    assert any("dump of rank 7" in note for note in without[7].notes)


def test_without_most_of_the_dumps_nobody_is_named(tmp_path: Path) -> None:
    found = _of(tmp_path, Run(16, 60, stop={6: 33}), ranks=[0, 1, 4])
    assert (found.verdict, found.ranks) == ("undetermined", ())
    assert "are missing" in found.reason


def test_counters_alone_name_the_rank_and_say_what_is_not_known(tmp_path: Path) -> None:
    dumps = {rank: {**dump, "entries": []} for rank, dump in Run(16, 60, stop={6: 33}).dumps().items()}
    found = _analysed(write(tmp_path, dumps))
    assert found.ranks == (6,)
    assert any("counters only" in note for note in found.notes)


def test_a_ring_that_lost_the_call_still_counts(tmp_path: Path) -> None:
    found = _of(tmp_path, Run(16, 60, stop={6: 33}), ring=2)
    assert found.ranks == (6,)
    assert any("overwritten" in note for note in found.notes)


def test_mixed_versions_and_duplicates_are_said(tmp_path: Path) -> None:
    dumps = Run(16, 60, stop={6: 33}).dumps()
    dumps[3]["version"] = "2.10"
    write(tmp_path, dumps)
    write(tmp_path, {0: {**dumps[0], "entries": dumps[0]["entries"][:4]}}, name="old_0")
    found = _analysed(tmp_path)
    assert found.ranks == (6,)
    assert any("2.10, 2.9" in note for note in found.notes)
    assert any("of rank 0 there are several dumps" in note for note in found.notes)


def test_sends_without_their_receives_are_compared_pair_by_pair(tmp_path: Path) -> None:
    dumps = Run(2, 8).dumps()
    template = dumps[0]["entries"][0]
    for dump in dumps.values():
        dump["entries"] = []
    send = {**template, "is_p2p": True, "p2p_seq_id": 9, "profiling_name": "nccl:recv 0<-1", "state": "scheduled"}
    dumps[0]["entries"] = [{**send, "process_group": ("0", "default_pg"), "pg_id": 0, "time_discovered_completed_ns": None}]
    (suspect,) = _analysed(write(tmp_path, dumps)).suspects
    assert (suspect.rank, suspect.kind, suspect.confidence) == (1, "never-entered", "low")


@pytest.mark.parametrize(
    ("name", "ranks", "kind"),
    [
        ("gloo_late", (2,), "behind"),
        ("gloo_op", (3,), "divergent-call"),
        ("gloo_shape", (1,), "divergent-call"),
        ("gloo_healthy", (), None),
        ("gloo_json", (), None),
    ],
)
def test_dumps_of_real_gloo_runs(name: str, ranks: tuple[int, ...], kind: str | None) -> None:
    found = _analysed(DATA / name)
    assert found.ranks == ranks
    assert {one.kind for one in found.suspects} == ({kind} if kind else set())
    assert any("gloo do not say which calls were completed" in note for note in found.notes)
    if not ranks:
        assert found.verdict == "quiet"


def test_no_records_give_no_analysis() -> None:
    assert analyse([]).verdict == "none"


def test_a_chain_of_ten_thousand_waits_needs_no_recursion() -> None:
    edges = {rank: {rank + 1} for rank in range(10_000)}
    found = components(range(10_001), edges)
    assert found[0] == {10_000}
    assert len(found) == 10_001


def test_a_dump_that_holds_nothing_is_none(tmp_path: Path) -> None:
    """Of rank 6 nothing is known: the others may wait for it, and that all entered cannot be said."""
    dumps = Run(16, 60, stop={6: 33}).dumps()
    dumps[6] |= {"entries": [], "pg_status": {}}
    found = _analysed(write(tmp_path, dumps))
    assert [(one.rank, one.kind, one.confidence) for one in found.suspects] == [(6, "no-record", "low")]
    assert any("rank 6 holds neither calls nor counters" in note for note in found.notes)


def test_groups_without_members_are_those_that_siblings_list(tmp_path: Path) -> None:
    dumps = Run(16, 60, stop={6: 33}).dumps()
    for rank in (6, 7):
        dumps[rank] |= {"pg_config": [], "pg_status": "damaged"}
    assert _analysed(write(tmp_path, dumps)).ranks == (6,)


@pytest.mark.parametrize("seq", [1 << 39, 10**15, 10**300])
def test_numbers_beyond_measure_cost_nothing(tmp_path: Path, seq: int) -> None:
    dumps = Run(16, 60, stop={6: 33}).dumps()
    dumps[3]["entries"][0]["collective_seq_id"] = seq
    write(tmp_path, dumps, ranks=[rank for rank in dumps if rank != 3])
    write(tmp_path, {3: dumps[3]}, encode=lambda dump: pickle.dumps(dump, protocol=2))
    assert _analysed(tmp_path).verdict in ("named", "undetermined")


@pytest.mark.parametrize("minor", range(11))
def test_every_version_names_the_same_rank(tmp_path: Path, minor: int) -> None:
    """Older dumps by construction: fields that came later are left out."""
    dumps = Run(16, 60, stop={6: 33}).dumps()
    for dump in dumps.values():
        dump["version"] = f"2.{minor}"
        later = {1: ("pg_id",), 2: ("p2p_seq_id",), 3: ("input_dtypes", "output_dtypes"), 4: ("is_p2p", "timeout_ms")}
        for entry in dump["entries"]:
            if minor < 2:
                entry["seq_id"] = entry.pop("collective_seq_id")
            if minor < 1:
                entry["process_group"] = entry["process_group"][0]
            for since, fields in later.items():
                for field in fields if minor < since else ():
                    del entry[field]
        for since, field in ((2, "pg_config"), (4, "pg_status")):
            if minor < since:
                del dump[field]
    assert _analysed(write(tmp_path, dumps)).ranks == (6,)
