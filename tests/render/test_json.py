from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from diagnosis_samples import ALL, HOSTILE, established, hostile
from evidence_walker import claims_without_evidence
from firstfault.model.diagnosis import SCHEMA, Diagnosis
from firstfault.render.json import schema, to_json
from golden_file import check

EXPORTED = Path(__file__).parents[2] / "docs" / "json-schema" / "firstfault.diagnosis-1.json"


def _answer(name: str) -> dict[str, Any]:
    answer = json.loads(to_json(ALL[name]()))
    assert isinstance(answer, dict)
    return answer


@pytest.mark.parametrize("name", ["established", "undetermined", "hostile"])
def test_golden(name: str) -> None:
    check(f"{name}.json", to_json(ALL[name]()))


@pytest.mark.parametrize("name", ALL)
def test_the_answer_follows_the_exported_schema(name: str) -> None:
    jsonschema.Draft202012Validator(json.loads(EXPORTED.read_bytes())).validate(_answer(name))


@pytest.mark.parametrize("name", ["established", "undetermined", "no-failure", "symmetric"])
def test_the_answer_reads_back_as_the_same_value(name: str) -> None:
    assert msgspec.json.decode(to_json(ALL[name]()), type=Diagnosis) == ALL[name]()


def test_the_exported_schema_is_current() -> None:
    text = json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        EXPORTED.parent.mkdir(parents=True, exist_ok=True)
        EXPORTED.write_text(text, encoding="utf-8")
    assert EXPORTED.read_text(encoding="utf-8") == text, "run with UPDATE_GOLDEN=1; a breaking change needs a new version"


def test_the_schema_refuses_another_version_and_an_unknown_verdict() -> None:
    validator = jsonschema.Draft202012Validator(schema())
    jsonschema.Draft202012Validator.check_schema(schema())
    assert not validator.is_valid({**_answer("established"), "schema": "firstfault.diagnosis/2"})
    assert not validator.is_valid({**_answer("established"), "verdict": "perhaps"})
    assert _answer("established")["schema"] == SCHEMA


def test_the_json_cannot_drive_a_terminal_and_means_the_same() -> None:
    text = to_json(hostile()).decode()
    assert not any(ord(character) < 32 and character != "\n" for character in text)
    assert not any(character in text for character in "\x1b\x9b\u202e\u200b\x7f")
    assert json.loads(text)["cause"] == HOSTILE.replace("\udcff", "\ufffd")


@pytest.mark.parametrize("name", ALL)
def test_no_claim_stands_without_evidence(name: str) -> None:
    assert claims_without_evidence(_answer(name)) == []


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (("initiating", "evidence"), [], "initiating: no evidence"),
        (("reasons", 0, "evidence"), [], "reasons[0]: no evidence"),
        (("collateral", 1, "evidence"), ["e99"], "collateral[1]: e99 is no evidence of this answer"),
        (("evidence", 0, "text"), " ", "e1: no text"),
        (("evidence", 0, "line"), 0, "e1: lines count from 1"),
        (("evidence", 0, "source"), "", "e1: no source"),
        (("timeline", 0, "evidence"), "e99", "timeline[0]: e99 is no evidence of this answer"),
    ],
)
def test_the_walker_finds_what_is_missing(path: tuple[str | int, ...], value: object, problem: str) -> None:
    answer: Any = json.loads(to_json(established()))
    place = answer
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert problem in claims_without_evidence(answer)


def test_the_walker_reads_independent_findings_too() -> None:
    answer = _answer("symmetric")
    answer["others"][0]["evidence"] = []
    answer["others"][0]["initiating"]["evidence"] = []
    assert claims_without_evidence(answer) == ["others[0]: no evidence", "others[0].initiating: no evidence"]
