"""A command line read as argparse reads it, where an error is a value and not the end of the program."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from firstfault.launch.expansion import holds_unknown
from firstfault.model.plan import PlannedError


class Stop(Exception):
    """The launcher ends here, before it starts anything; `error` says how."""

    def __init__(self, error: PlannedError) -> None:
        super().__init__(error.message)
        self.error = error


def stop(kind: str, message: str) -> Stop:
    """The exception of this type and text, as the launcher raises it."""
    return Stop(PlannedError(type=kind, message=message))


class Parser(argparse.ArgumentParser):
    """A parser that raises `Stop` where argparse prints and exits; `taken` holds the spelling of every option it met."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog=prog, usage="")
        self.taken: dict[str, str] = {}

    def error(self, message: str) -> NoReturn:
        """A usage error: exit code 2 and the line that argparse prints below the usage."""
        raise Stop(PlannedError(type="SystemExit", message=f"{self.prog}: error: {message}", code=2))

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """The end behind `--help`: nothing starts."""
        raise Stop(PlannedError(type="SystemExit", message=message or "prints its usage and starts nothing", code=status))

    def print_help(self, file: object = None) -> None:
        """Nothing: a plan prints no usage of another program."""


class Take(argparse.Action):
    """Stores a value, or True for an option that takes none, and how the option was spelled."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Called by argparse for each option met."""
        setattr(namespace, self.dest, True if self.nargs == 0 else values)
        if isinstance(parser, Parser) and option_string:
            parser.taken[self.dest] = option_string


def whole(text: str) -> int | str:
    """A whole number; a word whose variables are not known stays the word."""
    return text if holds_unknown(text) else int(text)


def decimal(text: str) -> float | str:
    """A number; a word whose variables are not known stays the word."""
    return text if holds_unknown(text) else float(text)


# argparse names the type in its error text.
whole.__name__ = "int"
decimal.__name__ = "float"
