"""Progress lines: first and last of each rank, the others counted or passed by."""

from __future__ import annotations

import io
import re

import pytest

from firstfault.scan.progress import MAX_SERIES
from firstfault.scan.rank_key import RankKeys
from firstfault.scan.scanner import Scanner
from scan_signals import SIGNALS, signal

BLOCKS = (1000, 70_000, 1 << 20)


def rank_of(line: bytes) -> int | None:
    found = re.search(rb"\[rank(\d+)\]", line)
    return int(found[1]) if found else None


def scan(data: bytes, block: int = 1 << 20, prefilter: str = "auto", signals=SIGNALS):
    return Scanner(signals, prefilter=prefilter, block_bytes=block).scan(io.BytesIO(data), rank_of=rank_of)


@pytest.mark.parametrize("prefilter", ["hyperscan", "shapes"])
@pytest.mark.parametrize("block", BLOCKS)
def test_first_and_last_of_a_log_without_ranks(prefilter: str, block: int) -> None:
    lines = [b"step: %d of a long run\n" % number for number in range(40_000)]
    data = b"".join(lines) + b"nothing more\n" * 30_000
    (sample,) = scan(data, block, prefilter).progress
    assert (sample.key, sample.first.captures, sample.last.captures) == (None, {"step": 0}, {"step": 39_999})
    assert (sample.last.line, sample.last.offset) == (40_000, len(b"".join(lines[:-1])))
    assert 1 < sample.count <= 40_000
    assert scan(data, 1 << 20).progress == (sample,)


@pytest.mark.parametrize("prefilter", ["hyperscan", "shapes"])
@pytest.mark.parametrize("block", BLOCKS)
def test_each_rank_has_its_first_and_last(prefilter: str, block: int) -> None:
    lines = [b"[rank%d]: step: %d\n" % (rank, step) for step in range(4000) for rank in range(4) if rank != 2 or step < 1500]
    samples = {sample.key: sample for sample in scan(b"".join(lines), block, prefilter).progress}
    assert {key: (one.first.captures["step"], one.last.captures["step"], one.count) for key, one in samples.items()} == {
        0: (0, 3999, 4000),
        1: (0, 3999, 4000),
        2: (0, 1499, 1500),
        3: (0, 3999, 4000),
    }


@pytest.mark.parametrize("block", BLOCKS)
def test_ranks_that_show_late_are_noticed(block: int) -> None:
    early = b"step: 1 of the single process\n" * 20_000
    late = b"".join(b"[rank%d]: step: %d\n" % (rank, step) for step in range(9000) for rank in range(2))
    samples = {sample.key: sample for sample in scan(early + late, block).progress}
    assert samples.keys() == {None, 0, 1}
    assert [samples[rank].last.captures["step"] for rank in (0, 1)] == [8999, 8999]
    assert samples[None].last.captures["step"] == 1 or block


def test_progress_is_no_hit() -> None:
    result = scan(b"step: 1\n'loss': 0.5\n")
    assert result.hits == ()
    assert [(one.first.captures, one.last.captures) for one in result.progress] == [({"step": 1},) * 2, ({"loss": 0.5},) * 2]


@pytest.mark.parametrize("block", BLOCKS)
def test_lines_that_only_look_alike_do_not_hide_the_last_one(block: int) -> None:
    data = b"'loss': 0.25\n" * 3000 + b"'loss': 0.125\n" + b"step: none\n" * 20_000
    assert scan(data, block).progress[0].last.captures == {"loss": 0.125}


def test_a_literal_shared_with_an_event_keeps_all_events() -> None:
    fault = signal("bad", "step: ", r"step: [0-9]+ failed")
    data = (b"step: 1\n" * 10 + b"step: 2 failed\n") * 5000
    result = scan(data, prefilter="hyperscan", signals=(*SIGNALS, fault))
    assert len(result.hits) > 2000
    assert len(result.hits) + result.dropped_hits >= 5000
    assert result.hits[-1].offset == data.rindex(b"step: 2")


def test_a_number_that_equals_the_rank_by_chance_is_not_taken_for_it() -> None:
    asked = []
    keys = RankKeys(lambda line: asked.append(line) or rank_of(line))
    lines = [b"03 [rank3]: step", b"03 [rank3]: step", b"04 [rank3]: step", b"05 [rank1]: step", b"06 [rank2]: step"]
    assert [keys.key(line) for line in lines] == [3, 3, 3, 1, 2]
    assert len(asked) == 2


def test_lines_without_rank_are_asked_once_a_layout() -> None:
    asked = []
    keys = RankKeys(lambda line: asked.append(line) or None)
    assert {keys.key(b"10:%02d step" % second) for second in range(60)} == {None}
    assert len(asked) == 1


BARS = (
    *SIGNALS,
    signal("bar", "%| ", r"%\| (?P<step>[0-9]+)/(?P<total>[0-9]+) \[", "progress", holes={"step": "int", "total": "int"}),
)


def bar(step: int, total: int, rank: str = "") -> bytes:
    return b"\r%s %d%%| %d/%d [01:00<02:00, 1.00it/s]" % (rank.encode(), 100 * step // total, step, total)


def series(data: bytes, block: int = 1 << 20, prefilter: str = "auto", signals=BARS):
    """Rank key, total, first and last step of each series."""
    samples = scan(data, block, prefilter, signals).progress
    shown = {(one.key, one.first.captures.get("total")): (one.first.captures, one.last.captures) for one in samples}
    return {name: (first["step"], last["step"]) for name, (first, last) in shown.items()}


@pytest.mark.parametrize("block", BLOCKS)
def test_the_bar_of_an_evaluation_does_not_hide_that_of_training(block: int) -> None:
    parts = []
    for begin in range(0, 9000, 500):
        parts += [bar(step, 9600) for step in range(begin, begin + 500)]
        parts += [bar(step, 50) for step in range(51)] * 4
    parts += [bar(step, 9600) for step in range(9000, 9101)] + [bar(step, 50) for step in range(47)]
    for prefilter in ("hyperscan", "shapes"):
        assert series(b"".join(parts), block, prefilter) == {(None, 9600): (0, 9100), (None, 50): (0, 46)}


@pytest.mark.parametrize("block", BLOCKS)
def test_a_long_evaluation_does_not_hide_training_before_it(block: int) -> None:
    training = b"".join(bar(step, 9600) for step in range(201))
    assert series(training + bar(46, 50) * 60_000, block) == {(None, 9600): (0, 200), (None, 50): (46, 46)}


@pytest.mark.parametrize("block", BLOCKS)
def test_series_of_several_ranks(block: int) -> None:
    parts = [bar(step, 960, f"[rank{rank}]:") for step in range(900) for rank in range(3)]
    parts += [bar(step, 50, f"[rank{rank}]:") for step in range(40) for rank in range(3) if rank != 1] * 50
    shown = {(rank, 960): (0, 899) for rank in range(3)} | {(rank, 50): (0, 39) for rank in (0, 2)}
    assert series(b"".join(parts), block) == shown


@pytest.mark.parametrize("block", BLOCKS)
def test_a_literal_that_is_rare_beside_a_dense_one_keeps_its_last_line(block: int) -> None:
    dense = b"step: 7 of a long run\n" * 60_000
    data = b"".join(bar(step, 9600) + b"\n" + dense for step in range(9)) + bar(9, 9600) + b"\n" + dense[:300_000]
    assert series(data, block)[None, 9600] == (0, 9)


@pytest.mark.parametrize("block", BLOCKS)
def test_series_are_bounded_and_the_first_ones_stay(block: int) -> None:
    parts = [bar(step, 9600) for step in range(50)] + [bar(1, total) for total in range(100, 3000)]
    shown = series(b"".join(parts) + bar(50, 9600), block)
    assert len(shown) == MAX_SERIES
    assert shown[None, 9600] == (0, 50)


def test_a_total_is_not_taken_for_a_longer_one() -> None:
    data = b"".join(bar(step, 5000) for step in range(300)) + b"".join(bar(step, 500) for step in range(300))
    assert series(data) == {(None, 5000): (0, 299), (None, 500): (0, 299)}
