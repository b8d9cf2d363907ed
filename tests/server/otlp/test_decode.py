"""Both encodings of OTLP give the same groups of lines; what is no OTLP is refused with a reason."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress

import pytest
from google.protobuf.json_format import MessageToJson
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from firstfault.server.otlp.decode import JSON, MAX_BODY_BYTES, PROTOBUF, BadRequestError, TooLargeError, decode


def request(*files: tuple[str, list[str]]) -> ExportLogsServiceRequest:
    made = ExportLogsServiceRequest()
    logs = made.resource_logs.add()
    host = logs.resource.attributes.add()
    host.key, host.value.string_value = "host.name", "node-1"
    records = logs.scope_logs.add().log_records
    for name, lines in files:
        for number, line in enumerate(lines):
            record = records.add()
            record.time_unix_nano = 10 + number
            record.body.string_value = line
            label = record.attributes.add()
            label.key, label.value.string_value = "log.file.name", name
    return made


def as_plain(groups) -> list[tuple[dict[str, str], dict[str, str], list[str], list[int]]]:
    return [(group.resource, group.labels, group.lines, list(group.times_ns)) for group in groups]


def test_records_are_grouped_by_their_file_in_both_encodings() -> None:
    made = request(("a.log", ["one", "two\nthree\n"]), ("b.log", ["four"]), ("a.log", ["five"]))
    expected = [
        ({"host.name": "node-1"}, {"log.file.name": "a.log"}, ["one", "two", "three", "five"], [10, 11, 11, 10]),
        ({"host.name": "node-1"}, {"log.file.name": "b.log"}, ["four"], [10]),
    ]
    assert as_plain(decode(made.SerializeToString(), PROTOBUF)) == expected
    assert as_plain(decode(MessageToJson(made).encode(), f"{JSON}; charset=utf-8")) == expected
    assert as_plain(decode(gzip.compress(made.SerializeToString()), PROTOBUF, "gzip")) == expected


def test_bodies_that_are_maps_say_their_message() -> None:
    body = {
        "kvlistValue": {
            "values": [{"key": "stream", "value": {"stringValue": "stderr"}}, {"key": "log", "value": {"stringValue": "boom"}}]
        }
    }
    text = json.dumps(
        {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": body, "unknown": 1}, {"body": {"intValue": "7"}}, {}]}]}]}
    )
    (group,) = decode(text.encode(), JSON)
    assert group.lines == ["boom", "7", ""]


@pytest.mark.parametrize(
    ("body", "kind", "encoding", "error"),
    [
        (b"\xff\xff\xff", PROTOBUF, "", BadRequestError),
        (b"[1, 2]", JSON, "", BadRequestError),
        (b"[" * 100_000, JSON, "", BadRequestError),
        (b"{}", "text/plain", "", BadRequestError),
        (b"{}", "", "", BadRequestError),
        (b"{}", JSON, "br", BadRequestError),
        (b"{}", JSON, "gzip", BadRequestError),
        (gzip.compress(b"{}" * 999)[:-9], JSON, "gzip", BadRequestError),
        (gzip.compress(bytes(MAX_BODY_BYTES + 1)), PROTOBUF, "gzip", TooLargeError),
        (bytes(MAX_BODY_BYTES + 1), PROTOBUF, "", TooLargeError),
    ],
)
def test_what_is_no_request_is_refused(body: bytes, kind: str, encoding: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        decode(body, kind, encoding)


@given(st.binary(max_size=300), st.sampled_from([PROTOBUF, JSON]))
def test_no_bytes_do_harm(body: bytes, kind: str) -> None:
    with suppress(BadRequestError):
        decode(body, kind)
