"""Reads TOML tables by typed key: a missing, unknown or mistyped key is noted with its file and line.

`tomllib` gives no lines, so they are found again in the text: the n-th header of that name, then the key below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from firstfault.knowledge.problems import Problems
from firstfault.lazy_pattern import lazy_pattern

_HEADER = lazy_pattern(r"\s*\[\[?\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?\Z")
_AT_LINE = lazy_pattern(r"\(at line (\d+), column (\d+)\)")


class Document:
    """One TOML text and its tables. `first_line` is the line of the file in which the text begins."""

    def __init__(self, text: str, file: str, problems: Problems, *, first_line: int = 1) -> None:
        self.file = file
        self.problems = problems
        self._first_line = first_line
        self._lines = text.splitlines()
        self._headers = [(number, found[1]) for number, line in enumerate(self._lines) if (found := _HEADER.match(line))]
        self.values = self._parse(text)

    def _parse(self, text: str) -> dict[str, Any]:
        import tomllib

        try:
            return tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            found = _AT_LINE.search(str(error))
            line = self._first_line + int(found[1]) - 1 if found else self._first_line
            self.problems.add(f"{self.file}:{line}", f"no valid TOML: {error}")
            return {}

    def root(self) -> Table:
        """The keys that stand before the first header."""
        end = self._headers[0][0] if self._headers else len(self._lines)
        return Table(self, self.values, 0, end, what="the file")

    def tables(self, name: str) -> list[Table]:
        """The tables `[[name]]`, in order."""
        found = self.values.get(name, [])
        if isinstance(found, dict) or not all(isinstance(item, dict) for item in found):
            self.problems.add(f"{self.file}:{self._first_line}", f"`{name}` must be an array of tables: [[{name}]]")
            return []
        headers = [number for number, header in self._headers if header == name]
        if len(headers) != len(found):
            headers = [0] * len(found)
        return [self._table(values, number, f"[[{name}]]") for values, number in zip(found, headers, strict=True)]

    def table(self, name: str, values: Mapping[str, Any]) -> Table:
        """The table `[name]`, whose values were found already."""
        number = next((number for number, header in self._headers if header == name), 0)
        return self._table(values, number, f"[{name}]")

    def _table(self, values: Mapping[str, Any], number: int, what: str) -> Table:
        end = next((other for other, _ in self._headers if other > number), len(self._lines))
        return Table(self, values, number, end, what=what)

    def where(self, number: int) -> str:
        """`file:line` of the line with this index in the text."""
        return f"{self.file}:{self._first_line + number}"

    def line_of(self, key: str, start: int, end: int) -> int:
        """Index of the line between `start` and `end` that sets `key`, or `start`."""
        pattern = re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*(?:=|\.)")
        return next((number for number in range(start, end) if pattern.match(self._lines[number])), start)


class Table:
    """One table, read key by key; `finish` notes the keys that nobody asked for."""

    def __init__(self, document: Document, values: Mapping[str, Any], start: int, end: int, *, what: str) -> None:
        self.document = document
        self.values = values
        self._start = start
        self._end = end
        self._what = what
        self._asked: set[str] = set()

    def below(self, values: Mapping[str, Any], what: str) -> Table:
        """A table that stands inside this one; its errors are noted at this one's line."""
        return Table(self.document, values, self._start, self._start, what=what)

    def where(self, key: str = "") -> str:
        """`file:line` of a key, or of the table."""
        return self.document.where(self.document.line_of(key, self._start, self._end) if key else self._start)

    def note(self, message: str, key: str = "") -> None:
        """Note an error at a key, or at the table."""
        self.document.problems.add(self.where(key), message)

    def raw(self, key: str, expected: type | tuple[type, ...], name: str, default: Any = None) -> Any:
        """The value if it has the expected type; `default` if it is absent, or wrong and therefore noted."""
        self._asked.add(key)
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, expected) or (isinstance(value, bool) and expected in (int, (int, float))):
            self.note(f"`{key}` must be {name}", key)
            return default
        return value

    def text(self, key: str, default: str = "") -> str:
        """A string."""
        found: str = self.raw(key, str, "a string", default)
        return found

    def required_text(self, key: str) -> str:
        """A string that must be there and not empty."""
        found = self.text(key)
        if not found.strip() and (key not in self.values or isinstance(self.values[key], str)):
            self.note(f"{self._what} lacks `{key}`", key)
        return found

    def flag(self, key: str, default: bool = False) -> bool:
        """True or false."""
        found: bool = self.raw(key, bool, "true or false", default)
        return found

    def integer(self, key: str, default: int) -> int:
        """A whole number."""
        found: int = self.raw(key, int, "a whole number", default)
        return found

    def choice(self, key: str, allowed: Iterable[str], default: str | None = None) -> str:
        """One of the allowed words; without a default it must be there."""
        words = tuple(allowed)
        value = self.required_text(key) if default is None else self.text(key, default)
        if value and value not in words:
            self.note(f"`{key}` is {value!r}, must be one of: {', '.join(words)}", key)
        return value if value in words else default if default is not None else words[0]

    def items(self, key: str, expected: type | tuple[type, ...], name: str) -> tuple[Any, ...]:
        """The items of an array, each of the expected type."""
        found: list[Any] = self.raw(key, list, f"an array of {name}", [])
        if not all(isinstance(item, expected) for item in found):
            self.note(f"`{key}` must be an array of {name}", key)
            return ()
        return tuple(found)

    def texts(self, key: str) -> tuple[str, ...]:
        """An array of strings."""
        return self.items(key, str, "strings")

    def mapping(self, key: str) -> dict[str, Any]:
        """An inline table or a table below this one."""
        found: dict[str, Any] = self.raw(key, dict, "a table", {})
        return found

    def finish(self) -> None:
        """Note every key that is not part of the format."""
        for key in self.values:
            if key not in self._asked:
                self.note(f"unknown key `{key}` in {self._what}", key)
