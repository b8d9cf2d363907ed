"""The labelled investigations of `cases/`: each is answered as labelled, or stands in `known_misses.toml` with the reason."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

import pytest

from firstfault.engine.investigate import investigate
from firstfault.ingest.bundle import gather
from firstfault.knowledge.pack import load_pack
from firstfault.trial.judgement import Judgement, judge
from firstfault.trial.label import read_cases

FOLDER = Path(__file__).parents[2] / "cases"
CASES = {case.name: case for case in read_cases(FOLDER)}
MISSES: dict[str, str] = tomllib.loads((FOLDER / "known_misses.toml").read_text(encoding="utf-8"))


@cache
def judged(name: str) -> Judgement:
    pack = load_pack()
    return judge(CASES[name], investigate(gather([CASES[name].input], pack), pack))


def right(found: Judgement) -> bool:
    if found.kind == "undecidable":
        return found.asked_right == 1
    return found.credit == 1 and found.rank_right is not False


@pytest.mark.parametrize("name", sorted(CASES))
def test_case_is_answered_as_labelled(name: str) -> None:
    found = judged(name)
    assert not found.false_established
    if name not in MISSES:
        assert right(found), found


@pytest.mark.parametrize("name", sorted(MISSES))
def test_known_miss_is_still_one(name: str) -> None:
    assert not right(judged(name)), f"{name} is answered now: take it out of known_misses.toml"
