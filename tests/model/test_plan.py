from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import msgspec

from firstfault.model.plan import PLAN_SCHEMA, Origin, Plan, PlannedError, Process, Rank0
from firstfault.render.json import schema, to_json

EXPORTED = Path(__file__).parents[2] / "docs" / "json-schema" / "firstfault.plan-1.json"

STARTED = Plan(
    tool="accelerate",
    launcher="simple_launcher",
    nproc_per_node=1,
    processes=(Process(visible=("0", "1"), device="cuda:0"),),
    rank0=Rank0(n_gpu=2, wraps_in_DataParallel=True),
    origins=(Origin(name="num_processes", value=1, source="file", where="default.yaml:3"),),
)
STOPPED = Plan(
    tool="accelerate", error=PlannedError(type="ValueError", message="no"), variants={0: Plan(gpus=0), 2: Plan(gpus=2)}
)


def test_the_exported_schema_is_current() -> None:
    text = json.dumps(schema(Plan), indent=2, ensure_ascii=False) + "\n"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        EXPORTED.write_text(text, encoding="utf-8")
    assert EXPORTED.read_text(encoding="utf-8") == text, "run with UPDATE_GOLDEN=1; a breaking change needs a new version"


def test_a_plan_follows_the_exported_schema_and_reads_back() -> None:
    validator = jsonschema.Draft202012Validator(json.loads(EXPORTED.read_bytes()))
    for plan in (STARTED, STOPPED):
        answer = json.loads(to_json(plan))
        validator.validate(answer)
        assert answer["schema"] == PLAN_SCHEMA
        assert msgspec.json.decode(to_json(plan), type=Plan) == plan
    assert not validator.is_valid({**answer, "schema": "firstfault.plan/2"})
