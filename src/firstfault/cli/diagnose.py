"""`firstfault diagnose`: read what is handed over, and say what failed first."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from firstfault.cli.group import COMMANDS
from firstfault.cli.screen import Color, Screen, find_screen, look_options, write
from firstfault.errors import UsageError

if TYPE_CHECKING:
    from firstfault.knowledge.schema import Pack
    from firstfault.model.diagnosis import Diagnosis

FORMATS = ("terminal", "json", "markdown", "html")
_BY_SUFFIX = {".json": "json", ".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html"}


@click.command(short_help=COMMANDS["diagnose"])
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("--format", "form", type=click.Choice(FORMATS), help="Default: terminal, or what --output ends in.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write to FILE.")
@click.option("--fact", "facts", multiple=True, metavar="NAME=VALUE", help="Answer a missing fact; repeatable.")
@click.option("--answer", "answers", multiple=True, metavar="FILE", help="A further file that answers it; repeatable.")
@click.option("--patch", is_flag=True, help="Print the fixes as one patch for `git apply`.")
@click.option("--no-links", is_flag=True, help="No links to files in the terminal.")
@look_options
def diagnose(
    inputs: tuple[str, ...],
    form: str | None,
    output: Path | None,
    facts: tuple[str, ...],
    answers: tuple[str, ...],
    patch: bool,
    no_links: bool,
    width: int | None,
    color: Color,
    ascii_only: bool,
) -> int:
    """Name the first fault of a failed run.

    INPUT is a log, a folder, a config, a command in a text file, or - for standard input: whatever is at hand, in any mix.
    """
    to_file = output is not None
    screen = find_screen(width=width, color=color, ascii_only=ascii_only, links=not no_links, to_file=to_file)
    if form is None:
        form = _BY_SUFFIX.get(output.suffix.lower(), "terminal") if output else "terminal"
    return show(
        [*inputs, *answers], named=inputs, facts=read_facts(facts), form=form, output=output, patch=patch, screen=screen
    )


def show(
    inputs: Sequence[str],
    *,
    named: Sequence[str],
    facts: Mapping[str, str],
    form: str,
    output: Path | None,
    patch: bool,
    screen: Screen,
) -> int:
    """Diagnoses, writes the answer and returns its exit code. `named` are the inputs as later commands should name them."""
    from firstfault.engine.investigate import investigate
    from firstfault.ingest.bundle import gather
    from firstfault.knowledge.pack import load_pack
    from firstfault.render.words import exit_code

    pack = load_pack()
    if "-" in inputs and sys.stdin.isatty():
        click.echo("Paste the log, then press Ctrl-D.", err=True)
    bundle = gather(inputs, pack, stdin=sys.stdin.buffer if "-" in inputs else None)
    diagnosis = investigate(bundle, pack, facts)
    if patch:
        _write_patch(diagnosis, output)
    else:
        write(_rendered(diagnosis, pack, form, _quoted(named), screen), output)
        if output:
            click.echo(f"written: {output}", err=True)
    return exit_code(diagnosis)


def read_facts(items: Sequence[str]) -> dict[str, str]:
    """`NAME=VALUE` texts by name."""
    facts = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"a fact is given as NAME=VALUE, not {item!r}", where="--fact")
        facts[name.strip()] = value.strip()
    return facts


def _rendered(diagnosis: Diagnosis, pack: Pack, form: str, inputs: str, screen: Screen) -> str | bytes:
    if form == "json":
        from firstfault.render.json import to_json

        return to_json(diagnosis)
    titles = {entry.id: entry.title for entry in pack.entries.values()}
    if form == "markdown":
        from firstfault.render.markdown import to_markdown

        return to_markdown(diagnosis, titles=titles, inputs=inputs)
    if form == "html":
        from firstfault.render.html import to_html

        return to_html(diagnosis, titles=titles, inputs=inputs)
    from firstfault.render.terminal import render_diagnosis

    return render_diagnosis(
        diagnosis,
        width=screen.width,
        color=screen.color,
        ascii=screen.ascii,
        links=screen.links,
        titles=titles,
        inputs=inputs,
    )


def _write_patch(diagnosis: Diagnosis, output: Path | None) -> None:
    from firstfault.render import safe
    from firstfault.render.patch import left_out, to_patch
    from firstfault.render.words import fix_heading

    text = to_patch(diagnosis)
    watched = output is None and sys.stdout.isatty()
    if text:
        write(safe.block(text) if watched else text.encode("utf-8", "surrogateescape"), output)
    else:
        click.echo("No fix of this answer is a patch.", err=True)
    for fix in left_out(diagnosis):
        click.echo(f"not in the patch: {safe.line(fix_heading(fix) or fix.kind)}", err=True)


def _quoted(inputs: Sequence[str]) -> str:
    from shlex import quote

    return " ".join(quote(item) for item in inputs)
