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
from opentelemetry.proto.logs.v1.logs_pb2 import ScopeLogs

from firstfault.server.otlp.columns import columns, scopes

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
    times_ns: list[int]


def decode(body: bytes, content_type: str, encoding: str = "") -> list[Group]:
    """The groups of a request. BadRequestError and TooLargeError for what is none."""
    data = _unpacked(body, encoding.strip().lower())
    kind = content_type.partition(";")[0].strip().lower()
    if kind == PROTOBUF:
        return _grouped(_of_protobuf(data))
    if kind == JSON:
        return _grouped(_of_json(data))
    raise BadRequestError(f"content type {kind or 'missing'}: send {PROTOBUF} or {JSON}")


_Records = tuple[dict[str, str], dict[str, str], Sequence[str], Sequence[int]]
"""Resource and labels, and of records that follow each other and share them the texts and times."""


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


def _grouped(found: Iterable[_Records]) -> list[Group]:
    groups: dict[tuple[int, tuple[tuple[str, str], ...]], Group] = {}
    for resource, labels, texts, times_ns in found:
        group = groups.setdefault((id(resource), tuple(labels.items())), Group(resource, labels, [], []))
        if "\n" not in "".join(texts) and max(map(len, texts)) <= MAX_TEXT_CHARS:
            group.lines += texts
            group.times_ns += times_ns
            continue
        for text, time_ns in zip(texts, times_ns, strict=True):
            for line in text.removesuffix("\n").split("\n"):
                group.lines.append(line[:MAX_TEXT_CHARS])
                group.times_ns.append(time_ns)
    return list(groups.values())


def _of_protobuf(data: bytes) -> Iterator[_Records]:
    try:
        for told, encoded in scopes(data):
            resource = {pair.key: _proto_text(pair.value) for pair in told.attributes}
            for scope in encoded:
                yield from _of_scope(resource, scope)
    except DecodeError as error:
        raise BadRequestError(f"is not an ExportLogsServiceRequest: {error}") from error


def _of_scope(resource: dict[str, str], scope: bytes) -> Iterator[_Records]:
    if alike := columns(scope, _is_label):
        labels = {pair.key: _proto_text(pair.value) for pair in alike.shared}
        yield resource, labels, alike.texts, alike.times_ns
        return
    for record in ScopeLogs.FromString(scope).log_records:
        labels = {pair.key: _proto_text(pair.value) for pair in record.attributes if _is_label(pair.key)}
        time_ns = record.time_unix_nano or record.observed_time_unix_nano
        yield resource, labels, (_proto_text(record.body),), (time_ns,)


def _proto_text(value: Any) -> str:
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


def _of_json(data: bytes) -> Iterator[_Records]:
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
                yield resource, labels, (record.body.text(),), (time_ns,)


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
