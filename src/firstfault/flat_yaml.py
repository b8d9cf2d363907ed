"""Configurations that are nothing but lines of `key: value`: read without a YAML parser, whose import alone takes 15 ms."""

from __future__ import annotations

from typing import NamedTuple

from firstfault.lazy_pattern import lazy_pattern

MAX_CHARS = 16 << 10
_ROW = lazy_pattern(
    r"(?P<indent> *)(?P<key>[A-Za-z_][A-Za-z0-9_]{0,99}):(?: +(?:(?P<word>[A-Za-z_/][A-Za-z0-9_./-]{0,299})"
    r"|(?P<whole>-?(?:0|[1-9][0-9]{0,17}))|(?P<decimal>-?(?:0|[1-9][0-9]{0,14})\.[0-9]{1,15})"
    r"|'(?P<single>[ -&(-~]{0,300})'|\"(?P<double>[ !#-\[\]-~]{0,300})\"|(?P<nothing>\{\}|\[\])))? *"
)
_COMMENT = lazy_pattern(r" *(?:#[ -~]*)?")
# The words that YAML 1.1 does not take for text.
_WORDS: dict[str, bool | None] = {
    **{form: True for word in ("yes", "true", "on") for form in (word, word.capitalize(), word.upper())},
    **{form: False for word in ("no", "false", "off") for form in (word, word.capitalize(), word.upper())},
    **dict.fromkeys(("null", "Null", "NULL")),
}

Value = bool | int | float | str | dict[str, object] | list[object] | None


class Row(NamedTuple):
    """One key with its value; a key below another one has that one as its `parent`. `number` counts lines from 0."""

    parent: str | None
    key: str
    value: Value
    number: int


def flat_rows(text: str) -> list[Row] | None:
    """The rows of a mapping whose values are plain or quoted words and numbers, at most one level below its keys.

    A key with rows below it comes before them, with an empty mapping. None for anything else: then a parser has to tell.
    """
    if len(text) > MAX_CHARS:
        return None
    rows: dict[tuple[str | None, str], Row] = {}
    parent: str | None = None
    depth = 0
    for number, line in enumerate(text.split("\n")):
        found = _ROW.fullmatch(line)
        if found is None:
            if _COMMENT.fullmatch(line):
                continue
            return None
        key, indent = found["key"], len(found["indent"])
        if indent and not depth and parent is not None:
            depth = indent
            rows[None, parent] = rows[None, parent]._replace(value={})
        if indent and (parent is None or indent != depth or found.lastgroup == "key"):
            return None
        if not indent:
            # Only a key without a value of its own may have rows below it.
            parent, depth = key if found.lastgroup == "key" else None, 0
        at = (parent if indent else None, key)
        if key in _WORDS or at in rows:
            return None
        rows[at] = Row(*at, _value(found.lastgroup or "", found[found.lastgroup or 0]), number)
    return list(rows.values()) or None


def _value(kind: str, text: str) -> Value:
    if kind == "word":
        return _WORDS.get(text, text)
    if kind == "whole":
        return int(text)
    if kind == "decimal":
        return float(text)
    if kind == "nothing":
        return {} if text == "{}" else []
    return None if kind == "key" else text
