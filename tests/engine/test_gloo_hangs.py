"""Recorded hangs of four gloo ranks with torch 2.13: who is suspected, and who only waited."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstfault.engine.investigate import investigate
from firstfault.ingest.bundle import gather
from firstfault.knowledge.pack import load_pack

GLOO = Path(__file__).parents[1] / "data" / "hangs" / "gloo"


@pytest.mark.parametrize(
    ("run", "rank", "entry"),
    [
        ("barrier", 3, "collective-straggler"),
        ("detail_never", 2, "collective-straggler"),
        ("detail_op", 2, "collective-mismatch"),
        ("detail_shape", 2, "collective-shape-mismatch"),
        ("plain_never", 2, "gloo-timeout"),
        ("plain_sleep", 2, "gloo-timeout"),
    ],
)
def test_the_rank_that_did_not_come_is_suspected_and_the_others_waited(run: str, rank: int, entry: str) -> None:
    found = investigate(gather([GLOO / run], load_pack()), load_pack())
    assert found.initiating is not None
    assert (found.initiating.rank, found.entry) == (rank, entry)
    waited = {one.rank for one in found.collateral} - {None, rank}
    assert waited == set(range(4)) - {rank}
    assert found.verdict != "established" or run.startswith("detail_")


def test_a_gloo_timeout_alone_asks_what_the_missing_rank_did() -> None:
    found = investigate(gather([GLOO / "plain_sleep"], load_pack()), load_pack())
    assert found.verdict == "undetermined"
    asked = {one.fact: one.command for one in found.missing}
    assert "py-spy dump" in asked["collective.suspect_kind"]
