from __future__ import annotations

import pytest

from diagnosis_samples import established, symmetric, undetermined
from firstfault.model.diagnosis import Collateral, Diagnosis, Initiating, SourceSummary
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
        (Initiating(rank=None, host="node-4"), "it began on node-4"),
        (Initiating(rank=None), "the rank is not named in what was read"),
    ],
)
def test_who_was_first(initiating: Initiating, text: str) -> None:
    assert words.who_was_first(initiating) == text


def test_what_was_read_counts_a_paste_once_and_ranks_from_all_places() -> None:
    parts = tuple(SourceSummary(path="pasted.txt", kind=kind, lines=10) for kind in ("prose", "log"))
    assert words.what_was_read(Diagnosis(verdict="no_failure", sources=parts))[:2] == ["1 file", "20 lines"]
    piped = (SourceSummary(path="<stdin>", kind="log", bytes=2048),)
    assert words.what_was_read(Diagnosis(verdict="no_failure", sources=piped))[:2] == ["1 source", "2 KiB"]
    assert words.what_was_read(symmetric(64))[0] == "64 ranks"


def test_collateral_of_one_kind_is_one_group() -> None:
    items = [Collateral(rank=rank, entry="a", explained_by="b", evidence=("e1",)) for rank in (1, 0, None)]
    items.append(Collateral(rank=5, entry="a", explained_by="c", evidence=("e2",)))
    groups = words.collateral_groups(items)
    assert [(group.ranks, group.evidence) for group in groups] == [((0, 1), ("e1",)), ((5,), ("e2",))]


def test_evidence_is_read_failure_first_then_what_decides() -> None:
    assert [item.id for item in words.in_reading_order(established())] == ["e1", "e2", "e3", "e4", "e5"]


def test_exit_codes() -> None:
    assert [words.exit_code(made) for made in (established(), undetermined(), symmetric())] == [1, 3, 1]
    assert words.exit_code(Diagnosis(verdict="no_failure")) == 0
