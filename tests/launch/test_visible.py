"""CUDA_VISIBLE_DEVICES as torch reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.launch.visible import visible_devices


@pytest.mark.parametrize(
    ("text", "gpus", "ids"),
    [
        (None, 2, ("0", "1")),
        ("", 4, ()),
        ("-1", 4, ()),
        ("0,9,1", 4, ("0",)),
        ("0,1,0", 4, ()),
        ("1gpu2, 2", 4, ("1", "2")),
        ("0,-1,1", 4, ("0",)),
        ("none", 4, ()),
        ("GPU-a,GPU-b,1", 4, ("GPU-a", "GPU-b")),
        ("MIG-a,MIG-b", 4, ("MIG-a",)),
        ("0,1", None, ("0", "1")),
        ("0", 0, ()),
    ],
)
def test_the_list_ends_at_the_first_entry_that_is_no_gpu(text: str | None, gpus: int | None, ids: tuple[str, ...]) -> None:
    assert visible_devices(text, gpus) == ids


def test_without_a_count_or_with_an_unknown_variable_nothing_is_said() -> None:
    assert visible_devices(None, None) is None
    assert visible_devices("$SLURM_JOB_GPUS", 4) is None


@given(st.text(max_size=200), st.one_of(st.none(), st.integers(0, 10**9)))
def test_any_text_gives_at_most_the_gpus_of_the_machine(text: str, gpus: int | None) -> None:
    found = visible_devices(text, gpus)
    assert found is None or gpus is None or len(found) <= gpus
