from __future__ import annotations

import msgspec
import pytest

from diagnosis_samples import established, symmetric, undetermined
from firstfault.model.diagnosis import Collateral, Diagnosis, Evidence, Initiating, SourceSummary, TimelineEntry
from firstfault.render import words


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([2], "rank 2"),
        ([0, 1], "ranks 0, 1"),
        ([3, 1, 2, 0], "ranks 0-3"),
        ([0, 1, 2, 7, 9, 10], "ranks 0-2, 7, 9, 10"),
        ([5, 5], "rank 5"),
    ],
)
def test_ranks_are_joined(ranks: list[int], text: str) -> None:
    assert words.ranks_text(ranks) == text


@pytest.mark.parametrize(
    ("initiating", "text"),
    [
        (Initiating(rank=2, certainty="established", time="10:00"), "rank 2 failed first, at 10:00"),
        (Initiating(rank=2, certainty="likely", host="node-1"), "rank 2 (node-1) probably failed first"),
        (Initiating(rank=2, attempt=1), "rank 2 may have failed first, in attempt 1"),
        (Initiating(rank=None, ranks=(0, 1, 2), relation="symmetric"), "ranks 0-2 failed alike"),
        (Initiating(rank=None, relation="symmetric"), "all ranks failed alike"),
        (Initiating(rank=None, ranks=(3, 7), relation="several"), "ranks 3, 7 may have failed first"),
        (Initiating(rank=None, relation="several"), "what failed first is not known"),
        (Initiating(rank=None, host="node-4"), "it began on node-4"),
        (Initiating(rank=None), "which rank failed first is not known"),
        (Initiating(rank=None, certainty="established"), "no line says which rank it was"),
    ],
)
def test_who_was_first(initiating: Initiating, text: str) -> None:
    assert words.who_was_first(initiating) == text


@pytest.mark.parametrize(
    ("time", "text"),
    [
        ("1130 20:35:44.948000", "20:35:44.948"),
        ("2026-11-30 19:00:34,806", "2026-11-30 19:00:34.806"),
        ("2026-03-01T10:41:12.2", "2026-03-01 10:41:12.2"),
        ("1796065075", "2026-11-30 18:57:55 UTC"),
        ("[1819210.118233]", ""),
        ("step 7", "step 7"),
    ],
)
def test_a_time_is_said_as_people_read_it(time: str, text: str) -> None:
    assert words.moment(time) == text


def test_a_single_process_has_nobody_to_be_first_of() -> None:
    one = Diagnosis(verdict="likely", initiating=Initiating(rank=None, certainty="established"))
    assert words.verdict_of_rank(one) == []
    # Of a bare error line nobody claims that several ranks had a part in it.
    remark = msgspec.structs.replace(one, initiating=Initiating(rank=None, relation="several"))
    assert words.verdict_of_rank(remark) == ["what failed first is not known"]
    eight = msgspec.structs.replace(one, facts={"run.world_size": {"value": 8}})
    assert words.verdict_of_rank(eight) == ["no line says which rank it was"]


def test_the_rank_s_own_error_is_no_heading() -> None:
    own = [Collateral(rank=0, entry=name, explained_by=words.OWN_ERROR, evidence=("e1",)) for name in "ab"]
    groups = words.collateral_groups([*own, Collateral(rank=1, entry="c", explained_by="the failure of rank 0")], {})
    assert words.explained_mostly(groups) == "the failure of rank 0"
    assert [words.follows_from(group, "the failure of rank 0") for group in groups][-1] == ""


def test_commands_stand_one_a_line() -> None:
    text = 'dmesg -T | grep -E "a; b"; python -c "import torch;print(1)"; sacct -j JOB'
    assert words.steps(text).split("\n") == [
        'dmesg -T | grep -E "a; b"',
        'python -c "import torch;print(1)"',
        "sacct -j JOB",
    ]


def test_what_was_read_counts_a_paste_once_and_ranks_from_all_places() -> None:
    parts = tuple(SourceSummary(path="pasted.txt", kind=kind, lines=10) for kind in ("prose", "log"))
    assert words.what_was_read(Diagnosis(verdict="no_failure", sources=parts))[:2] == ["1 file", "20 lines"]
    piped = (SourceSummary(path="<stdin>", kind="log", bytes=2048),)
    assert words.what_was_read(Diagnosis(verdict="no_failure", sources=piped))[:2] == ["1 source", "2 KiB"]
    assert words.what_was_read(symmetric(64))[0] == "64 ranks"


def test_collateral_of_one_kind_is_one_group() -> None:
    items = [Collateral(rank=rank, entry="a", explained_by="b", evidence=("e1",)) for rank in (1, 0, None)]
    items.append(Collateral(rank=5, entry="a", explained_by="c", evidence=("e2",)))
    groups = words.collateral_groups(items, {"a": "A"})
    assert {group.what for group in groups} == {"A"}
    assert [(group.ranks, group.evidence) for group in groups] == [((0, 1), ("e1",)), ((5,), ("e2",))]


def test_explanations_that_differ_in_numbers_are_one_group() -> None:
    items = [Collateral(rank=rank, entry="a", explained_by=f"the end of rank {rank}", evidence=("e1",)) for rank in (1, 0)]
    assert [group.explained_by for group in words.collateral_groups(items, {})] == ["the end of rank 1, and alike"]


@pytest.mark.parametrize(
    ("sources", "folder", "places"),
    [
        (("runs/a/x.log", "runs/a/b/y.log"), "runs/a/", ["x.log:1", "b/y.log:2"]),
        (("runs/ab/x.log", "runs/a/y.log"), "runs/", ["ab/x.log:1", "a/y.log:2"]),
        (("/tmp/x.log", "y.log"), "", ["/tmp/x.log:1", "y.log:2"]),
        (("x.log", "x.log"), "", ["x.log:1", "x.log:2"]),
    ],
)
def test_the_folder_of_all_lines_is_said_once(sources: tuple[str, str], folder: str, places: list[str]) -> None:
    evidence = tuple(Evidence(id=f"e{n}", source=source, line=n, offset=0, text="x") for n, source in enumerate(sources, 1))
    named = words.Places(evidence)
    assert named.folder == folder
    assert named.named(("e1", "e2", "e2", "e9")) == places


def test_many_places_are_counted() -> None:
    evidence = tuple(Evidence(id=f"e{n}", source="x", line=n, offset=0, text="x") for n in range(1, 6))
    named = words.Places(evidence)
    assert named.cited(("e1", "e2", "e3")) == ["x:1", "x:2", "x:3"]
    assert named.cited(("e1", "e2", "e3", "e4", "e5")) == ["x:1", "x:2", "3 more"]


def test_lines_that_only_mark_the_timeline_are_not_read_again() -> None:
    marks = (TimelineEntry(rank=0, kind="progress", text="step 1", evidence="e2"),)
    evidence = tuple(Evidence(id=f"e{n}", source="x", line=n, offset=0, text="x") for n in (1, 2))
    first = Initiating(rank=0, evidence=("e1",))
    answer = Diagnosis(verdict="likely", initiating=first, evidence=evidence, timeline=marks)
    assert [item.id for item in words.in_reading_order(answer)] == ["e1"]
    healthy = Diagnosis(verdict="no_failure", evidence=evidence[1:], timeline=marks)
    assert [item.id for item in words.in_reading_order(healthy)] == ["e2"]


def test_evidence_is_read_failure_first_then_what_decides() -> None:
    assert [item.id for item in words.in_reading_order(established())] == ["e1", "e2", "e3", "e4", "e5"]


def test_exit_codes() -> None:
    assert [words.exit_code(made) for made in (established(), undetermined(), symmetric())] == [1, 3, 1]
    assert words.exit_code(Diagnosis(verdict="no_failure")) == 0


def test_certainty_of_a_host_is_none_of_a_rank() -> None:
    on_host = msgspec.structs.replace(established(), initiating=Initiating(rank=None, host="node-1", certainty="established"))
    assert words.verdict_of_rank(on_host) == ["it began on node-1", "host: established"]
    assert words.verdict_of_rank(established())[-1].startswith("rank: ")
