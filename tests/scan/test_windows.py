"""Raw bytes around what matters."""

from __future__ import annotations

import io

import pytest

from firstfault.scan.scanner import Scanner
from firstfault.scan.windows import EDGE_BYTES, FIRST_BYTES, LAST_BYTES
from scan_signals import SIGNALS

FILLER = b"an ordinary line of a log that says nothing\n"


def scan(data: bytes, block: int = 1 << 20):
    return Scanner(SIGNALS, block_bytes=block).scan(io.BytesIO(data))


def filler(size: int) -> bytes:
    return FILLER * (size // len(FILLER))


def test_a_small_source_is_kept_whole() -> None:
    data = filler(1 << 20)
    window = scan(data, 10_000).windows[0]
    assert (window.offset, window.line, window.data) == (0, 1, data)


@pytest.mark.parametrize("block", [1000, 50_000, 1 << 20])
def test_head_tail_and_the_surroundings_of_an_error(block: int) -> None:
    before, after = filler(1_000_000), filler(900_000)
    data = before + b"Killed process 1\n" + after
    head, middle, tail = scan(data, block).windows
    assert (head.offset, len(head.data)) == (0, EDGE_BYTES)
    assert tail.offset + len(tail.data) == len(data)
    assert middle.offset <= len(before) - (32 << 10) + 40
    assert middle.offset + len(middle.data) >= len(before) + (96 << 10)
    for window in (head, middle, tail):
        assert data[window.offset : window.offset + len(window.data)] == window.data
        assert window.line == data.count(b"\n", 0, window.offset) + 1


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        (b"[rank3]: Traceback (most recent call last):", True),
        (b"Root Cause (first observed failure):", True),
        (b"Failures:", True),
        (b"\x1b[31mFailures:\x1b[0m", True),
        (b"slurmstepd: error: *** STEP 4.0 ON node-1 CANCELLED AT 10:00 ***", True),
        (b"Failures: 0 so far", False),
        (b" process 1 started", False),
    ],
)
def test_what_opens_a_window(line: bytes, kept: bool) -> None:
    data = filler(700_000) + line + b"\n" + filler(700_000)
    assert any(line in window.data for window in scan(data).windows) is kept


def test_neighbouring_windows_are_one() -> None:
    data = filler(600_000) + (b"Killed process 1\n" + filler(100_000)) * 5 + filler(600_000)
    assert len(scan(data, 3000).windows) == 3


@pytest.mark.parametrize("block", [10_000, 1 << 20])
def test_first_and_last_bytes_stay_when_there_is_too_much(block: int) -> None:
    data = (b"Killed process 1\n" + filler(60_000)) * 150
    result = scan(data, block)
    kept = sum(len(window.data) for window in result.windows)
    assert kept == FIRST_BYTES + LAST_BYTES
    assert kept + result.dropped_window_bytes == len(data)
    assert [window.offset for window in result.windows] == [0, len(data) - LAST_BYTES]
    assert result.windows[1].line == data.count(b"\n", 0, result.windows[1].offset) + 1
