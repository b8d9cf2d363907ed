"""Streams of what was handed over: decompressed, decoded to bytes of UTF-8, bounded, never failing in the middle."""

from __future__ import annotations

import codecs
import io
from typing import TYPE_CHECKING, BinaryIO, cast

from firstfault.ingest.handed import Handed
from firstfault.ingest.unpack import GZIP_MAGIC, ZSTD_MAGIC, DamagedArchiveError, Readable, Unpacker, gunzip, unzstd
from firstfault.model.bundle import Note
from firstfault.units import format_size

if TYPE_CHECKING:
    from firstfault.ingest.envelope import EnvelopeDecoder

HEAD_BYTES = 64 << 10
MAX_RATIO = 1_000
MAX_UNPACKED_BYTES = 64 << 30
RATIO_COUNTS_FROM_BYTES = 64 << 20
_READ_BYTES = 1 << 20
_UTF16_MARKS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


class Opened(io.RawIOBase):
    """The text of one input. What went wrong on the way stands in `notes`, never in an exception.

    `head` is its beginning and can be looked at before reading. `whole` turns False if the input ended before its time or
    was cut at a limit.
    """

    def __init__(self, path: str, file: BinaryIO) -> None:
        super().__init__()
        self.path = path
        self.notes: list[Note] = []
        self.whole = True
        self._file = file
        self._ended = False
        self._given_bytes = 0
        self._decoder: codecs.IncrementalDecoder | EnvelopeDecoder | None = None
        self._pending = b""
        self._unpacker: Unpacker | None = None
        magic = self._take(len(ZSTD_MAGIC))
        self._source: Readable = _Chained(magic, file)
        try:
            if magic.startswith(GZIP_MAGIC):
                self._source = self._unpacker = gunzip(self._source)
            elif magic == ZSTD_MAGIC:
                self._source = self._unpacker = unzstd(self._source)
        except ImportError as error:
            self._stop(f"zstd cannot be unpacked here: {error}", fatal=True)
        self.head = self._pending = self._read_head()

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill `buffer`; less only at the end of the input."""
        view = memoryview(buffer).cast("B")
        filled = 0
        while filled < len(view):
            chunk = self._pending or self._decoded(len(view) - filled)
            if not chunk:
                break
            taken = chunk[: len(view) - filled]
            view[filled : filled + len(taken)] = taken
            self._pending = chunk[len(taken) :]
            filled += len(taken)
        return filled

    @property
    def converted(self) -> bool:
        """True if the file was packed, or is text of another encoding."""
        return self._unpacker is not None or self._decoder is not None or self.head.startswith(codecs.BOM_UTF8)

    def close(self) -> None:
        """Close the file below too."""
        if not self.closed:
            self._file.close()
        super().close()

    def _take(self, size: int) -> bytes:
        try:
            return self._file.read(size)
        except OSError as error:
            return self._stop(f"cannot be read: {error.strerror or error}", fatal=True)

    def _read_head(self) -> bytes:
        raw = b""
        while len(raw) < HEAD_BYTES and (chunk := self._next(HEAD_BYTES - len(raw))):
            raw += chunk
        encoding = _wide_encoding(raw)
        if encoding is None and raw.startswith(b'{"'):
            return self._unwrapped(raw)
        if encoding is None:
            return raw
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        self.notes.append(Note(self.path, f"is {encoding} text: byte offsets count in its UTF-8 form"))
        return self._decoder.decode(raw).removeprefix("\ufeff").encode()

    def _unwrapped(self, raw: bytes) -> bytes:
        from firstfault.ingest.envelope import EnvelopeDecoder, is_wrapped

        if not is_wrapped(raw):
            return raw
        self._decoder = EnvelopeDecoder()
        self.notes.append(Note(self.path, "is a log in lines of JSON: byte offsets count in the text that they hold"))
        return self._decoder.decode(raw, final=self._ended).encode()

    def _decoded(self, size: int) -> bytes:
        if self._decoder is None:
            return self._next(min(size, _READ_BYTES))
        text, chunk = "", b"-"
        while chunk and not text:
            chunk = self._next(_READ_BYTES)
            text = self._decoder.decode(chunk, final=not chunk)
        return text.encode("utf-8", errors="replace")

    def _next(self, size: int) -> bytes:
        """The next decompressed bytes; none at the end, at a limit, and from where the input is damaged."""
        if self._ended:
            return b""
        try:
            chunk = self._source.read(size)
        except DamagedArchiveError as error:
            return self._stop(f"the archive is damaged ({error}): {self._so_far()}", fatal=not self._given_bytes)
        except OSError as error:
            return self._stop(f"reading failed ({error.strerror or error}): {self._so_far()}", fatal=not self._given_bytes)
        self._given_bytes += len(chunk)
        if self._unpacker is not None and self._too_much(self._unpacker):
            return self._stop(f"unpacks to more than {format_size(self._given_bytes)}: the rest was not read")
        return chunk

    def _too_much(self, unpacker: Unpacker) -> bool:
        if self._given_bytes > MAX_UNPACKED_BYTES:
            return True
        return self._given_bytes > RATIO_COUNTS_FROM_BYTES and self._given_bytes > MAX_RATIO * unpacker.packed_bytes

    def _so_far(self) -> str:
        return f"the first {format_size(self._given_bytes)} could be read" if self._given_bytes else "nothing could be read"

    def _stop(self, what: str, *, fatal: bool = False) -> bytes:
        self._ended = True
        self.whole = False
        self.notes.append(Note(self.path, what, fatal=fatal))
        return b""


class _Chained:
    """Bytes that were read already, then the rest of the file."""

    def __init__(self, first: bytes, file: BinaryIO) -> None:
        self._first = first
        self._file = file

    def read(self, size: int, /) -> bytes:
        if self._first:
            taken, self._first = self._first[:size], self._first[size:]
            return taken
        return self._file.read(size)

    def close(self) -> None:
        """Nothing to close: standard input belongs to the caller."""


def open_handed(handed: Handed) -> Opened:
    """The text of `handed`; OSError if its file cannot be opened at all."""
    if handed.location is not None:
        return Opened(handed.path, handed.location.open("rb", buffering=0))
    if handed.stream is None:
        return Opened(handed.path, io.BytesIO(handed.data))
    return Opened(handed.path, cast("BinaryIO", _Chained(handed.data, handed.stream)))


def _wide_encoding(head: bytes) -> str | None:
    """The UTF-16 flavour of a text, by its mark or by the zero in every second byte."""
    for mark, name in _UTF16_MARKS:
        if head.startswith(mark):
            return name
    sample = head[:2048]
    half = len(sample) // 2
    if half < 8:
        return None
    odd, even = sample[1::2].count(0) / half, sample[0::2].count(0) / half
    if odd > 0.9 and even < 0.1:
        return "utf-16-le"
    if even > 0.9 and odd < 0.1:
        return "utf-16-be"
    return None
