"""Decompression that keeps everything before the damage: gzip and zstd, several members, bounded memory."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from typing import Protocol

GZIP_MAGIC = b"\x1f\x8b\x08"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_FEED_BYTES = 128 << 10
_MAX_WINDOW_LOG = 27


class Readable(Protocol):
    """Anything that gives bytes."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; none at the end."""


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /, max_length: int) -> bytes: ...


class DamagedArchiveError(Exception):
    """The archive is cut or wrong from here on."""


class Unpacker:
    """Decompressed bytes of a file; `packed_bytes` counts what was taken out of the file for them."""

    def __init__(self, file: Readable, make: Callable[[], _Decompressor]) -> None:
        self._file = file
        self._make = make
        self._current: _Decompressor | None = None
        self._left = b""
        self.packed_bytes = 0

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes, none at the end; DamagedArchiveError after the last good byte."""
        while True:
            if self._current is None or self._current.eof:
                if not self._next_member():
                    return b""
                continue
            data = b""
            if self._current.needs_input:
                data = self._left or self._fetch()
                self._left = b""
                if not data:
                    raise DamagedArchiveError("it ends before its end mark")
            try:
                chunk = self._current.decompress(data, size)
            except Exception as error:  # zlib and the zstd modules raise classes of their own
                raise DamagedArchiveError(str(error)) from error
            if chunk:
                return chunk

    def _fetch(self) -> bytes:
        data = self._file.read(_FEED_BYTES)
        self.packed_bytes += len(data)
        return data

    def _next_member(self) -> bool:
        if self._current is not None:
            self._left = self._current.unused_data
        # Tapes and some tools pad the end of a gzip file with zeros.
        self._left = (self._left or self._fetch()).lstrip(b"\0")
        self._current = self._make() if self._left else None
        return self._current is not None


class _Gunzip:
    """zlib's decompressor with the interface that the zstd one has."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, /, max_length: int) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


def gunzip(file: Readable) -> Unpacker:
    """What a gzip file holds."""
    return Unpacker(file, _Gunzip)


def unzstd(file: Readable) -> Unpacker:
    """What a zstd file holds; ImportError where no decompressor is installed."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd

    # A frame may demand a window of 2 GiB of memory.
    options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _MAX_WINDOW_LOG}
    return Unpacker(file, lambda: zstd.ZstdDecompressor(options=options))
