"""Records read as columns give what each record read alone gives, or nothing."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ScopeLogs

from firstfault.server.otlp.columns import columns, scopes

TEXTS = st.text(max_size=200)
RECORDS = st.fixed_dictionaries(
    {
        "time": st.sampled_from([0, 7, 1 << 63]),
        "observed": st.sampled_from([0, 9]),
        "body": st.one_of(TEXTS, st.none(), st.integers(0, 9)),
        "file": st.sampled_from(["a.log", "b.log", None]),
        "step": st.one_of(st.integers(0, 3), st.none()),
        "severity": st.sampled_from(["", "INFO"]),
    }
)


def record(values: dict[str, Any]) -> LogRecord:
    made = LogRecord(
        time_unix_nano=values["time"], observed_time_unix_nano=values["observed"], severity_text=values["severity"]
    )
    if isinstance(values["body"], str):
        made.body.string_value = values["body"]
    elif values["body"] is not None:
        made.body.int_value = values["body"]
    if values["step"] is not None:
        made.attributes.add(key="step").value.int_value = values["step"]
    if values["file"] is not None:
        made.attributes.add(key="file").value.string_value = values["file"]
    return made


def is_label(key: str) -> bool:
    return key == "file"


@given(st.lists(RECORDS, max_size=6))
def test_columns_are_what_the_records_say(values: list[dict[str, Any]]) -> None:
    scope = ScopeLogs(log_records=[record(one) for one in values])
    found = columns(scope.SerializeToString(), is_label)
    if found is None:
        return
    assert found.texts == [one.body.string_value for one in scope.log_records]
    assert all(one.body.WhichOneof("value") == "string_value" for one in scope.log_records)
    assert found.times_ns == [one.time_unix_nano or one.observed_time_unix_nano for one in scope.log_records]
    for one in scope.log_records:
        assert [pair for pair in one.attributes if is_label(pair.key)] == found.shared


@given(RECORDS.filter(lambda one: isinstance(one["body"], str) and (one["time"] or one["observed"])), st.integers(1, 5))
def test_equal_records_are_read_as_columns(values: dict[str, Any], count: int) -> None:
    scope = ScopeLogs(log_records=[record({**values, "step": number}) for number in range(count)])
    found = columns(scope.SerializeToString(), is_label)
    assert found is not None
    assert found.texts == [values["body"]] * count


def test_what_is_no_scope_is_an_error() -> None:
    with pytest.raises(DecodeError):
        columns(b"\xff\xff\xff", is_label)
    with pytest.raises(DecodeError):
        list(scopes(b"\xff\xff\xff"))
