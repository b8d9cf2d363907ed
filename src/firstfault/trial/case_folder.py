"""A labelled case folder of what a user handed over, with everything masked that identifies or opens doors."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from firstfault.errors import UnreadableInputError, UsageError
from firstfault.ingest.discover import discover
from firstfault.ingest.open import open_handed
from firstfault.ingest.redact import Masked, Redactor, lines_of
from firstfault.knowledge.redaction import redaction_rules
from firstfault.knowledge.schema import Pack
from firstfault.trial.label import INPUT_FOLDER, LABEL_FILE

MAX_CASE_BYTES = 64 << 20
"""A case is kept in a repository: more is refused, not cut, because a cut log may tell another story."""
_PACKED = (".gz", ".zst")


class NewCase(msgspec.Struct, frozen=True, kw_only=True):
    """The folder that was written, its files, what was masked in them, and what was left out and why."""

    folder: Path
    files: tuple[Path, ...]
    masked: tuple[Masked, ...]
    left_out: tuple[str, ...]


def new_case(
    inputs: Sequence[str | Path], pack: Pack, *, folder: Path, expected: str | None, rank: int | None, note: str = ""
) -> NewCase:
    """Write `folder`/input/ with redacted copies of `inputs` and `folder`/expected.yaml.

    `expected` is the entry that is right (None: nothing failed), `rank` the one that failed first. UsageError if the entry
    is unknown, the folder is there already or the inputs are too large; UnreadableInputError if nothing of them is text.
    """
    _check_entry(expected, pack)
    if folder.exists():
        raise UsageError("the case exists already", where=str(folder), hint="choose another --output")
    texts, hosts, left_out = _texts(inputs)
    redactor = Redactor(redaction_rules(pack), plain=True)
    redactor.learn((line for text in texts.values() for line, _ in lines_of(text)), hosts)
    files = []
    for name, text in texts.items():
        path = folder / INPUT_FOLDER / "/".join(redactor.mask_name(part) for part in name.split("/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(redactor.mask_text(text).encode("utf-8", "surrogateescape"))
        files.append(path)
    (folder / LABEL_FILE).write_text(_label(expected, rank, redactor.mask(note), pack), encoding="utf-8")
    return NewCase(folder=folder, files=tuple(files), masked=redactor.manifest(), left_out=tuple(left_out))


def _check_entry(expected: str | None, pack: Pack) -> None:
    if expected is None or expected in pack.entries:
        return
    from difflib import get_close_matches

    near = get_close_matches(expected, pack.entries, n=3)
    raise UsageError(
        f"no entry is called {expected}",
        where="--expected",
        hint=f"did you mean {', '.join(near)}?" if near else "`firstfault explain --list` shows all; `none` if nothing failed",
    )


def _texts(inputs: Sequence[str | Path]) -> tuple[dict[str, str], set[str], list[str]]:
    """The readable text of every input by a name below the case's `input/`, the hosts that names tell, what was left out."""
    handed, notes = discover(inputs)
    left_out = [f"{note.where}: {note.what}" for note in notes]
    texts: dict[str, str] = {}
    total = 0
    names = _relative([item.path for item in handed])
    for item, name in zip(handed, names, strict=True):
        try:
            with open_handed(item) as stream:
                data = io.BufferedReader(stream).read(MAX_CASE_BYTES - total + 1)
        except OSError as error:
            left_out.append(f"{item.path}: cannot be read: {error.strerror or error}")
            continue
        if b"\0" in data:
            left_out.append(f"{item.path}: is no text, and what it holds cannot be masked")
            continue
        total += len(data)
        if total > MAX_CASE_BYTES:
            raise UsageError(
                f"more than {MAX_CASE_BYTES >> 20} MiB", where=item.path, hint="hand over the files that show the failure"
            )
        texts[name] = data.decode("utf-8", "surrogateescape")
    if not texts:
        raise UnreadableInputError("nothing here is text", where=str(inputs[0]) if inputs else "")
    return texts, {item.place.host for item in handed if item.place.host}, left_out


def _relative(paths: Sequence[str]) -> list[str]:
    """Unique names without the folders that all paths share, and without what only says how they are packed."""
    parts = [[part for part in re.split(r"[\\/]+", path) if part not in ("", ".", "..")] or ["input.txt"] for path in paths]
    shared = 0
    while all(len(item) > shared + 1 for item in parts) and len({item[shared] for item in parts}) == 1:
        shared += 1
    names: list[str] = []
    for item in parts:
        name = "/".join(item[shared:]) if item != ["-"] else "console.log"
        for suffix in _PACKED:
            name = name.removesuffix(suffix)
        while name in names:
            name = f"{name}.txt"
        names.append(name)
    return names


def _label(expected: str | None, rank: int | None, note: str, pack: Pack) -> str:
    import yaml

    label = {
        "id": expected,
        "category": pack.entries[expected].category if expected else None,
        "initiating_rank": rank,
        "negative": expected is None,
    }
    if note:
        label["root_cause"] = note
    return yaml.safe_dump(label, sort_keys=False, allow_unicode=True, width=120)
