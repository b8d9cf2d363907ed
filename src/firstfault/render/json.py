"""An answer (a diagnosis, a plan, ...) as JSON, and the schema of that JSON."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.diagnosis import Diagnosis

# The same value in JSON, but a terminal that shows the file cannot be driven by it.
_UNSAFE = lazy_pattern("[\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]")
_SURROGATE = lazy_pattern("[\ud800-\udfff]")


def to_json(answer: msgspec.Struct) -> bytes:
    """One indented JSON object in UTF-8, ended by a line break; names of files that are not UTF-8 carry U+FFFD."""
    try:
        compact = msgspec.json.encode(answer)
    except UnicodeEncodeError:
        compact = msgspec.json.encode(_encodable(msgspec.to_builtins(answer)))
    text = msgspec.json.format(compact, indent=2).decode()
    return _UNSAFE.sub(_escape, text).encode() + b"\n"


def schema(of: type[msgspec.Struct] = Diagnosis) -> dict[str, Any]:
    """The JSON Schema (2020-12) of `to_json` for answers of the type `of`, which names itself in its field `schema`."""
    name = next(field.default for field in msgspec.structs.fields(of) if field.name == "schema")
    result = msgspec.json.schema(of)
    result["$defs"][of.__name__]["properties"]["schema"] = {"const": name}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name, **result}


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encodable(item) for item in value]
    return value


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
