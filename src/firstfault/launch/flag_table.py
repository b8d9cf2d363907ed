"""Command lines of launchers that use argparse, read by argparse itself from a table of options."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from firstfault.launch.request import Version
from firstfault.launch.usage import Parser, Stop, Take
from firstfault.launch.values import Given
from firstfault.model.plan import PlannedError

Kind = Literal["on", "off", "append", "int", "float", "text", "bool", "truth", "truths"]

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
        return self.dest or next((name for name in self.names if name.startswith("--")), self.names[0]).lstrip("-")


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


def parse(
    words: Sequence[str],
    table: Sequence[Flag],
    *,
    prog: str,
    top: str | None = None,
    hyphens: bool = True,
    abbrev: bool = False,
) -> Arguments:
    """The options of `words` and what follows them, `training_script` with its arguments; raises Stop.

    `hyphens` lets `--num-processes` stand for `--num_processes`. Words that are no option are refused by the parser `top`.
    """
    parser = Parser(prog)
    parser.allow_abbrev = False
    for flag in table:
        _add(parser, flag, hyphens)
    parser.add_argument("training_script", action=Take)
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER, action=Take)
    space, unknown = parser.parse_known_args(list(words))
    if unknown:
        message = f"{top or prog}: error: unrecognized arguments: {' '.join(unknown)}"
        raise Stop(PlannedError(type="SystemExit", message=message, code=2))
    named = parser.taken
    given = {
        name: Given(value, "flag", named[name]) if name in named else Given(value, "default", "built in")
        for name, value in vars(space).items()
    }
    given["training_script"] = Given(space.training_script, "flag", "command line")
    given["training_script_args"] = Given(space.training_script_args, "flag", "command line")
    return Arguments(given, set(named))


def str_to_bool(text: str) -> int:
    """1 or 0 for the words that launchers take as true and false; ValueError for others."""
    word = text.lower()
    if word not in _TRUE + _FALSE:
        raise ValueError(f"invalid truth value {word}")
    return int(word in _TRUE)


def _truths(text: str) -> tuple[int, ...]:
    return tuple(str_to_bool(part) for part in text.split(","))


_TYPES: dict[str, Any] = {"int": int, "float": float, "text": str, "bool": bool, "truth": str_to_bool, "truths": _truths}


def _add(parser: argparse.ArgumentParser, flag: Flag, hyphens: bool) -> None:
    names: list[str] = []
    for name in flag.names:
        names.append(name)
        if hyphens and "_" in name[2:]:
            names.append(name.replace("_", "-"))
    if flag.kind in ("on", "off"):
        parser.add_argument(*names, dest=flag.name, action=Take if flag.kind == "on" else _Off, nargs=0, default=False)
        return
    if flag.kind == "append":
        parser.add_argument(*names, dest=flag.name, action="append", type=str)
        return
    parser.add_argument(
        *names,
        dest=flag.name,
        action=Take,
        type=_TYPES[flag.kind],
        default=flag.default,
        choices=list(flag.choices) or None,
    )


class _Off(Take):
    """Stores False."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        super().__call__(parser, namespace, values, option_string)
        setattr(namespace, self.dest, False)
