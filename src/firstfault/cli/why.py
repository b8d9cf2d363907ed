"""`firstfault why RANK INPUT...`: why this rank is, or is not, the one that failed first."""

from __future__ import annotations

import sys

import click

from firstfault.cli.commands import COMMANDS
from firstfault.cli.look import look_options
from firstfault.cli.screen import Color, find_screen, write


@click.command(short_help=COMMANDS["why"])
@click.argument("rank", type=click.IntRange(min=0), metavar="RANK")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("--format", "form", type=click.Choice(["terminal", "json"]), default="terminal", help="Default: terminal.")
@look_options
def why(rank: int, inputs: tuple[str, ...], form: str, width: int | None, color: Color, ascii_only: bool) -> int:
    """Say why rank RANK is, or is not, the one that failed first: what it reports, what it waited for, its last lines.

    RANK is the global rank; INPUT is what `firstfault diagnose` takes.
    """
    from shlex import quote

    from firstfault.engine.why import explain_rank
    from firstfault.ingest.bundle import gather
    from firstfault.knowledge.pack import load_pack

    pack = load_pack()
    bundle = gather(inputs, pack, stdin=sys.stdin.buffer if "-" in inputs else None)
    answer = explain_rank(rank, bundle, pack)
    if form == "json":
        from firstfault.render.json import to_json

        write(to_json(answer))
    else:
        from firstfault.render.why import render_rank

        screen = find_screen(width=width, color=color, ascii_only=ascii_only)
        text = render_rank(
            answer,
            width=screen.width,
            color=screen.color,
            ascii=screen.ascii,
            links=screen.links,
            inputs=" ".join(map(quote, inputs)),
        )
        write(text)
    return 0
