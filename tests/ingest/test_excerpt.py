"""Of a large source what a diagnosis reads is kept; a small one whole."""

from __future__ import annotations

import io

import pytest

from firstfault.ingest.excerpt import (
    ALL_WHOLE_BYTES,
    EDGE_LINES,
    FEWEST_EDGE_LINES,
    LINES_AROUND,
    MAX_LINE_BYTES,
    SIGHTINGS,
    SMALLEST_WHOLE_BYTES,
    WHOLE_BYTES,
    KeptLine,
    edge_lines,
    is_text,
    stretches,
    whole_limit,
)
from firstfault.knowledge.pack import load_pack
from firstfault.scan.scanner import Scanner

SCANNER = Scanner(load_pack().signals)
QUIET = [f"DEBUG shard part-{number:05d} of the corpus came from the second tier of the cache" for number in range(8_000)]
ERROR = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 768.00 MiB. GPU 0 has a total capacity of 23.69 GiB"


def kept(lines: list[str], **options: int) -> list[list[KeptLine]]:
    data = ("\n".join(lines) + "\n").encode()
    found = stretches(SCANNER.scan(io.BytesIO(data)), **{"whole_bytes": WHOLE_BYTES, "edge": EDGE_LINES, **options})
    assert all(data[line.offset :].startswith(line.text.encode()) for stretch in found for line in stretch)
    return [list(stretch) for stretch in found]


def numbers(stretch: list[KeptLine]) -> list[int]:
    return [line.number for line in stretch]


def test_a_small_source_is_kept_whole() -> None:
    (one,) = kept(QUIET[:100])
    assert numbers(one) == list(range(1, 101))


def test_a_large_one_is_kept_around_what_happened_and_at_its_ends() -> None:
    head, middle, tail = kept([*QUIET[:4_000], ERROR, *QUIET[:4_000]])
    assert numbers(head) == list(range(1, EDGE_LINES + 1))
    assert numbers(middle) == list(range(4_001 - LINES_AROUND, 4_001 + LINES_AROUND + 1))
    assert numbers(tail) == list(range(8_001 - EDGE_LINES + 1, 8_002))


def test_a_traceback_is_kept_from_its_head() -> None:
    found = kept([*QUIET[:4_000], "Traceback (most recent call last):", *QUIET[:4_000]])
    assert any(4_001 in numbers(stretch) for stretch in found)


def test_what_is_printed_all_the_time_is_kept_a_few_times() -> None:
    lines = [text for quiet in QUIET for text in (quiet, ERROR)]
    shown = sum(line.text == ERROR for stretch in kept(lines) for line in stretch)
    assert 2 * SIGHTINGS <= shown < 1_000


def test_a_long_line_is_cut_and_what_stands_far_in_it_is_kept_beside() -> None:
    long = "x " * 40_000
    found = [line for stretch in kept([*QUIET[:4_000], f"{long}{ERROR}", *QUIET]) for line in stretch]
    assert max(len(line.text) for line in found) <= MAX_LINE_BYTES
    assert any(ERROR[:60] in line.text and line.number == 4_001 for line in found)


def test_many_sources_share_the_room() -> None:
    assert whole_limit(1) == WHOLE_BYTES and edge_lines(1) == EDGE_LINES
    assert whole_limit(64) == ALL_WHOLE_BYTES // 64
    assert whole_limit(10_000) == SMALLEST_WHOLE_BYTES and edge_lines(10_000) == FEWEST_EDGE_LINES


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"", True),
        (b"step 1\r\x1b[32mgreen\x1b[0m\n", True),
        ("größe\n".encode(), True),
        (b"\0" * 100 + b"step 1\n", True),
        (b"\x80\x04\x95", False),
        (b"PK\x03\x04rest", False),
        (bytes(range(1, 32)) * 9, False),
    ],
)
def test_what_is_text(head: bytes, expected: bool) -> None:
    assert is_text(head) is expected
