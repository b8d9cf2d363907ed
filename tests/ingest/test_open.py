from __future__ import annotations

import gzip
import io
import sys

import pytest

from firstfault.ingest import open as module
from firstfault.ingest.handed import Handed
from firstfault.ingest.open import open_handed

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TEXT = b"".join(b"line %d of the log\n" % (index * 7919 % 10007) for index in range(20_000))


def _read(data, path="x.log"):
    with open_handed(Handed(path=path, data=data)) as opened:
        return io.BufferedReader(opened, 1 << 16).read(), opened


@pytest.mark.parametrize(
    "packed",
    [
        TEXT,
        gzip.compress(TEXT),
        zstd.compress(TEXT),
        gzip.compress(TEXT[:1000]) + gzip.compress(TEXT[1000:]),
        zstd.compress(TEXT[:1000]) + zstd.compress(TEXT[1000:]),
        gzip.compress(TEXT) + b"\0" * 512,
    ],
)
def test_content_decides_how_it_is_unpacked(packed):
    got, opened = _read(packed, "misleading.name")
    assert got == TEXT
    assert (opened.notes, opened.whole) == ([], True)
    assert opened.head == TEXT[: module.HEAD_BYTES]


@pytest.mark.parametrize("compress", [gzip.compress, zstd.compress])
def test_a_cut_archive_gives_what_could_be_read(compress):
    packed = compress(TEXT)
    got, opened = _read(packed[: len(packed) * 2 // 3])
    assert TEXT.startswith(got)
    assert len(got) > 10_000
    assert not opened.whole
    assert "ends before its end mark" in opened.notes[0].what
    assert not opened.notes[0].fatal


def test_a_damaged_archive_gives_what_stands_before_the_damage():
    packed = bytearray(gzip.compress(TEXT))
    packed[len(packed) // 2] ^= 0xFF
    got, opened = _read(bytes(packed))
    assert not opened.whole
    assert "damaged" in opened.notes[0].what
    assert len(got) > 1000


def test_an_archive_of_which_nothing_is_left_says_so():
    got, opened = _read(b"\x1f\x8b\x08")
    assert got == b""
    assert opened.notes[0].fatal


@pytest.mark.parametrize("compress", [gzip.compress, zstd.compress])
def test_bombs_are_stopped_by_their_ratio(compress, monkeypatch):
    monkeypatch.setattr(module, "RATIO_COUNTS_FROM_BYTES", 1 << 20)
    monkeypatch.setattr(module, "MAX_RATIO", 100)
    got, opened = _read(compress(b"\0" * (64 << 20)))
    assert len(got) < 40 << 20
    assert "unpacks to more than" in opened.notes[0].what


def test_the_unpacked_size_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "MAX_UNPACKED_BYTES", 100_000)
    got, opened = _read(gzip.compress(TEXT))
    assert len(got) <= 300_000
    assert not opened.whole


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_wide_text_is_given_as_utf8(encoding):
    text = TEXT.decode() * 3
    got, opened = _read(text.encode(encoding))
    assert got == text.encode()
    assert "utf-16" in opened.notes[0].what


def test_a_failing_disk_is_a_note():
    class Failing(io.RawIOBase):
        reads = 0

        def read(self, size=-1, /):
            self.reads += 1
            if self.reads > 2:
                raise OSError(5, "Input/output error")
            return b"x" * min(size, 100)

    opened = module.Opened("x.log", Failing())
    assert opened.read() == b"x" * (4 + 100)
    assert "Input/output error" in opened.notes[0].what
