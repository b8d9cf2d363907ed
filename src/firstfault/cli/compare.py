"""`firstfault compare A B`: what differs between two commands or runs, and which difference explains the outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from firstfault.cli.commands import COMMANDS
from firstfault.cli.look import look_options
from firstfault.cli.screen import Color, find_screen, write
from firstfault.errors import UsageError

if TYPE_CHECKING:
    from firstfault.model.comparison import Comparison

_SIDES = ("--a", "--b")


class _TwoSides(click.Command):
    """`--a FILE...` takes every word up to the next option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Puts the option in front of each of its words."""
        spread: list[str] = []
        side = ""
        for word in args:
            if word.startswith("-") and word != "-":
                side = word if word in _SIDES else ""
                spread += [] if side else [word]
            else:
                spread += [side, word] if side else [word]
        return super().parse_args(ctx, spread)


@click.command(short_help=COMMANDS["compare"], cls=_TwoSides, options_metavar="[OPTIONS]")
@click.argument("sides", nargs=-1, metavar="A B")
@click.option("--a", "a", multiple=True, metavar="FILE...", help="Several files of the first run, instead of A.")
@click.option("--b", "b", multiple=True, metavar="FILE...", help="Several files of the second run, instead of B.")
@click.option("--fails", type=click.Choice(["a", "b"]), help="Which of two commands fails, as far as you know.")
@click.option("--gpus", metavar="N[,M]", help="GPUs of the machine, of A and of B; else nvidia-smi is asked.")
@click.option("--versions", metavar="NAME=VERSION,...", help="Such as accelerate=1.15.0, for commands.")
@click.option(
    "--format", "form", type=click.Choice(["terminal", "json", "markdown"]), default="terminal", help="Default: terminal."
)
@look_options
def compare(
    sides: tuple[str, ...],
    a: tuple[str, ...],
    b: tuple[str, ...],
    fails: str | None,
    gpus: str | None,
    versions: str | None,
    form: str,
    width: int | None,
    color: Color,
    ascii_only: bool,
) -> int:
    """Say what differs between A and B, and which difference explains that one of them fails.

    A and B are each a launch command in quotes, a script that holds one, or a run: a log or a folder. Nothing is started.

    Exit code 0: nothing that differs matters; 1: a difference explains the failure; 3: undecided, a fact is missing.
    """
    from firstfault.cli.sides import compare_inputs

    made = compare_inputs(*_inputs(sides, a, b), fails=fails, gpus=gpus, versions=versions)
    if form == "json":
        from firstfault.render.json import to_json

        write(to_json(made))
    elif form == "markdown":
        from firstfault.render.comparison_markdown import comparison_markdown

        write(comparison_markdown(made))
    else:
        from firstfault.render.comparison import render_comparison

        screen = find_screen(width=width, color=color, ascii_only=ascii_only)
        write(render_comparison(made, width=screen.width, color=screen.color, ascii=screen.ascii))
    return exit_code(made)


def exit_code(made: Comparison) -> int:
    """1 where a difference explains a failure, 3 where a fact is missing, else 0."""
    return {"established": 1, "likely": 1, "undetermined": 3, "no_failure": 0}[made.verdict]


def _inputs(sides: tuple[str, ...], a: tuple[str, ...], b: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The inputs of both sides: A and B, or what `--a` and `--b` name."""
    waiting = list(sides)
    found = [given or ((waiting.pop(0),) if waiting else ()) for given in (a, b)]
    if waiting or not all(found):
        raise UsageError(
            "compare takes two sides, A and B",
            hint='Such as: firstfault compare "python train.py" "accelerate launch train.py", or --a FILE... --b FILE...',
        )
    return found[0], found[1]
