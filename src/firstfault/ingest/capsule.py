"""The capsule (`firstfault.capsule/1`): the redacted evidence of what was handed over, all that may leave the machine.

What is shown is what would be sent: `shown` is a function of the bytes that `encode` gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec.structs import replace

from firstfault.errors import UnreadableInputError
from firstfault.ingest.discover import discover
from firstfault.ingest.excerpt import Stretch, edge_lines, is_text, stretches, whole_limit
from firstfault.ingest.handed import Handed
from firstfault.ingest.open import open_handed
from firstfault.ingest.redact import Masked, Redactor
from firstfault.ingest.relative import relative_names
from firstfault.knowledge.redaction import redaction_rules
from firstfault.knowledge.schema import Pack
from firstfault.scan.result import ScanResult
from firstfault.scan.scanner import Scanner

SCHEMA = "firstfault.capsule/1"
MAX_TEXT_BYTES = 20 << 20
"""More text than this is not sent: sources behind it are left out with a note."""


class CapsuleLine(msgspec.Struct, frozen=True):
    """One redacted line: its number from 1, its byte offset in the source, its text."""

    number: int
    offset: int
    text: str


class CapsuleSource(msgspec.Struct, frozen=True, kw_only=True):
    """The kept lines of one source, in stretches that follow each other in it; its path is redacted too.

    `bytes` and `lines` count the whole source; `ended` is true if its last line ends with a newline.
    """

    path: str
    bytes: int
    lines: int
    ended: bool
    whole: bool
    stretches: tuple[tuple[CapsuleLine, ...], ...]


class Capsule(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that would be sent, and what was masked in it. `notes` say what was left out and why."""

    schema: str = SCHEMA
    sources: tuple[CapsuleSource, ...]
    masked: tuple[Masked, ...] = ()
    notes: tuple[str, ...] = ()


class Excerpt(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of one source, not redacted yet."""

    path: str
    bytes: int
    lines: int
    ended: bool
    whole: bool
    stretches: tuple[Stretch, ...]


def gather_capsule(inputs: Sequence[str | Path], pack: Pack, *, stdin: BinaryIO | None = None) -> Capsule:
    """The capsule of files, folders and standard input (`-`); UnreadableInputError if nothing of it may be sent."""
    found, said = discover(inputs, stdin=stdin)
    # Where the files lie is nobody's business, and a browser is not told.
    names = relative_names([item.path for item in found])
    handed = [replace(item, path=name) for item, name in zip(found, names, strict=True)]
    return handed_capsule(handed, pack, notes=[f"{note.where}: {note.what}" for note in said])


def text_capsule(text: str | bytes, pack: Pack, *, name: str = "pasted.txt") -> Capsule:
    """The capsule of one pasted text."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", errors="replace")
    return handed_capsule([Handed(path=name, data=data, size_bytes=len(data))], pack)


def redacted(excerpts: Sequence[Excerpt], notes: Iterable[str], redactor: Redactor) -> Capsule:
    """The capsule of excerpts: every name that is learnt anywhere in them is masked everywhere."""
    redactor.learn(line.text for one in excerpts for stretch in one.stretches for line in stretch)
    sources = tuple(_redacted(one, redactor) for one in excerpts)
    return Capsule(sources=sources, notes=tuple(map(redactor.mask, notes)), masked=redactor.manifest())


def encode(capsule: Capsule) -> bytes:
    """The bytes that would be sent; equal capsules give equal bytes."""
    return msgspec.json.encode(capsule)


def shown(sent: bytes) -> str:
    """The bytes that would be sent, for a person to read: nothing of them is left out."""
    return msgspec.json.format(sent, indent=2).decode("utf-8")


def handed_capsule(
    handed: Sequence[Handed], pack: Pack, redactor: Redactor | None = None, notes: Sequence[str] = ()
) -> Capsule:
    """The capsule of opened inputs. `redactor` is one that knows earlier text; UnreadableInputError if nothing may be sent."""
    notes = list(notes)
    scanner = Scanner(pack.signals)
    excerpts: list[Excerpt] = []
    room = MAX_TEXT_BYTES
    for item in handed:
        made = _excerpt(item, scanner, len(handed))
        if isinstance(made, str):
            notes.append(f"{item.path}: {made}")
            continue
        room -= sum(len(line.text.encode("utf-8", "replace")) for stretch in made.stretches for line in stretch)
        if room < 0:
            notes.append(f"{item.path}: left out, a capsule holds {MAX_TEXT_BYTES >> 20} MiB of text")
            continue
        excerpts.append(made)
    if not excerpts:
        what = notes[0] if notes else "nothing was handed over"
        raise UnreadableInputError(what, hint="hand over a log, a folder of logs, a configuration or a launch command")
    return redacted(excerpts, notes, redactor or Redactor(redaction_rules(pack)))


def _excerpt(item: Handed, scanner: Scanner, sources: int) -> Excerpt | str:
    """What is kept of a source, or why nothing is."""
    try:
        with open_handed(item) as opened:
            if not is_text(opened.head):
                return "is no text: it stays on this machine"
            if not opened.head:
                return "is empty"
            scan: ScanResult = scanner.scan(opened)  # type: ignore[arg-type]  # a raw stream reads like a binary one
    except (OSError, ValueError) as error:
        return f"cannot be read: {getattr(error, 'strerror', None) or error}"
    limit = whole_limit(sources)
    return Excerpt(
        path=item.path,
        bytes=scan.size_bytes,
        lines=scan.lines,
        ended=scan.ends_with_newline,
        whole=scan.size_bytes <= limit,
        stretches=stretches(scan, whole_bytes=limit, edge=edge_lines(sources)),
    )


def _redacted(one: Excerpt, redactor: Redactor) -> CapsuleSource:
    return CapsuleSource(
        path=redactor.mask_path(one.path),
        bytes=one.bytes,
        lines=one.lines,
        ended=one.ended,
        whole=one.whole,
        stretches=tuple(
            tuple(CapsuleLine(line.number, line.offset, redactor.mask(line.text)) for line in stretch)
            for stretch in one.stretches
        ),
    )
