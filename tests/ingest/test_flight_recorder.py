"""Dumps in every form give the record of their rank; what cannot be used is said, never guessed."""

from pathlib import Path
from typing import Any

import pytest

from firstfault.ingest.bundle import gather
from firstfault.ingest.dump_head import is_dump, numbers_of
from firstfault.knowledge.pack import load_pack
from firstfault.model.bundle import SourceReport
from firstfault.model.collective import GroupKey, RankRecord
from flight_dumps import Run, as_json, torch_pickle, write

DATA = Path(__file__).parents[1] / "data" / "flight_recorder"


def _reports(*paths: Path) -> list[SourceReport]:
    return list(gather(paths, load_pack()).reports)


def _record(tmp_path: Path, dump: Any, name: str = "_dump_3", data: bytes | None = None) -> RankRecord:
    (tmp_path / name).write_bytes(torch_pickle(dump) if data is None else data)
    (report,) = _reports(tmp_path / name)
    assert report.source.kind == "flight_recorder"
    (record,) = report.records
    return record


def test_a_real_dump_gives_groups_counters_and_open_calls() -> None:
    (report,) = _reports(DATA / "gpu_error_2nd" / "_dump_9")
    (record,) = report.records
    assert (record.rank, record.backend, record.version, record.world) == (9, "nccl", "2.9", tuple(range(16)))
    tensor = next(one for one in record.groups if one.description == "TENSOR_MODEL_PARALLEL_GROUP")
    assert tensor.group == GroupKey("37", (8, 9, 10, 11))
    assert (tensor.last_enqueued, tensor.last_started, tensor.last_completed) == (87760, None, 87748)
    assert str(tensor.span).endswith("_dump_9:pg_status[5]")
    receive = next(call for call in record.calls if call.op == "recv")
    assert (receive.peers, receive.seq, receive.is_p2p) == ((1, 9), 13998, True)
    assert all(one.group is not None for one in record.groups)


def test_groups_of_a_dump_without_entries_are_named_by_the_order_in_which_they_were_made() -> None:
    (report,) = _reports(DATA / "lock_gil_1st" / "_dump_14")
    (record,) = report.records
    by_number = {one.local_id: one.group for one in record.groups}
    assert by_number["5"] == GroupKey("38", (12, 13, 14, 15))
    assert not record.calls


def test_the_json_form_says_the_same_as_the_pickle(tmp_path: Path) -> None:
    dump = Run(8, 30, stop={3: 20}).dump(2)
    pickled = _record(tmp_path, dump, "trace_2")
    written = _record(tmp_path, dump, "trace_2.json", as_json(dump))
    assert [(one.last_enqueued, one.last_completed) for one in pickled.groups] == [
        (one.last_enqueued, one.last_completed) for one in written.groups
    ]
    assert [call.seq for call in pickled.calls] == [call.seq for call in written.calls]
    assert pickled.trails[0].signatures == written.trails[0].signatures


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("_dump_3", 3),
        ("nccl_trace_rank_container-node02_3", 3),
        ("rank3.pkl", 3),
        ("nccl_trace_rank_3.json", 3),
        ("trace.3", 3),
    ],
)
def test_the_rank_is_the_last_number_of_any_name(tmp_path: Path, name: str, rank: int) -> None:
    assert numbers_of(name)[0] == rank
    assert _record(tmp_path, Run(8, 20).dump(rank), name).rank == rank


def test_the_groups_decide_where_the_name_says_another_rank(tmp_path: Path) -> None:
    dump = Run(8, 20).dump(6)
    dump["pg_config"]["dp"] = {"name": "dp", "desc": "", "ranks": "[6]"}
    (tmp_path / "_dump_1").write_bytes(torch_pickle(dump))
    (report,) = _reports(tmp_path / "_dump_1")
    assert report.records[0].rank == 6
    assert "not of rank 1 by its name" in report.notes[0].what


def test_a_dump_that_is_nobodys_is_not_used(tmp_path: Path) -> None:
    dump = Run(8, 20).dump(6)
    dump["pg_config"] = {"0": dump["pg_config"]["0"]}
    (tmp_path / "dump_99").write_bytes(torch_pickle(dump))
    (tmp_path / "run.log").write_text("step 1\n")
    report = _reports(tmp_path / "dump_99", tmp_path / "run.log")[0]
    assert not report.records
    assert any("which rank wrote it" in note.what for note in report.notes)


def test_unset_counters_of_all_versions_mean_none_yet(tmp_path: Path) -> None:
    for value in (-1, 2**32 - 1, 2**64 - 1, 3452013982, "-1", "18446744073709551615"):
        dump = Run(8, 20).dump(3)
        dump["pg_status"]["1"] = dict.fromkeys(dump["pg_status"]["1"], value)
        data = as_json(dump) if isinstance(value, str) or value > 2**63 else torch_pickle(dump)
        record = _record(tmp_path, dump, "_dump_3", data)
        assert {(one.last_enqueued, one.last_completed) for one in record.groups if one.local_id == "1"} == {(0, 0)}


def test_ranks_are_a_list_of_numbers_and_nothing_that_is_evaluated(tmp_path: Path) -> None:
    dump = Run(8, 20).dump(3)
    dump["pg_config"]["1"]["ranks"] = "[__import__('os').getpid()]"
    assert _record(tmp_path, dump).calls[0].group == GroupKey("1", ())


def test_equal_dumps_of_two_ranks_are_both_read(tmp_path: Path) -> None:
    dump = {**Run(8, 20).dump(0), "entries": []}
    dump["pg_config"] = {"0": dump["pg_config"]["0"]}
    write(tmp_path, {0: dump, 1: dump})
    assert [report.records[0].rank for report in _reports(tmp_path)] == [0, 1]


@pytest.mark.parametrize("cut", [1, 40, 400])
def test_a_cut_dump_is_a_note(tmp_path: Path, cut: int) -> None:
    data = torch_pickle(Run(8, 40).dump(3))
    (tmp_path / "_dump_3").write_bytes(data[: len(data) - cut])
    (tmp_path / "run.log").write_text("step 1\n")
    report = _reports(tmp_path / "_dump_3", tmp_path / "run.log")[0]
    assert not report.records
    assert "not read: is damaged" in report.notes[0].what


def test_damaged_entries_are_counted_and_the_rest_is_used(tmp_path: Path) -> None:
    dump = Run(8, 20).dump(3)
    dump["entries"][4:6] = [None, {"process_group": ["1"]}]
    (tmp_path / "_dump_3").write_bytes(torch_pickle(dump))
    (report,) = _reports(tmp_path / "_dump_3")
    assert report.records[0].calls
    assert "2 entries of the dump are damaged" in report.notes[0].what


def test_fields_of_any_shape_do_no_harm(tmp_path: Path) -> None:
    odd: list[Any] = [None, 7, "x", [], {}, [[]], {"a": {}}, -1]
    for value in odd:
        for key in ("pg_config", "pg_status", "entries", "version"):
            (tmp_path / "_dump_3").write_bytes(torch_pickle({**Run(8, 20).dump(3), key: value}))
            _reports(tmp_path / "_dump_3")
        for key in Run(8, 20).dump(3)["entries"][0]:
            dump = Run(8, 20).dump(3)
            dump["entries"][-1][key] = value
            (tmp_path / "_dump_3").write_bytes(torch_pickle(dump))
            _reports(tmp_path / "_dump_3")


def test_a_full_ring_keeps_what_an_analysis_needs(tmp_path: Path) -> None:
    record = _record(tmp_path, Run(8, 2500, stop={3: 2400}).dump(3, ring=2000))
    assert len(record.calls) < 60
    assert not record.whole
    assert max(len(trail.signatures) for trail in record.trails) < 400


def test_what_is_no_dump_is_not_taken_for_one() -> None:
    assert not is_dump(b"[rank0]: step 1")
    assert not is_dump(b'{"rank": 0, "step": 4}')
    assert not is_dump(b"\x80\x02}q\0(X\x05\0\0\0modelq\x01K\x01u.")
    assert is_dump(b'{"comm_lib_version":"","entries":[{"collective_seq_id":1}]}')


def test_the_nameless_group_of_gloo_is_the_default_one(tmp_path: Path) -> None:
    dump = Run(8, 20).dump(3)
    dump["pg_config"] = {"": {"name": "", "desc": "", "ranks": "[0, 1, 2, 3, 4, 5, 6, 7]"}}
    assert _record(tmp_path, dump).world == tuple(range(8))


def test_a_list_of_members_beyond_measure_is_no_list(tmp_path: Path) -> None:
    dump = Run(8, 8).dump(0)
    dump["pg_config"]["0"]["ranks"] = str(list(range(200_000)))
    assert _record(tmp_path, dump).world == ()
