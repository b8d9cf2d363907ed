"""The options that say how an answer looks, for every command that prints one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])


def look_options(command: _Command) -> _Command:
    """Adds `--width`, `--color` and `--ascii` to a command."""
    for option in (
        click.option("--ascii", "ascii_only", is_flag=True, help="Only ASCII signs."),
        click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="When to use colour."),
        click.option("--width", type=click.IntRange(40, 500), metavar="N", help="Columns; the terminal's, or 80."),
    ):
        command = option(command)
    return command
