"""The answer about one rank as text: nothing beyond the width, each line once, the next command last."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from firstfault.model.diagnosis import Evidence
from firstfault.model.why import WHY_SCHEMA, RankAnswer, Statement
from firstfault.render.json import schema, to_json
from firstfault.render.layout import cells
from firstfault.render.why import render_rank

EXPORTED = Path(__file__).parents[2] / "docs" / "json-schema" / "firstfault.why-1.json"


def line(number: int, text: str) -> Evidence:
    return Evidence(id=f"e{number}", source="logs/rank_1.log", line=number, offset=number * 40, rank=1, text=text)


def waited() -> RankAnswer:
    return RankAnswer(
        rank=1,
        role="collateral",
        certainty="established",
        host="node-1",
        attempt=2,
        says="Rank 1 is not the one: what it reports follows from the failure of rank 2.",
        events=(Statement(text="a collective timed out", evidence=("e40",), time="2026-03-02 10:17:04.620"),),
        waited_for=(Statement(text="It was in ALLREDUCE number 78 for 10 min", evidence=("e40",)),),
        ended=(Statement(text="The launcher stopped it", evidence=("e41",)),),
        last_lines=(Statement(text="step 38", evidence=("e38",)), Statement(text="step 39", evidence=("e39",))),
        progress=Statement(text="step 39", evidence=("e39",)),
        next_step="firstfault why 2 INPUTS",
        evidence=(
            line(38, "step 38"),
            line(39, "step 39"),
            line(40, "[rank1]: Watchdog caught collective operation timeout " * 4),
            line(41, "Sending process 91 closing signal SIGTERM"),
        ),
    )


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("ascii", [False, True])
def test_no_line_is_wider_than_asked(width: int, ascii: bool) -> None:
    text = render_rank(waited(), width=width, ascii=ascii)
    assert max(cells(row) for row in text.splitlines()) <= width
    assert not ascii or text.isascii()


def test_the_role_stands_first_and_the_next_command_last() -> None:
    rows = render_rank(waited(), inputs="logs/").splitlines()
    assert rows[0] == "NOT FIRST  rank 1 (node-1), attempt 2"
    assert rows[-1] == "more: firstfault why 2 logs/"
    assert "  · a collective timed out, at 2026-03-02 10:17:04.62" in rows


def test_a_line_that_two_sentences_stand_on_is_shown_once() -> None:
    text = render_rank(waited())
    assert text.count("rank_1.log:40") == 1
    assert "LAST PROGRESS" not in text
    assert text.count("step 39") == 1


@pytest.mark.parametrize(
    ("role", "word"),
    [("initiating", "FIRST"), ("suspect", "SUSPECT"), ("absent", "NO RECORD"), ("unmarked", "NOTHING SEEN")],
)
def test_each_role_has_its_word(role: str, word: str) -> None:
    assert render_rank(RankAnswer(rank=3, role=role)).startswith(f"{word}  rank 3\n")  # type: ignore[arg-type]


def test_a_hostile_line_cannot_drive_the_terminal() -> None:
    answer = RankAnswer(
        rank=0,
        role="suspect",
        last_lines=(Statement(text="\x1b[2Jgone\u202e", evidence=("e1",)),),
        evidence=(line(1, "\x1b[2Jgone"),),
    )
    assert "\x1b" not in render_rank(answer)
    assert "\u202e" not in render_rank(answer)


def test_the_exported_schema_is_current() -> None:
    text = json.dumps(schema(RankAnswer), indent=2, ensure_ascii=False) + "\n"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        EXPORTED.write_text(text, encoding="utf-8")
    assert EXPORTED.read_text(encoding="utf-8") == text, "run with UPDATE_GOLDEN=1; a breaking change needs a new version"


def test_the_json_names_its_schema() -> None:
    assert json.loads(to_json(waited()))["schema"] == WHY_SCHEMA
