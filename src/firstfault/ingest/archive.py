"""The files inside `.zip` and `.tar` archives (packed ones too): read in place, bounded, nothing is unpacked to disk."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from firstfault.ingest.handed import Handed
from firstfault.ingest.open import Opened
from firstfault.model.bundle import Note
from firstfault.units import format_size

if TYPE_CHECKING:
    from tarfile import TarFile
    from zipfile import ZipFile

MAX_MEMBERS = 5_000
MAX_MEMBER_BYTES = 64 << 20
MAX_KEPT_BYTES = 192 << 20
"""Of all members together: they are held in memory."""
MAX_PASSED_BYTES = 8 << 30
"""Of a tar stream, members that are passed over included."""
MAX_HEADER_BYTES = 1 << 20
_TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.zst")
_TAR_MARK = slice(257, 262)
_Wanted = Callable[[str], bool]


def is_archive(path: Path) -> bool:
    """True for a zip or tar archive, by its name and, where it is not packed, by its first bytes."""
    name = path.name.lower()
    if name.endswith((".tar.gz", ".tgz", ".tar.zst")):
        return True
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except OSError:
        return False
    return head.startswith((b"PK\x03\x04", b"PK\x05\x06")) or head[_TAR_MARK] == b"ustar"


def members_of(path: Path, notes: list[Note], wanted: _Wanted) -> Iterator[Handed]:
    """The members whose name is `wanted`, each handed over as `archive!/name`; why others were left out goes to `notes`."""
    packed = path.name.lower().endswith(_TAR_SUFFIXES)
    reader = _Members(path, notes, wanted)
    yield from reader.of_tar() if packed or not _is_zip(path) else reader.of_zip()


def _is_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"PK"


class _Members:
    """One archive on its way to its members, with what may still be kept of it."""

    def __init__(self, path: Path, notes: list[Note], wanted: _Wanted) -> None:
        self._path = path
        self._notes = notes
        self._wanted = wanted
        self._kept_bytes = 0
        self._members = 0

    def of_zip(self) -> Iterator[Handed]:
        """Members of a zip archive."""
        import zipfile
        import zlib

        try:
            with zipfile.ZipFile(self._path) as archive:
                yield from self._zip_members(archive)
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, OSError, ValueError, EOFError) as error:
            self._damaged(error)

    def _zip_members(self, archive: ZipFile) -> Iterator[Handed]:
        for info in archive.infolist():
            if self._is_full():
                return
            mode = info.external_attr >> 16
            if info.is_dir():
                continue
            if mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode):
                self._refused(info.filename, "is a link or a device")
            elif info.flag_bits & 1:
                self._refused(info.filename, "is encrypted")
            elif self._may_read(info.filename):
                with archive.open(info) as file:
                    yield self._handed(info.filename, file)

    def of_tar(self) -> Iterator[Handed]:
        """Members of a tar archive, packed or not, read once from front to back."""
        import tarfile

        class Bounded(tarfile.TarInfo):
            """A header that does not make the reader hold a name of a gigabyte."""

            @classmethod
            def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Bounded:
                info = super().frombuf(buf, encoding, errors)
                if info.type in (b"x", b"g", b"X", b"L", b"K") and info.size > MAX_HEADER_BYTES:
                    raise tarfile.ReadError("a header in it is too large")
                return info

        try:
            with (
                Opened(str(self._path), self._path.open("rb", buffering=0)) as opened,
                tarfile.open(fileobj=opened, mode="r|", tarinfo=Bounded) as archive,
            ):
                yield from self._tar_members(archive)
            self._notes.extend(opened.notes)
        except (tarfile.TarError, OSError, ValueError, EOFError) as error:
            self._damaged(error)

    def _tar_members(self, archive: TarFile) -> Iterator[Handed]:
        for info in archive:
            # Every header that was read stays in a list otherwise.
            archive.members.clear()  # type: ignore[attr-defined]
            if self._is_full() or info.offset > MAX_PASSED_BYTES:
                return
            if info.isdir():
                continue
            if not info.isreg():
                self._refused(info.name, "is a link or a device")
            elif self._may_read(info.name) and (file := archive.extractfile(info)) is not None:
                yield self._handed(info.name, file)

    def _may_read(self, name: str) -> bool:
        parts = name.replace("\\", "/").split("/")
        if name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0] or "\0" in name:
            self._refused(name, "has a name that leads out of the archive")
            return False
        return self._wanted(name)

    def _handed(self, name: str, file: IO[bytes]) -> Handed:
        limit = min(MAX_MEMBER_BYTES, MAX_KEPT_BYTES - self._kept_bytes)
        data = file.read(limit + 1)
        path = f"{self._path.as_posix()}!/{name.removeprefix('./')}"
        if len(data) > limit:
            data = data[:limit]
            self._notes.append(Note(path, f"only its first {format_size(limit)} were read: unpack the archive for more"))
        self._kept_bytes += len(data)
        self._members += 1
        return Handed(path=path, data=data, size_bytes=len(data))

    def _is_full(self) -> bool:
        if self._members < MAX_MEMBERS and self._kept_bytes < MAX_KEPT_BYTES:
            return False
        self._notes.append(Note(str(self._path), "holds more than is read of an archive: unpack it and hand over the folder"))
        return True

    def _refused(self, name: str, why: str) -> None:
        self._notes.append(Note(f"{self._path.as_posix()}!/{name[:200]}", f"{why}: not read"))

    def _damaged(self, error: Exception) -> None:
        what = f"the archive is damaged ({error})"
        self._notes.append(
            Note(str(self._path), what if self._members else f"{what}: nothing could be read", fatal=not self._members)
        )
