"""Which files an input means: files, folders, standard input."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from msgspec.structs import replace

from firstfault.ingest.archive import is_archive, members_of
from firstfault.ingest.filename import places_of
from firstfault.ingest.handed import Handed
from firstfault.model.bundle import Note

MAX_FILES = 20_000
MAX_DEPTH = 40
STDIN_KEPT_BYTES = 4 << 20
"""Standard input is kept up to here; the rest is streamed."""

SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", "venv", "site-packages", "lost+found", "__MACOSX"})
NEVER_TEXT = (
    *(
        ".safetensors",
        ".pt",
        ".pth",
        ".ckpt",
        ".onnx",
        ".npy",
        ".npz",
        ".parquet",
        ".arrow",
        ".h5",
        ".hdf5",
        ".tfrecord",
        ".bin",
    ),
    *(".png", ".jpg", ".jpeg", ".gif", ".pdf", ".mp4", ".wav", ".so", ".o", ".pyc", ".whl", ".sqlite", ".db"),
    *(".zip", ".tar", ".7z", ".bz2", ".xz"),
)
"""What a folder also holds and nobody means to hand over: weights, data, pictures, archives."""


def discover(inputs: Sequence[str | Path], *, stdin: BinaryIO | None = None) -> tuple[tuple[Handed, ...], tuple[Note, ...]]:
    """Everything that `inputs` mean, in the order given (folders: natural order), and notes on what was left out and why."""
    notes: list[Note] = []
    found: list[Handed] = []
    seen: set[tuple[int, int]] = set()
    for item in inputs:
        if str(item) == "-":
            found.extend(_read_stdin(stdin, notes))
            continue
        before = len(found)
        if not str(item):
            # It would mean the working directory, which nobody who types `"$LOG"` wants.
            notes.append(Note('""', "the name of an input is empty", fatal=True))
            continue
        path = Path(item)
        for file, info in _files(path, notes):
            identity = (info.st_dev, info.st_ino)
            if identity in seen and info.st_ino:
                notes.append(Note(str(file), "already handed over: the same file is read once"))
                continue
            seen.add(identity)
            if len(found) >= MAX_FILES:
                notes.append(Note(str(item), f"more than {MAX_FILES} files: the rest was not read"))
                break
            if stat.S_ISFIFO(info.st_mode):
                found.extend(_read_pipe(file, notes))
            elif _may_be_archive(file, path) and is_archive(file):
                found.extend(members_of(file, notes, _is_wanted))
            else:
                found.append(Handed(path=file.as_posix(), location=file, size_bytes=info.st_size))
        if len(found) == before and _is_folder(path):
            notes.append(
                Note(str(item), "the folder holds no file that could be a log, a configuration or a command", fatal=True)
            )
    places = places_of([handed.path for handed in found])
    placed = tuple(replace(handed, place=place) for handed, place in zip(found, places, strict=True))
    return placed, tuple(notes)


def natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key under which `rank_2` comes before `rank_10`."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", text) if part)


def _read_stdin(stdin: BinaryIO | None, notes: list[Note]) -> Iterator[Handed]:
    yield from _read_stream("-", stdin if stdin is not None else sys.stdin.buffer, notes)


def _read_pipe(path: Path, notes: list[Note]) -> Iterator[Handed]:
    """What comes through a pipe, such as the `<(kubectl logs pod)` of a shell; it waits for whoever writes."""
    try:
        stream = path.open("rb")
    except OSError as error:
        notes.append(Note(str(path), _reason(error), fatal=True))
        return
    yield from _read_stream(path.as_posix(), stream, notes)


def _read_stream(name: str, stream: BinaryIO, notes: list[Note]) -> Iterator[Handed]:
    try:
        data = stream.read(STDIN_KEPT_BYTES + 1)
    except OSError as error:
        notes.append(Note(name, _reason(error), fatal=True))
        return
    more = len(data) > STDIN_KEPT_BYTES
    if not more and name != "-":
        stream.close()
    yield Handed(path=name, data=data, stream=stream if more else None, size_bytes=len(data))


def _files(path: Path, notes: list[Note]) -> Iterator[tuple[Path, os.stat_result]]:
    """The readable regular files that `path` means, itself or below it; a pipe only if it is `path` itself."""
    try:
        info = path.stat()
    except (OSError, ValueError) as error:
        notes.append(Note(str(path), _reason(error), fatal=True))
        return
    if stat.S_ISDIR(info.st_mode):
        yield from _files_below(path, {(info.st_dev, info.st_ino)}, 0, notes)
    elif stat.S_ISREG(info.st_mode) or stat.S_ISFIFO(info.st_mode):
        yield path, info
    else:
        notes.append(Note(str(path), f"is a {_kind_of(info.st_mode)}, not a file: not read", fatal=True))


def _files_below(
    folder: Path, above: set[tuple[int, int]], depth: int, notes: list[Note]
) -> Iterator[tuple[Path, os.stat_result]]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: natural_key(entry.name))
    except OSError as error:
        notes.append(Note(str(folder), _reason(error), fatal=True))
        return
    for entry in entries:
        path = Path(entry.path)
        if entry.name.startswith("."):
            continue
        try:
            info = entry.stat()
        except OSError as error:
            notes.append(Note(str(path), _reason(error)))
            continue
        identity = (info.st_dev, info.st_ino)
        if stat.S_ISDIR(info.st_mode):
            if entry.name in SKIPPED_FOLDERS:
                continue
            if identity in above:
                notes.append(Note(str(path), "a link back to a folder above it: not followed"))
            elif depth >= MAX_DEPTH:
                notes.append(Note(str(path), f"more than {MAX_DEPTH} folders deep: not read"))
            else:
                yield from _files_below(path, above | {identity}, depth + 1, notes)
        elif not stat.S_ISREG(info.st_mode):
            notes.append(Note(str(path), f"is a {_kind_of(info.st_mode)}, not a file: not read"))
        elif not entry.name.lower().endswith(NEVER_TEXT):
            yield path, info


def _may_be_archive(file: Path, handed: Path) -> bool:
    """True for a file that was named itself, and for a packed tar of a folder: a zip there is data as often as logs."""
    return file == handed or file.name.lower().endswith((".tar.gz", ".tgz", ".tar.zst"))


def _is_wanted(name: str) -> bool:
    """True for a member of an archive that a folder would give too."""
    parts = name.split("/")
    hidden = any((part.startswith(".") and part != ".") or part in SKIPPED_FOLDERS for part in parts)
    return not hidden and not name.lower().endswith(NEVER_TEXT)


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def _kind_of(mode: int) -> str:
    kinds = (
        (stat.S_ISFIFO, "named pipe"),
        (stat.S_ISSOCK, "socket"),
        (stat.S_ISBLK, "block device"),
        (stat.S_ISCHR, "character device"),
    )
    return next((name for test, name in kinds if test(mode)), "special file")


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"cannot be read: {text}"
