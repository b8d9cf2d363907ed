"""An OTLP/HTTP request for logs (opentelemetry-proto 1.x) as groups of lines, one group for each stream in it.

Both encodings of the protocol, `application/x-protobuf` and `application/json`, plain or packed with gzip.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
MAX_BODY_BYTES = 16 << 20
MAX_TEXT_CHARS = 65_536
_TEXT_KEYS = ("message", "log", "msg", "body", "MESSAGE")
_FILE_KEYS = ("log.file.path", "log.file.name", "file", "path", "filename")
_PROCESS_KEYS = ("process.pid", "k8s.container.name", "log.iostream", "stream")


class BadRequestError(ValueError):
    """The body is no OTLP request for logs; the text says why."""


class TooLargeError(ValueError):
    """The body, or what it unpacks to, is larger than `MAX_BODY_BYTES`."""


class Group(msgspec.Struct):
    """The lines of one stream in one request, in their order. `labels` are attributes that say whose they are."""

    resource: dict[str, str]
    labels: dict[str, str]
    lines: list[str]
    times_ns: Sequence[int]


def decode(body: bytes, content_type: str, encoding: str = "") -> list[Group]:
    """The groups of a request. BadRequestError and TooLargeError for what is none."""
    data = _unpacked(body, encoding.strip().lower())
    kind = content_type.partition(";")[0].strip().lower()
    if kind == PROTOBUF:
        groups = _grouped(_of_protobuf(data))
        return [Group(one.resource, one.labels, one.lines, _Times(marks)) for one, marks in groups]
    if kind == JSON:
        return [Group(one.resource, one.labels, one.lines, marks) for one, marks in _grouped(_of_json(data))]
    raise BadRequestError(f"content type {kind or 'missing'}: send {PROTOBUF} or {JSON}")


class _Times(Sequence[int]):
    """The times of records, read when they are asked for: of most lines nobody does."""

    def __init__(self, records: list[Any]) -> None:
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [_time_of(record) for record in self._records[index]]
        return _time_of(self._records[index])


_Record = tuple[dict[str, str], dict[str, str], str, Any]
"""Resource and labels, the text, and the time or the record that has it."""


def _unpacked(body: bytes, encoding: str) -> bytes:
    if len(body) > MAX_BODY_BYTES:
        raise TooLargeError(f"{len(body):,} bytes; a request may have {MAX_BODY_BYTES:,}")
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise BadRequestError(f"content encoding {encoding}: send gzip or none")
    unpack = zlib.decompressobj(wbits=31)
    try:
        data = unpack.decompress(body, MAX_BODY_BYTES + 1)
    except zlib.error as error:
        raise BadRequestError(f"is not gzip: {error}") from error
    if len(data) > MAX_BODY_BYTES:
        raise TooLargeError(f"unpacks to more than {MAX_BODY_BYTES:,} bytes")
    if not unpack.eof:
        raise BadRequestError("the gzip stream is cut")
    return data


def _grouped(records: Iterable[_Record]) -> list[tuple[Group, list[Any]]]:
    """The groups, and of each line its time or the record that has it."""
    groups: dict[tuple[int, tuple[tuple[str, str], ...]], tuple[Group, list[Any]]] = {}
    lines: list[str] = []
    marks: list[Any] = []
    resource_before, labels_before = None, None
    for resource, labels, text, mark in records:
        if labels is not labels_before or resource is not resource_before:
            key = (id(resource), tuple(labels.items()))
            group, marks = groups.get(key) or groups.setdefault(key, (Group(resource, labels, [], []), []))
            lines = group.lines
            resource_before, labels_before = resource, labels
        for line in (text,) if "\n" not in text else text.split("\n"):
            lines.append(line if len(line) <= MAX_TEXT_CHARS else line[:MAX_TEXT_CHARS])
            marks.append(mark)
    return list(groups.values())


def _of_protobuf(data: bytes) -> Iterator[_Record]:
    request = ExportLogsServiceRequest()
    try:
        request.ParseFromString(data)
    except DecodeError as error:
        raise BadRequestError(f"is not an ExportLogsServiceRequest: {error}") from error
    for one in request.resource_logs:
        resource = {pair.key: _proto_text(pair.value) for pair in one.resource.attributes}
        for scope in one.scope_logs:
            known, labels = None, {}
            for record in scope.log_records:
                attributes = record.attributes
                # To compare them is cheaper than to read them, and lines of one file follow each other.
                if attributes != known:
                    labels = {key: _proto_text(pair.value) for pair in attributes if _is_label(key := pair.key)}
                    known = attributes
                yield resource, labels, _proto_text(record.body).removesuffix("\n"), record


def _time_of(record: Any) -> int:
    return int(record.time_unix_nano or record.observed_time_unix_nano)


def _proto_text(value: Any) -> str:
    # Most are text: to ask for the kind costs as much again.
    text: str = value.string_value
    if text:
        return text
    kind = value.WhichOneof("value")
    if kind is None:
        return ""
    if kind == "kvlist_value":
        return _of_map({pair.key: _proto_text(pair.value) for pair in value.kvlist_value.values})
    if kind == "array_value":
        return " ".join(_proto_text(item) for item in value.array_value.values)
    found = getattr(value, kind)
    return found.decode("utf-8", "replace") if isinstance(found, bytes) else _plain(found)


class _Value(msgspec.Struct, rename="camel", frozen=True):
    string_value: str | None = None
    int_value: int | str | None = None
    double_value: float | str | None = None
    bool_value: bool | None = None
    bytes_value: str | None = None
    array_value: _Array | None = None
    kvlist_value: _Map | None = None

    def text(self) -> str:
        if self.string_value is not None:
            return self.string_value
        if self.kvlist_value is not None:
            return _of_map({pair.key: pair.value.text() for pair in self.kvlist_value.values})
        if self.array_value is not None:
            return " ".join(item.text() for item in self.array_value.values)
        plain = (self.int_value, self.double_value, self.bool_value, self.bytes_value)
        return next((_plain(found) for found in plain if found is not None), "")


class _Array(msgspec.Struct, frozen=True):
    values: list[_Value] = []


class _Pair(msgspec.Struct, frozen=True):
    key: str
    value: _Value = _Value()


class _Map(msgspec.Struct, frozen=True):
    values: list[_Pair] = []


class _LogRecord(msgspec.Struct, rename="camel", frozen=True):
    time_unix_nano: int | str = 0
    observed_time_unix_nano: int | str = 0
    body: _Value = _Value()
    attributes: list[_Pair] = []


class _Scope(msgspec.Struct, rename="camel", frozen=True):
    log_records: list[_LogRecord] = []


class _Resource(msgspec.Struct, frozen=True):
    attributes: list[_Pair] = []


class _ResourceLogs(msgspec.Struct, rename="camel", frozen=True):
    resource: _Resource = _Resource()
    scope_logs: list[_Scope] = []


class _Request(msgspec.Struct, rename="camel", frozen=True):
    resource_logs: list[_ResourceLogs] = []


_JSON = msgspec.json.Decoder(_Request)


def _of_json(data: bytes) -> Iterator[_Record]:
    try:
        request = _JSON.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRequestError(f"is not OTLP in JSON: {error}") from error
    for one in request.resource_logs:
        resource = {pair.key: pair.value.text() for pair in one.resource.attributes}
        for scope in one.scope_logs:
            for record in scope.log_records:
                labels = {pair.key: pair.value.text() for pair in record.attributes if _is_label(pair.key)}
                time_ns = _whole(record.time_unix_nano) or _whole(record.observed_time_unix_nano)
                yield resource, labels, record.body.text().removesuffix("\n"), time_ns


@lru_cache(maxsize=1024)
def _is_label(key: str) -> bool:
    return key in _FILE_KEYS or key in _PROCESS_KEYS or "rank" in key.lower()


def _of_map(values: dict[str, str]) -> str:
    for key in _TEXT_KEYS:
        if key in values:
            return values[key]
    return " ".join(f"{key}={value}" for key, value in values.items())


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _whole(value: int | str) -> int:
    try:
        found = int(value)
    except ValueError:
        return 0
    # The protocol has 64 bits for it.
    return found if 0 <= found < 1 << 64 else 0
