"""`firstfault diagnose`: read what is handed over, and say what failed first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from firstfault.cli.answer import show
from firstfault.cli.commands import COMMANDS
from firstfault.cli.look import look_options
from firstfault.cli.screen import Color, find_screen
from firstfault.errors import UsageError

FORMATS = ("terminal", "json", "markdown", "html")
_BY_SUFFIX = {".json": "json", ".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html"}


@click.command(short_help=COMMANDS["diagnose"])
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("--format", "form", type=click.Choice(FORMATS), help="Default: terminal, or what --output ends in.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write to FILE.")
@click.option("--fact", "facts", multiple=True, metavar="NAME=VALUE", help="A fact it asked for; repeatable.")
@click.option("--answer", "answers", multiple=True, metavar="FILE", help="A further file that answers it; repeatable.")
@click.option("--patch", is_flag=True, help="Print the fixes of your files as one patch for `git apply`.")
@click.option("--server", metavar="URL", help="Let a console answer: only the redacted evidence is sent to it.")
@click.option("--show-capsule", is_flag=True, help="Print exactly what --server would send, and send nothing.")
@click.option("--no-links", is_flag=True, help="No links to files in the terminal.")
@look_options
def diagnose(
    inputs: tuple[str, ...],
    form: str | None,
    output: Path | None,
    facts: tuple[str, ...],
    answers: tuple[str, ...],
    patch: bool,
    server: str | None,
    show_capsule: bool,
    no_links: bool,
    width: int | None,
    color: Color,
    ascii_only: bool,
) -> int:
    """Name the first fault of a failed run.

    INPUT is a log, a folder, a config, a script, a command in a text file, or - for standard input: whatever is at hand, in
    any mix.
    """
    to_file = output is not None
    screen = find_screen(width=width, color=color, ascii_only=ascii_only, links=not no_links, to_file=to_file)
    if form is None:
        form = _BY_SUFFIX.get(output.suffix.lower(), "terminal") if output else "terminal"
    if server is not None or show_capsule:
        from firstfault.cli.remote import show_remote, show_what_is_sent

        if server is None or show_capsule:
            return show_what_is_sent([*inputs, *answers], output)
        return show_remote(
            [*inputs, *answers],
            server,
            named=inputs,
            facts=read_facts(facts),
            form=form,
            output=output,
            patch=patch,
            screen=screen,
        )
    return show(
        [*inputs, *answers], named=inputs, facts=read_facts(facts), form=form, output=output, patch=patch, screen=screen
    )


def read_facts(items: Sequence[str]) -> dict[str, str]:
    """`NAME=VALUE` texts by name."""
    facts = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"a fact is given as NAME=VALUE, not {item!r}", where="--fact")
        facts[name.strip()] = value.strip()
    return facts
