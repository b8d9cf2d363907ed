"""Lines, segments and offsets, whatever the stream looks like and however it is read."""

from __future__ import annotations

import io
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest

from firstfault.scan.scanner import Scanner
from scan_signals import SIGNALS, brute_force, told


class Pipe:
    """A stream without seek that returns fewer bytes than asked for."""

    def __init__(self, data: bytes, step: int) -> None:
        self._data = io.BytesIO(data)
        self._step = step

    def read(self, size: int = -1) -> bytes:
        return self._data.read(self._step if size < 0 else min(size, self._step))


class Endless(io.RawIOBase):
    """The same stretch again and again, up to a size."""

    def __init__(self, stretch: bytes, size: int) -> None:
        self._stretch, self._left = stretch, size

    def readinto(self, room) -> int:
        count = min(len(room), self._left, len(self._stretch))
        room[:count] = self._stretch[:count]
        self._left -= count
        return count


def scan(data: bytes, block: int = 1 << 20, **options):
    return Scanner(SIGNALS, block_bytes=block, **options).scan(io.BytesIO(data))


def test_an_empty_stream() -> None:
    result = scan(b"")
    assert (result.hits, result.windows, result.lines, result.size_bytes, result.ends_with_newline) == ((), (), 0, 0, False)


@pytest.mark.parametrize("step", [1, 7, 4096])
def test_short_reads_of_a_pipe_change_nothing(step: int) -> None:
    data = b"hello\nKilled process 1\n" * 40 + b"step: 3"
    assert Scanner(SIGNALS).scan(Pipe(data, step)) == scan(data)  # type: ignore[arg-type]


def test_a_paste_loads_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstfault.scan.scanner.make_prefilter", lambda *_, **__: pytest.fail("an engine was built"))
    assert scan(b"Killed process 1\n" * 60).hits


def test_threads_share_a_scanner() -> None:
    scanner = Scanner(SIGNALS, block_bytes=5000)
    logs = [b"a line\n" * (20_000 + number) + b"Killed process %d\n" % number for number in range(12)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda log: scanner.scan(io.BytesIO(log)), logs * 3))
    assert results == [scan(log) for log in logs] * 3


def test_a_buffer_used_before_leaves_no_trace() -> None:
    scanner = Scanner(SIGNALS)
    scanner.scan(io.BytesIO(b"Killed process 1\n" * 20_000))
    assert scanner.scan(io.BytesIO(b"a line\n")) == scan(b"a line\n")


def test_a_stream_of_exactly_one_block() -> None:
    data = b"Killed process 9\n" * 64
    assert scan(data, block=len(data)) == scan(data, block=len(data) + 1)


def test_carriage_return_ends_a_segment_but_not_a_line() -> None:
    first, second = [hit for hit in scan(b"10%\rKilled process 1\r\n20%\rKilled process 2").hits if hit.signal.id == "killed"]
    assert (first.text, first.line, first.offset) == ("Killed process 1", 1, 4)
    assert (second.text, second.line, second.offset) == ("Killed process 2", 2, 26)


def test_colours_and_nuls_are_not_part_of_the_text() -> None:
    hit = scan(b"\x00\x00\x1b[31mCUDA out of memory\x1b[0m. Tried to allocate \x1b[1m2.00 GiB\x1b[0m\n").hits[0]
    assert hit.text == "CUDA out of memory. Tried to allocate 2.00 GiB"


def test_messages_glued_together_are_two_hits() -> None:
    hits = [hit for hit in scan(b"[rank0]: Killed process 1[rank1]: Killed process 2\n").hits if hit.signal.id == "killed"]
    assert [(hit.start, hit.captures) for hit in hits] == [(9, {"pid": 1}), (34, {"pid": 2})]


def test_two_signals_of_one_literal_both_count() -> None:
    assert {hit.signal.id for hit in scan(b"CUDA out of memory. Tried to allocate 1.00 MiB\n").hits} == {"oom", "oom.any"}


def test_continuation_behind_the_line_is_read_across_blocks() -> None:
    data = b"CUDA out of memory. Tried to allocate 1.00 MiB\n" + b"-" * 3000 + b"\nGPU 7 has\n"
    for block in (1000, 1 << 20):
        hits = [hit for hit in scan(data, block).hits if hit.signal.id == "oom"]
        assert [hit.captures for hit in hits] == [{"size": 2**20, "device": 7}]


def test_a_long_line_is_read_in_pieces_with_each_match_once() -> None:
    words = b"".join(b"Killed process %d, " % number + b"and so on, " * (number * 17 % 1000) for number in range(750))
    data = words + b" CUDA out of memory. Tried to allocate 3.00 GiB"
    assert len(data) > 4_000_000
    results = [scan(data, block) for block in (1000, 100_000, 1 << 20)]
    assert results[0] == results[1] == results[2]
    assert told(results[0].hits) == brute_force(data)
    assert all(len(hit.text) <= 8192 for hit in results[0].hits)


@pytest.mark.parametrize("separator", [b"", b"\n"])
def test_a_literal_repeated_without_end(separator: bytes) -> None:
    data = (b"123456" + separator) * 60_000 + b"\nKilled process 1\n"
    results = [scan(data, block, prefilter=prefilter) for block in (1000, 1 << 20) for prefilter in ("hyperscan", "shapes")]
    assert all(result == results[0] for result in results)
    assert results[0].dropped_hits > 40_000
    digits = [hit for hit in results[0].hits if hit.signal.id == "digits"]
    assert digits[0].offset == 0
    assert digits[-1].offset + digits[-1].start >= data.index(b"\nKilled") - 13
    assert results[0].hits[-1].captures == {"n": 1}


@pytest.mark.parametrize(
    ("data", "count"),
    [(b"\xff" * 10, 10), ("ä€𝄞".encode() * 500, 0), ("�".encode() * 9, 0), (b"\xe2\x82", 1), (b"a\xf0\x9f\x98z" * 300, 300)],
)
def test_invalid_utf8_is_counted_at_any_block_size(data: bytes, count: int) -> None:
    assert {scan(data, block).invalid_utf8 for block in (1, 2, 3, 64, 1 << 20)} == {count}


def test_memory_is_bounded_on_an_endless_log() -> None:
    quiet = b"a line that says nothing, and says it at some length, for most of a log is like that\n" * 20
    stretch = (quiet + b"Killed process 1 of many\nstep: 3\nTraceback (most recent call last):\n") * 30
    scanner = Scanner(SIGNALS, prefilter="shapes", block_bytes=1 << 16)
    peaks = []
    for size in (16 << 20, 24 << 20):
        tracemalloc.start()
        result = scanner.scan(Endless(stretch, size))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert result.dropped_hits > 0
        assert result.dropped_window_bytes > 0
    assert peaks[1] < peaks[0] * 1.1
