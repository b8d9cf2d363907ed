"""The command line of a launcher, read by argparse itself from a table of options; an error is a value, not the end."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

from firstfault.launch.expansion import holds_unknown
from firstfault.launch.flag_table import Arguments, Flag, str_to_bool
from firstfault.launch.stop import Stop
from firstfault.launch.values import Given
from firstfault.model.plan import PlannedError

SCRIPT = ("training_script", "training_script_args")


def parse(
    words: Sequence[str],
    table: Sequence[Flag],
    *,
    prog: str,
    top: str | None = None,
    hyphens: bool = False,
    abbrev: bool = True,
    script: tuple[str, str] = SCRIPT,
) -> Arguments:
    """The options of `words`, and what follows them under the two names of `script`; raises Stop for what argparse refuses.

    `hyphens` lets `--num-processes` stand for `--num_processes`, `abbrev` any unambiguous beginning of a long option for it.
    Words that are no option are refused in the name of `top`.
    """
    parser = _Parser(prog)
    parser.allow_abbrev = abbrev
    # argparse asks the terminal for its width with every option that is added.
    parser.formatter_class = _formatter
    for flag in table:
        _add(parser, flag, hyphens)
    parser.add_argument(script[0], action=_Take)
    parser.add_argument(script[1], nargs=argparse.REMAINDER, action=_Take)
    space, unknown = parser.parse_known_args(list(words))
    if unknown:
        message = f"{top or prog}: error: unrecognized arguments: {' '.join(unknown)}"
        raise Stop(PlannedError(type="SystemExit", message=message, code=2))
    named = parser.taken
    given = {
        name: Given(value, "flag", named[name]) if name in named else Given(value, "default", "built in")
        for name, value in vars(space).items()
    }
    given.update({name: Given(getattr(space, name), "flag", "command line") for name in script})
    return Arguments(given, set(named))


class _Parser(argparse.ArgumentParser):
    """A parser that raises `Stop` where argparse prints and exits; `taken` holds the spelling of every option it met."""

    def __init__(self, prog: str) -> None:
        # Without a width a formatter asks for the terminal's.
        self._formatter = argparse.HelpFormatter(prog, width=80)
        super().__init__(prog=prog, usage="", formatter_class=partial(argparse.HelpFormatter, width=80))
        self.taken: dict[str, str] = {}

    def _get_formatter(self) -> argparse.HelpFormatter:
        # argparse asks for one at every option that is added, only to check how it would be shown.
        return self._formatter

    def error(self, message: str) -> NoReturn:
        """A usage error: exit code 2 and the line that argparse prints below the usage."""
        raise Stop(PlannedError(type="SystemExit", message=f"{self.prog}: error: {message}", code=2))

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """The end behind `--help`: nothing starts."""
        raise Stop(PlannedError(type="SystemExit", message=message or "prints its usage and starts nothing", code=status))

    def print_help(self, file: object = None) -> None:
        """Nothing: a plan prints no usage of another program."""


class _Take(argparse.Action):
    """Stores a value, or True for an option that takes none, and how the option was spelled."""

    stored = True

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Called by argparse for each option met."""
        setattr(namespace, self.dest, self.stored if self.nargs == 0 else values)
        if isinstance(parser, _Parser) and option_string:
            parser.taken[self.dest] = option_string


class _Off(_Take):
    """Stores False."""

    stored = False


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(prog, width=80)


def whole(text: str) -> int | str:
    """A whole number; a word whose variables are not known stays the word."""
    return text if holds_unknown(text) else int(text)


def decimal(text: str) -> float | str:
    """A number; a word whose variables are not known stays the word."""
    return text if holds_unknown(text) else float(text)


# argparse names the type in its error text.
whole.__name__ = "int"
decimal.__name__ = "float"


def _truths(text: str) -> tuple[int, ...]:
    return tuple(str_to_bool(part) for part in text.split(","))


def _doubled(text: str) -> list[str]:
    """A list with commas; a doubled comma stands for one."""
    return [item.replace("\0", ",") for item in text.replace(",,", "\0").split(",")]


_TYPES: dict[str, Any] = {
    "int": whole, "float": decimal, "text": str, "bool": bool, "truth": str_to_bool, "truths": _truths, "list": _doubled,
}  # fmt: skip


def _add(parser: argparse.ArgumentParser, flag: Flag, hyphens: bool) -> None:
    names: list[str] = []
    for name in flag.names:
        names.append(name)
        if hyphens and "_" in name[2:]:
            names.append(name.replace("_", "-"))
    if flag.kind in ("on", "off"):
        action = _Take if flag.kind == "on" else _Off
        parser.add_argument(*names, dest=flag.name, action=action, nargs=0, default=bool(flag.default))
        return
    if flag.kind == "append":
        parser.add_argument(*names, dest=flag.name, action="append", type=str)
        return
    parser.add_argument(
        *names,
        dest=flag.name,
        action=_Take,
        type=_TYPES[flag.kind],
        default=flag.default,
        choices=list(flag.choices) or None,
    )
