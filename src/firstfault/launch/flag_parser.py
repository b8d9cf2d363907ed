"""Command lines of launchers that use argparse, read by argparse itself from a table of options."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from firstfault.launch.flag_table import Arguments, Flag, str_to_bool
from firstfault.launch.usage import Parser, Stop, Take
from firstfault.launch.values import Given
from firstfault.model.plan import PlannedError


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
    # argparse asks the terminal for its width with every option that is added.
    parser.formatter_class = _formatter
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


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(prog, width=80)


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
