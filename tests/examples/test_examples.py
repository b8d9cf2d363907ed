"""The bundled runs are diagnosed as `examples/index.toml` says; the index itself is no input of the product."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import pytest

from evidence_walker import claims_without_evidence
from firstfault.engine.investigate import investigate
from firstfault.ingest.bundle import gather
from firstfault.knowledge.pack import load_pack
from firstfault.model.diagnosis import Diagnosis

EXAMPLES = Path(__file__).parents[2] / "examples"
INDEX = tomllib.loads((EXAMPLES / "index.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def answers() -> dict[str, Diagnosis]:
    pack = load_pack()
    return {name: investigate(gather([EXAMPLES / name], pack), pack) for name in INDEX}


def test_every_folder_is_listed() -> None:
    assert {path.name for path in EXAMPLES.iterdir() if path.is_dir()} == set(INDEX)


@pytest.mark.parametrize("name", sorted(INDEX))
def test_example_is_diagnosed(name: str, answers: dict[str, Diagnosis]) -> None:
    wanted, answer = INDEX[name], answers[name]
    assert answer.entry == wanted["entry"]
    assert answer.verdict in wanted["verdicts"]
    if "rank" in wanted:
        assert answer.initiating is not None
        assert str(answer.initiating.rank).lower() == str(wanted["rank"])
    assert not claims_without_evidence(msgspec.json.decode(msgspec.json.encode(answer)))


@pytest.mark.parametrize("name", sorted(INDEX))
def test_an_undecided_example_asks_one_question_with_a_command(name: str, answers: dict[str, Diagnosis]) -> None:
    answer = answers[name]
    if answer.verdict == "undetermined":
        assert answer.missing
        assert answer.missing[0].command
