from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import msgspec

from firstfault.memory.closed_form import forecast
from firstfault.memory.fit import with_changes
from firstfault.memory.models import bundled
from firstfault.memory.plan import Device, MemoryPlan
from firstfault.model.forecast import FORECAST_SCHEMA, Forecast
from firstfault.render.json import schema, to_json

EXPORTED = Path(__file__).parents[2] / "docs" / "json-schema" / "firstfault.forecast-1.json"


def test_the_exported_schema_is_current() -> None:
    text = json.dumps(schema(Forecast), indent=2, ensure_ascii=False) + "\n"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        EXPORTED.write_text(text, encoding="utf-8")
    assert EXPORTED.read_text(encoding="utf-8") == text, "run with UPDATE_GOLDEN=1; a breaking change needs a new version"


def test_a_forecast_follows_the_exported_schema_and_reads_back() -> None:
    validator = jsonschema.Draft202012Validator(json.loads(EXPORTED.read_bytes()))
    plan = MemoryPlan(config=bundled()["Qwen/Qwen3-0.6B"], micro_batch=8, device=Device(memory_bytes=12 << 30))
    made = with_changes(plan, forecast(plan), fit=True)
    answer = json.loads(to_json(made))
    validator.validate(answer)
    assert answer["schema"] == FORECAST_SCHEMA
    assert msgspec.json.decode(to_json(made), type=Forecast) == made
    assert not validator.is_valid({**answer, "schema": "firstfault.forecast/2"})
