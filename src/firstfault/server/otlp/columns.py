"""Log records of one scope read as columns: most senders' records are alike, and to read each alone costs six times as much.

The wire format has it that a message field which occurs again is merged into what stood there: repeated parts are appended
(protobuf.dev, "Last One Wins"). A schema in which the records are *one* message therefore gives all bodies as one list, all
times as another. Which record a value belongs to is lost; where that matters, `columns` gives nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

_Field = descriptor_pb2.FieldDescriptorProto
_FILE = "firstfault/otlp_columns.proto"
# Of opentelemetry-proto 1.x: ExportLogsServiceRequest.resource_logs = 1; ResourceLogs.resource = 1, scope_logs = 2;
# ScopeLogs.log_records = 2; LogRecord.time_unix_nano = 1, body = 5, attributes = 6, observed_time_unix_nano = 11;
# AnyValue.string_value = 1.
_MESSAGES = {
    "Request": [("resource_logs", 1, _Field.TYPE_MESSAGE, True, ".columns.ResourceLogs")],
    "ResourceLogs": [("resource", 1, _Field.TYPE_BYTES, False, ""), ("scope_logs", 2, _Field.TYPE_BYTES, True, "")],
    "Scope": [("records", 2, _Field.TYPE_BYTES, True, "")],
    "Scopes": [("merged", 2, _Field.TYPE_MESSAGE, False, ".columns.Record")],
    "Record": [
        ("times", 1, _Field.TYPE_FIXED64, True, ""),
        ("observed", 11, _Field.TYPE_FIXED64, True, ""),
        ("body", 5, _Field.TYPE_MESSAGE, False, ".columns.Text"),
        ("attributes", 6, _Field.TYPE_BYTES, True, ""),
    ],
    "Text": [("texts", 1, _Field.TYPE_STRING, True, "")],
}


def scopes(request: bytes) -> Iterator[tuple[Resource, Sequence[bytes]]]:
    """The resources of a request, each with its ScopeLogs still encoded. DecodeError if the bytes are no request."""
    for one in _Request.FromString(request).resource_logs:
        yield Resource.FromString(one.resource), one.scope_logs


class Columns(msgspec.Struct):
    """The texts and times of the records in their order, and the attributes that every one of them has."""

    texts: list[str]
    times_ns: list[int]
    shared: list[KeyValue]


def columns(scope: bytes, is_label: Callable[[str], bool]) -> Columns | None:
    """The records of an encoded ScopeLogs; None if they differ in labels or some have no text or time of the usual kind.

    `is_label(key)` tells which attributes matter. DecodeError if the bytes are no ScopeLogs.
    """
    count = len(_Scope.FromString(scope).records)
    merged = _Scopes.FromString(scope).merged
    texts = list(merged.body.texts)
    times = list(merged.times) or list(merged.observed)
    if not count or len(texts) != count or len(times) != count or 0 in times:
        return None
    shared = []
    # A record has a key once: an attribute that is there as often as records are is one of each.
    for raw, times_seen in Counter(merged.attributes).items():
        pair = KeyValue.FromString(raw)
        if is_label(pair.key):
            if times_seen != count:
                return None
            shared.append(pair)
    return Columns(texts, times, shared)


def _classes(*names: str) -> list[Any]:
    file = descriptor_pb2.FileDescriptorProto(name=_FILE, package="columns", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated, of in fields:
            label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
            message.field.add(name=field, number=number, type=kind, label=label, type_name=of or None)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName(f"columns.{name}")) for name in names]


_Request, _Scope, _Scopes = _classes("Request", "Scope", "Scopes")
