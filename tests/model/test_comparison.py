"""The contract of a comparison: its exported schema is current, and answers follow it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import msgspec

from firstfault.model.comparison import COMPARISON_SCHEMA, Comparison, Difference, Explanation, SideValue, Subject
from firstfault.model.plan import UnknownFact
from firstfault.render.json import schema, to_json

EXPORTED = Path(__file__).parents[2] / "docs" / "json-schema" / "firstfault.comparison-1.json"

MADE = Comparison(
    a=Subject(name="old", kind="run", ending="ends_well"),
    b=Subject(name="new", kind="run", ending="fails", entry="cuda-oom", verdict="likely"),
    verdict="likely",
    summary="One",
    explanations=(Explanation(verdict="likely", failing="b", text="One.", differences=("package.torch",)),),
    differences=(
        Difference(
            id="package.torch",
            topic="version",
            name="torch",
            a=SideValue(value="2.4.1", where="old/pip.txt:6"),
            b=SideValue(state="absent"),
        ),
    ),
    missing=(UnknownFact(fact="seed", why="It decides.", command="grep seed"),),
    equal=3,
    equal_by_topic={"version": 3},
)


def test_the_exported_schema_is_current() -> None:
    text = json.dumps(schema(Comparison), indent=2, ensure_ascii=False) + "\n"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        EXPORTED.write_text(text, encoding="utf-8")
    assert EXPORTED.read_text(encoding="utf-8") == text, "run with UPDATE_GOLDEN=1; a breaking change needs a new version"


def test_a_comparison_follows_the_exported_schema_and_reads_back() -> None:
    answer = json.loads(to_json(MADE))
    jsonschema.Draft202012Validator(json.loads(EXPORTED.read_bytes())).validate(answer)
    assert answer["schema"] == COMPARISON_SCHEMA
    assert msgspec.json.decode(to_json(MADE), type=Comparison) == MADE
