"""The capsule (`firstfault.capsule/1`): the redacted evidence of a diagnosis, the only thing that may leave the machine.

What is shown is what would be sent: `shown` is a function of the bytes that `encode` gives.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from firstfault.ingest.discover import discover
from firstfault.ingest.open import open_handed
from firstfault.ingest.redact import MAX_LINE_CHARS, Masked, Redactor
from firstfault.knowledge.redaction import redaction_rules
from firstfault.knowledge.schema import Pack
from firstfault.model.bundle import Bundle
from firstfault.model.diagnosis import Diagnosis

SCHEMA = "firstfault.capsule/1"
CONTEXT_LINES = 10
WHOLE_LINES = 400
"""A source of at most so many lines (a configuration, a command, a paste) is kept whole."""
MAX_LINES = 4_000
MAX_SHOWN_CHARS = 4_096
MAX_SCANNED_LINES = 2_000_000
"""No source is read further than this; evidence behind it is left out with a note."""


class CapsuleLine(msgspec.Struct, frozen=True):
    """One redacted line; `evidence` if the diagnosis cites it, else it is context."""

    number: int
    text: str
    evidence: bool = False


class CapsuleSource(msgspec.Struct, frozen=True):
    """The kept lines of one source, in order; its path is redacted too."""

    path: str
    kind: str
    lines: tuple[CapsuleLine, ...]


class Capsule(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that would be sent, and what was masked in it. `notes` say what was left out and why."""

    schema: str = SCHEMA
    verdict: str
    entry: str | None
    rank: int | None
    sources: tuple[CapsuleSource, ...]
    masked: tuple[Masked, ...]
    notes: tuple[str, ...] = ()


def make_capsule(bundle: Bundle, diagnosis: Diagnosis, pack: Pack) -> Capsule:
    """The cited lines of `diagnosis` with `CONTEXT_LINES` around each, small sources whole, all redacted.

    The files of the bundle are read again; what cannot be (standard input) contributes the cited lines alone.
    """
    cited: dict[str, dict[int, str]] = {}
    for item in diagnosis.evidence:
        cited.setdefault(item.source, {})[item.line] = item.text
    found: list[tuple[str, str, list[CapsuleLine]]] = []
    notes: list[str] = []
    room = MAX_LINES
    kinds: dict[str, str] = {}
    totals: Counter[str] = Counter()
    for report in bundle.reports:
        kinds.setdefault(report.source.path, report.source.kind)
        totals[report.source.path] += report.source.lines
    # Sources that hold evidence come first: they must not lose their room to others.
    for path in sorted(kinds, key=lambda name: name not in cited):
        lines = _kept_lines(path, cited.get(path, {}), whole=totals[path] <= WHOLE_LINES)
        if len(lines) > room:
            notes.append(f"{path}: {len(lines) - room} lines left out, a capsule holds {MAX_LINES}")
        if lines[:room]:
            found.append((path, kinds[path], lines[:room]))
        room -= min(room, len(lines))
    redactor = Redactor(redaction_rules(pack))
    redactor.learn(line.text for _, _, lines in found for line in lines)
    sources = tuple(CapsuleSource(redactor.mask(path), kind, tuple(_masked(redactor, lines))) for path, kind, lines in found)
    return Capsule(
        verdict=diagnosis.verdict,
        entry=diagnosis.entry,
        rank=diagnosis.initiating.rank if diagnosis.initiating else None,
        sources=sources,
        notes=tuple(redactor.mask(note) for note in notes),
        masked=redactor.manifest(),
    )


def encode(capsule: Capsule) -> bytes:
    """The bytes that would be sent; equal capsules give equal bytes."""
    return msgspec.json.encode(capsule)


def shown(sent: bytes) -> str:
    """The bytes that would be sent, for a person to read: nothing of them is left out."""
    return msgspec.json.format(sent, indent=2).decode("utf-8")


def _masked(redactor: Redactor, lines: Sequence[CapsuleLine]) -> Iterable[CapsuleLine]:
    for line in lines:
        yield CapsuleLine(line.number, redactor.mask(line.text)[:MAX_SHOWN_CHARS], line.evidence)


def _kept_lines(path: str, cited: dict[int, str], *, whole: bool) -> list[CapsuleLine]:
    if not cited and not whole:
        return []
    kept = {}
    for number, text in _read_lines(path):
        near = whole or any(abs(number - line) <= CONTEXT_LINES for line in cited)
        if near:
            kept[number] = CapsuleLine(number, text, number in cited)
    for number, text in cited.items():
        kept.setdefault(number, CapsuleLine(number, text, evidence=True))
    return [kept[number] for number in sorted(kept)]


def _read_lines(path: str) -> Iterable[tuple[int, str]]:
    """The numbered lines of a file; none of what is no file (a pipe, standard input, a member of an archive)."""
    if not Path(path).is_file():
        return
    for handed in discover([path])[0]:
        if handed.path != path:
            continue
        with open_handed(handed) as stream:
            reader = io.BufferedReader(stream)
            for number in range(1, MAX_SCANNED_LINES + 1):
                line = reader.readline()
                if not line:
                    return
                if b"\0" in line:
                    return
                yield number, line.decode("utf-8", "replace").rstrip("\r\n")[:MAX_LINE_CHARS]
