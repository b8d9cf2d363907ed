"""`firstfault explain`: an entry of the encyclopedia in the terminal."""

from __future__ import annotations

import click

from firstfault.cli.commands import COMMANDS
from firstfault.cli.look import look_options
from firstfault.cli.screen import Color, find_screen, write
from firstfault.errors import UsageError
from firstfault.knowledge.schema import Entry, Pack

_MOST_MATCHES = 5


@click.command(short_help=COMMANDS["explain"])
@click.argument("entry", required=False)
@click.option("--list", "list_all", is_flag=True, help="Show all entries as a tree.")
@click.option("--format", "form", type=click.Choice(["terminal", "markdown"]), default="terminal", help="Default: terminal.")
@look_options
def explain(entry: str | None, list_all: bool, form: str, width: int | None, color: Color, ascii_only: bool) -> int:
    """Show what the encyclopedia knows of a failure: ENTRY is an id, as a diagnosis prints it; without one, all entries."""
    from firstfault.knowledge.pack import body, load_pack
    from firstfault.render.entry import entry_markdown, render_entry, render_list

    pack = load_pack()
    screen = find_screen(width=width, color=color, ascii_only=ascii_only)
    if list_all or entry is None:
        write(render_list(pack.entries, width=screen.width, color=screen.color, ascii=screen.ascii))
        return 0
    found = find_entry(pack, entry)
    text = body(pack, found.id)
    if form == "markdown":
        write(entry_markdown(found, text))
    else:
        width, color_on, ascii_on = screen.width, screen.color, screen.ascii
        write(render_entry(found, text, entries=pack.entries, width=width, color=color_on, ascii=ascii_on))
    return 0


def find_entry(pack: Pack, wanted: str) -> Entry:
    """The entry of that id; UsageError names the nearest ones."""
    if wanted in pack.entries:
        return pack.entries[wanted]
    near = _near(pack, wanted)
    hint = f"Did you mean {' or '.join(near)}?" if near else "See `firstfault explain --list`."
    raise UsageError(f"no entry is called {wanted}", hint=hint)


def _near(pack: Pack, wanted: str) -> list[str]:
    """Ids that are spelled alike, then entries that carry all the words."""
    from difflib import get_close_matches

    near = get_close_matches(wanted.lower(), pack.entries, n=_MOST_MATCHES, cutoff=0.6)
    words = wanted.lower().replace("-", " ").split()
    for entry in pack.entries.values():
        text = " ".join((entry.id.replace("-", " "), entry.title, *entry.aliases, *entry.tags)).lower()
        if words and all(word in text for word in words):
            near.append(entry.id)
    return list(dict.fromkeys(near))[:_MOST_MATCHES]
