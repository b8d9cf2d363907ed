"""`firstfault memory`: what a CUDA memory snapshot shows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from firstfault.cli.commands import COMMANDS
from firstfault.cli.look import look_options
from firstfault.cli.screen import Color, find_screen, write
from firstfault.errors import UnreadableInputError

if TYPE_CHECKING:
    from firstfault.model.memory_report import MemoryReport

_TOLD_EVERY_BYTES = 16 << 20


@click.command(short_help=COMMANDS["memory"])
@click.argument("snapshot", metavar="SNAPSHOT", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(["terminal", "json", "html"]), help="Default: terminal, or by --output.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Write to this file (.html, .json).")
@look_options
def memory(snapshot: Path, form: str | None, output: Path | None, width: int | None, color: Color, ascii_only: bool) -> int:
    """Say what holds the memory in SNAPSHOT, the file of torch.cuda.memory._dump_snapshot: by call site, at the peak and at
    the allocation that failed, what keeps growing, what is free in which pieces.

    Only plain data is read, nothing of the file is run. Exit code 1: an allocation failed in it.
    """
    report = read_report(snapshot)
    if form is None:
        ending = output.suffix.lower() if output else ""
        form = {".html": "html", ".htm": "html", ".json": "json"}.get(ending, "terminal")
    if form == "json":
        from firstfault.render.json import to_json

        write(to_json(report), output)
    elif form == "html":
        from firstfault.render.memory_html import memory_html

        write(memory_html(report), output)
    else:
        from firstfault.render.memory import render_memory

        screen = find_screen(width=width, color=color, ascii_only=ascii_only, to_file=output is not None)
        write(render_memory(report, width=screen.width, color=screen.color, ascii=screen.ascii), output)
    return 1 if any(device.failed for device in report.devices) else 0


def read_report(path: Path) -> MemoryReport:
    """The report; UnreadableInputError where the file cannot be opened or holds nothing of a snapshot."""
    from firstfault.ingest.handed import Handed
    from firstfault.ingest.memory_snapshot_reading import read_snapshot
    from firstfault.ingest.open import open_handed
    from firstfault.memory.snapshot import report_of

    hint = "It must be a file that torch.cuda.memory._dump_snapshot wrote."
    try:
        size = path.stat().st_size
        opened = open_handed(Handed(path=str(path), location=path, size_bytes=size))
    except OSError as error:
        raise UnreadableInputError(f"cannot be read: {error.strerror or error}", where=str(path)) from error
    with opened:
        reading = read_snapshot(_told(lambda count: opened.read(count) or b"", size))
    if not reading.segments and not reading.entries and (reading.stopped or not reading.is_snapshot):
        raise UnreadableInputError(reading.stopped or "holds no memory snapshot", where=str(path), hint=hint)
    report = report_of(reading, str(path))
    if not opened.notes:
        return report
    from msgspec.structs import replace

    return replace(report, notes=(*(note.what for note in opened.notes), *report.notes))


def _told(read: Callable[[int], bytes], size: int) -> Callable[[int], bytes]:
    """`read`, which tells how far it is where somebody watches and the file is large."""
    if size < _TOLD_EVERY_BYTES or not sys.stderr.isatty():
        return read
    done = 0

    def _read_and_tell(count: int) -> bytes:
        nonlocal done
        data = read(count)
        before, done = done, done + len(data)
        if not data:
            click.echo("\r\x1b[K", nl=False, err=True)
        elif before // _TOLD_EVERY_BYTES != done // _TOLD_EVERY_BYTES:
            click.echo(f"\rreading {min(100, 100 * done // size)} %", nl=False, err=True)
        return data

    return _read_and_tell
