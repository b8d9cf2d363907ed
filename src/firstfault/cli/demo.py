"""`firstfault demo`: a diagnosis of a failed run that comes with firstfault."""

from __future__ import annotations

import os
from pathlib import Path

import click

from firstfault.cli.answer import show
from firstfault.cli.commands import COMMANDS
from firstfault.cli.look import look_options
from firstfault.cli.screen import Color, find_screen, write
from firstfault.errors import UsageError
from firstfault.trial.examples import find_examples


@click.command(short_help=COMMANDS["demo"])
@click.argument("name", required=False)
@click.option("--list", "list_all", is_flag=True, help="Show the names.")
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Copy the run to DIR first.")
@look_options
def demo(name: str | None, list_all: bool, keep: Path | None, width: int | None, color: Color, ascii_only: bool) -> int:
    """Diagnose a bundled failed run, the first one if no NAME is given; ends with 0 whatever it shows."""
    folder, index = find_examples()
    if list_all:
        size = max(map(len, index))
        write("".join(f"{key.ljust(size)}  {about.get('title', '')}\n" for key, about in index.items()))
        return 0
    name = name or next(iter(index))
    if name not in index:
        raise UsageError(f"no example is called {name}", hint=f"There are: {', '.join(index)}.")
    if keep:
        folder = _copied(folder / name, keep)
    screen = find_screen(width=width, color=color, ascii_only=ascii_only)
    about = index[name]
    write(f"example: {about.get('title', name)}\nmade:    {about.get('made', 'bundled')}\n$ firstfault diagnose {name}\n")
    before = _here()
    # The paths in the answer are then those of the example, not of the installation.
    os.chdir(folder)
    try:
        show([name], named=[name], facts={}, form="terminal", output=None, patch=False, screen=screen)
    finally:
        if before is not None:
            os.chdir(before)
    write(f"files: {folder / name}{'' if keep else ' (copy them: --keep DIR)'}\n")
    # What failed is the example, not the demonstration: a script that goes on after it must not stop here.
    return 0


def _here() -> Path | None:
    try:
        return Path.cwd()
    except OSError:  # the folder was deleted
        return None


def _copied(source: Path, target: Path) -> Path:
    import shutil

    try:
        target.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target / source.name, dirs_exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror or error}", where=str(target)) from error
    return target.resolve()
