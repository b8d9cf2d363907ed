from __future__ import annotations

import io
import json
import os
import pickle
from pathlib import Path

import jsonschema
import msgspec
import pytest

from firstfault.ingest.memory_snapshot_reading import read_snapshot
from firstfault.memory.snapshot import report_of
from firstfault.model.memory_report import MEMORY_SCHEMA, MemoryReport
from firstfault.render.json import schema, to_json
from memory_snapshots import MIB, Device, snapshot, train

EXPORTED = Path(__file__).parents[2] / "docs" / "json-schema" / "firstfault.memory-1.json"


def reports() -> list[MemoryReport]:
    full = Device(0, 900 * MIB)
    with pytest.raises(MemoryError):
        train(full, 9, leak=30 * MIB)
    off = Device(1)
    off.recording = False
    train(off, 1)
    return [report_of(read_snapshot(io.BytesIO(pickle.dumps(value)).read), "a.pickle") for value in (snapshot(full, off), [])]


def test_the_exported_schema_is_current() -> None:
    text = json.dumps(schema(MemoryReport), indent=2, ensure_ascii=False) + "\n"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        EXPORTED.write_text(text, encoding="utf-8")
    assert EXPORTED.read_text(encoding="utf-8") == text, "run with UPDATE_GOLDEN=1; a breaking change needs a new version"


def test_a_report_follows_the_exported_schema_and_reads_back() -> None:
    validator = jsonschema.Draft202012Validator(json.loads(EXPORTED.read_bytes()))
    for report in reports():
        answer = json.loads(to_json(report))
        validator.validate(answer)
        assert answer["schema"] == MEMORY_SCHEMA
        assert msgspec.json.decode(to_json(report), type=MemoryReport) == report
