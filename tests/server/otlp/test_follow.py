"""Of a stream, evidence and its surroundings are kept, however the stream is cut into requests."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from firstfault.knowledge.pack import load_pack
from firstfault.scan.scanner import Scanner
from firstfault.server.otlp.follow import LINES_BEFORE, MAX_KEPT_LINES, SIGHTINGS, Stream

SCANNER = Scanner(load_pack().signals)
CRASH = [
    "Traceback (most recent call last):",
    '  File "/home/user/train.py", line 16, in main',
    "    weight = total / positives",
    "ZeroDivisionError: division by zero",
]
QUIET = [f"INFO tokenizing shard {number}" for number in range(200)]


def keep(lines: list[str], cuts: list[int] | None = None) -> list[tuple[int, int, str]]:
    stream, kept, start = Stream(), [], 0
    for stop in [*sorted(cuts or []), len(lines)]:
        part = lines[start:stop]
        if part:
            kept += stream.take(part, [0] * len(part), SCANNER)[0]
        start = max(start, stop)
    return [(line.number, line.offset, line.text) for line in kept]


def test_quiet_lines_are_not_kept() -> None:
    assert keep(QUIET) == []


def test_a_traceback_is_kept_with_what_stands_before_it() -> None:
    kept = keep(QUIET + CRASH + QUIET)
    numbers = [number for number, _, _ in kept]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert [text for number, _, text in kept if 200 < number <= 204] == CRASH
    assert numbers[0] == 201 - LINES_BEFORE + 1


@given(st.lists(st.integers(min_value=0, max_value=404), max_size=6))
def test_where_requests_end_makes_no_difference(cuts: list[int]) -> None:
    lines = QUIET + CRASH + QUIET
    assert keep(lines, cuts) == keep(lines)


def test_offsets_count_the_bytes_of_the_stream() -> None:
    lines = ["größe", *CRASH]
    data = "\n".join(lines).encode()
    assert all(data[offset:].startswith(text.encode()) for _, offset, text in keep(lines))


def test_a_message_at_every_step_is_kept_a_few_times_only() -> None:
    warning = "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 128.0"
    lines = [line for _ in range(500) for line in (warning, "x" * 40)]
    kept = [text for _, _, text in keep(lines)]
    assert 0 < kept.count(warning) <= 3 * SIGHTINGS
    assert len(keep(CRASH * 5_000)) <= MAX_KEPT_LINES


def test_the_last_line_is_known_though_it_is_no_evidence() -> None:
    stream = Stream()
    stream.take(QUIET, list(range(200)), SCANNER)
    assert stream.last is not None
    assert (stream.last.number, stream.last.time_ns, stream.last.text) == (200, 199, QUIET[-1])
