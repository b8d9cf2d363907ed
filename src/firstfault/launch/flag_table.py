"""The options of a launcher as a table, and the values that they end up with."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from firstfault.launch.request import Version
from firstfault.launch.values import Given

Kind = Literal["on", "off", "append", "int", "float", "text", "bool", "truth", "truths", "list"]

_TRUE = ("y", "yes", "t", "true", "on", "1")
_FALSE = ("n", "no", "f", "false", "off", "0")


class Flag(msgspec.Struct, frozen=True, kw_only=True):
    """One option. `since` and `until` (not included) bound the versions of the launcher that have it in this form."""

    names: tuple[str, ...]
    kind: Kind
    default: Any = None
    choices: tuple[str, ...] | str = ()
    dest: str | None = None
    since: Version = ()
    until: Version = ()

    def holds(self, version: Version) -> bool:
        """True if the version has the option in this form."""
        return version >= self.since and (not self.until or version < self.until)

    @property
    def name(self) -> str:
        """The attribute that the value is kept under."""
        first = self.dest or next((name for name in self.names if name.startswith("--")), self.names[0])
        return first.lstrip("-").replace("-", "_")


class Arguments:
    """The parsed options by name, each with its origin; `named` are those that stood on the command line.

    A name that does not exist fails as argparse's own namespace does: launchers run into that with some combinations.
    """

    def __init__(self, given: dict[str, Given], named: set[str]) -> None:
        self.given = given
        self.named = named

    def value(self, name: str) -> Any:
        """The value of an option."""
        if name not in self.given:
            raise AttributeError(f"'Namespace' object has no attribute {name!r}")
        return self.given[name].value

    def get(self, name: str, default: object = None) -> Any:
        """The value of an option, or the default where it does not exist."""
        given = self.given.get(name)
        return default if given is None else given.value

    def put(self, name: str, value: object, *, where: str) -> None:
        """Set a value that follows from others; `where` says from what."""
        self.given[name] = Given(value, "derived", where)


def str_to_bool(text: str) -> int:
    """1 or 0 for the words that launchers take as true and false; ValueError for others."""
    word = text.lower()
    if word not in _TRUE + _FALSE:
        raise ValueError(f"invalid truth value {word}")
    return int(word in _TRUE)
