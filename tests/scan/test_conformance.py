"""Both prefilters, at any size of a read, give what every expression on every line gives."""

from __future__ import annotations

import io
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstfault.scan import scanner as scanner_module
from firstfault.scan import stream as stream_module
from firstfault.scan.scanner import Scanner
from scan_signals import SIGNALS, brute_force, told

PREFILTERS = ("hyperscan", "shapes")
BLOCKS = (1000, 4096, 65_537, 1 << 20)

LITERALS = [one.literal.encode() for one in SIGNALS]
FRAGMENTS = [
    b"CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.1 GiB of which 1.02 GiB is free.",
    b"CUDA out of memory. Tried to allocate 512.00 MiB\nGPU 0 has\r\nof which 12.00 MiB is free",
    b"Killed process 4711 (python)",
    b"Killed process 12 Killed process 13",
    b"1234561234567",
    b"step: 17 'loss': 0.5",
    "\x1b[31mé: lost\x1b[0m".encode(),
    b"[rank3]: step: 9",
    b"Traceback (most recent call last):",
    b"train.py FAILED",
    b"  Failures:",
    b"slurmstepd: error: *** JOB 1 ON node-1 CANCELLED",
    b"\x00\x00\xff\xfe\xe2\x82",
    b"\r\n\r",
    b"(  ) [] 42 \t",
]
PIECES = st.one_of(
    st.sampled_from(FRAGMENTS),
    st.sampled_from(LITERALS),
    st.sampled_from(
        [literal[: len(literal) // 2] for literal in LITERALS] + [literal[len(literal) // 2 :] for literal in LITERALS]
    ),
    st.sampled_from([b"\n", b"\r", b"\r\n", b"\x1b[1m", b"\0", b" ", b"\n[rank1]: "]),
    # The oracle knows colours only, no other escape sequences.
    st.binary(max_size=6).map(lambda part: part.replace(b"\x1b", b"")),
    st.integers(1, 3000).map(lambda size: (b"plain words %d " % size * 400)[:size]),
)


def scan(data: bytes, prefilter: str, block: int, **options):
    return Scanner(SIGNALS, prefilter=prefilter, block_bytes=block).scan(io.BytesIO(data), **options)


@settings(max_examples=60, deadline=None)
@given(st.lists(PIECES, max_size=60), st.integers(1, 900))
def test_events_are_those_of_brute_force(parts: list[bytes], block: int) -> None:
    data = b"".join(parts)
    wanted = brute_force(data)
    results = [scan(data, prefilter, size) for prefilter in (*PREFILTERS, "auto") for size in (block + 100, 1 << 20)]
    assert told(results[0].hits) == wanted
    assert all(result == results[0] for result in results)


def test_counts_are_those_of_the_whole_text() -> None:
    data = b"".join(FRAGMENTS) * 50
    result = scan(data, "hyperscan", 1000)
    assert (result.size_bytes, result.nul_bytes, result.lines) == (len(data), data.count(b"\0"), data.count(b"\n") + 1)
    assert result.invalid_utf8 == data.decode("utf-8", "replace").count("�")


def long_log(seed: int, size: int) -> bytes:
    """Megabytes of lines, carriage returns and very long lines, with events spread over them."""
    chooser = random.Random(seed)
    parts, length = [], 0
    while length < size:
        draw = chooser.random()
        if draw < 0.02:
            part = chooser.choice(FRAGMENTS)
        elif draw < 0.03:
            part = b"x" * chooser.randrange(30_000)
        elif draw < 0.1:
            part = b"step: %d\n" % length
        else:
            part = b"%s line of words %d\n" % (chooser.choice([b"one", b"two", "drei€".encode()]), chooser.getrandbits(40))
        parts.append(part)
        length += len(part)
    return b"".join(parts)


@pytest.mark.parametrize("seed", [1, 2])
def test_megabytes_give_one_result_for_all_readers(seed: int) -> None:
    data = long_log(seed, 2_500_000)
    results = [scan(data, prefilter, block) for prefilter in PREFILTERS for block in BLOCKS]
    assert told(results[0].hits) == brute_force(data)
    assert len(results[0].windows) > 1
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize("cell", [512, 5000])
def test_cells_do_not_change_the_events(monkeypatch: pytest.MonkeyPatch, cell: int) -> None:
    data = long_log(3, 400_000)
    whole = scan(data, "hyperscan", 1 << 20)
    monkeypatch.setattr(scanner_module, "CELL_BYTES", cell)
    for prefilter in PREFILTERS:
        small = scan(data, prefilter, 3000)
        assert (small.hits, small.windows) == (whole.hits, whole.windows)
        # A line of progress that is rare while others are dense may stand in cells that are not searched for it.
        dense, rare = whole.progress
        assert [(one.first, one.last) for one in small.progress if one.first.signal.id == "step"] == [(dense.first, dense.last)]
        assert rare.first.signal.id == "loss"


@pytest.mark.parametrize("prefilter", PREFILTERS)
def test_a_literal_is_found_across_every_border(prefilter: str) -> None:
    line = b"CUDA out of memory. Tried to allocate 9.20 GiB.\nGPU 5 has a lot of which 1.00 MiB is free\n"
    for shift in range(len(line) + 1):
        data = b"." * (1000 - shift) + line
        hit = scan(data, prefilter, 1000).hits[0]
        assert hit.captures == {"size": round(9.2 * 2**30), "device": 5, "free": 2**20}, shift


@pytest.mark.parametrize("prefilter", PREFILTERS)
def test_a_literal_across_the_border_of_a_cell(prefilter: str) -> None:
    for shift in (0, 1, 7, 13, 14):
        data = b"\n" * (stream_module.CELL_BYTES - shift) + b"Killed process 5\n" + b"step: 4\n"
        result = scan(data, prefilter, 1 << 20)
        assert [hit.captures for hit in result.hits] == [{"pid": 5}, {"n": 5}]
        assert result.progress[0].first.captures == {"step": 4}
