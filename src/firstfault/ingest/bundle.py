"""All sources of one investigation: found, opened, read; what could not be read stands in the notes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

from firstfault.errors import UnreadableInputError
from firstfault.ingest.discover import discover
from firstfault.ingest.dump_head import is_dump, numbers_of
from firstfault.ingest.handed import Handed
from firstfault.ingest.line_template import chosen_template
from firstfault.ingest.read import read_source
from firstfault.knowledge.schema import Pack
from firstfault.model.bundle import Bundle, Note, SourceReport
from firstfault.model.event import Place
from firstfault.scan.scanner import Scanner

MAX_COMPARED_BYTES = 64 << 20
"""Files up to this size are compared by content; larger ones are seldom handed over twice."""
_HEAD_BYTES = 4 << 10
# Two answers of NCCL's RAS service that are alike to the byte show that nothing moves: they are no copies.
_SNAPSHOT_MARKS = (b"\nJob summary\n====", b'"communicators_count"')
_EVIDENCE_KINDS = frozenset({"empty", "binary"})


def gather(inputs: Sequence[str | Path], pack: Pack, *, stdin: BinaryIO | None = None) -> Bundle:
    """The bundle of files, folders and standard input (`-`); UnreadableInputError if nothing of it was readable."""
    begin = time.perf_counter()
    handed, notes = discover(inputs, stdin=stdin)
    return bundle_of_handed(handed, list(notes), pack, begin)


def gather_text(text: str | bytes, pack: Pack, *, name: str = "pasted.txt") -> Bundle:
    """The bundle of one pasted text (bytes: packed or in another encoding too), which may mix several sources."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", errors="replace")
    return bundle_of_handed((Handed(path=name, data=data, size_bytes=len(data)),), [], pack, time.perf_counter())


def bundle_of_handed(handed: Sequence[Handed], notes: list[Note], pack: Pack, begin: float) -> Bundle:
    """The bundle of opened inputs; `begin` is the performance counter when they were asked for."""
    scanner = Scanner(pack.signals)
    items = list(_once(handed, notes))
    read = [read_source(item, pack, scanner) for item in items]
    template = chosen_template(setting for found in read for report in found for setting in report.settings)
    if template is not None:
        # Which prefix the lines carry is known only now; a pipe cannot be read again.
        for index, item in enumerate(items):
            if item.stream is None and any(report.source.kind in ("log", "unknown") for report in read[index]):
                read[index] = read_source(item, pack, scanner, template)
    reports = [report for found in read for report in found]
    if any(report.source.kind == "memory_snapshot" for report in reports):
        from firstfault.ingest.memory_snapshot_twin import joined

        reports = joined(reports)
    useless = [note for report in reports for note in report.notes if note.fatal]
    if not any(report.source.kind not in _EVIDENCE_KINDS and not _is_unread(report) for report in reports):
        first = (*useless, *(note for note in notes if note.fatal), *notes)
        raise UnreadableInputError(
            first[0].what if first else "nothing was handed over",
            where=first[0].where if first else "",
            hint="hand over a log, a folder of logs, a configuration or a launch command",
        )
    return Bundle(reports=tuple(reports), notes=tuple(notes), elapsed_s=time.perf_counter() - begin)


def _is_unread(report: SourceReport) -> bool:
    return any(note.fatal for note in report.notes)


def _once(handed: Sequence[Handed], notes: list[Note]) -> Iterable[Handed]:
    """Each content once: a second file with the same bytes is left out with a note.

    Ranks that fail alike may write the same bytes: files that are named after different ones are both read.
    """
    sizes = Counter(item.size_bytes for item in handed)
    seen: dict[tuple[bytes, Place], str] = {}
    for item in handed:
        digest = _digest(item) if sizes[item.size_bytes] > 1 and 0 < item.size_bytes <= MAX_COMPARED_BYTES else None
        if digest is not None:
            first = seen.setdefault((digest, item.place), item.path)
            if first is not item.path:
                notes.append(Note(item.path, f"has the same content as {first}: read once"))
                continue
        yield item


def _digest(item: Handed) -> bytes | None:
    # Loads a large library that one small paste does not need.
    import hashlib

    if item.stream is not None:
        return None
    if item.location is None:
        return hashlib.blake2b(item.data, digest_size=16).digest()
    try:
        with item.location.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            file.seek(0)
            if any(mark in head for mark in _SNAPSHOT_MARKS):
                return None
            digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).digest()
            # Dumps of ranks with equal groups and nothing pending are alike; whose they are stands in their names.
            return digest + repr(numbers_of(item.path)[:1]).encode() if is_dump(head) else digest
    except OSError:
        return None
