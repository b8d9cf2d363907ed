"""The search engines behind the seam."""

from __future__ import annotations

import re
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.scan import shape_prefilter
from firstfault.scan.hyperscan_prefilter import HyperscanPrefilter, HyperscanUnavailable
from firstfault.scan.literal_window import choose_windows, replace_windows
from firstfault.scan.prefilter import PlainPrefilter, make_prefilter
from firstfault.scan.shape_prefilter import ShapePrefilter, trie_pattern

LITERALS = [b"aaa", b"aa a", b"[123] (4)", b"abcabc", b"bcabcd", b"CUDA error", b"\xc3\xa9: "]
ENGINES = (PlainPrefilter, HyperscanPrefilter, ShapePrefilter)


def occurrences(data: bytes, literals: list[bytes] = LITERALS) -> set[tuple[int, int]]:
    return {
        (ident, at + len(literal))
        for ident, literal in enumerate(literals)
        for at in range(len(data))
        if data.startswith(literal, at)
    }


@pytest.mark.parametrize("engine", ENGINES)
@given(blocks=st.lists(st.text(alphabet="abcd []()1234\r\né: CUDAeror", max_size=80), max_size=4))
def test_every_occurrence_is_found_also_in_shapes_that_recur(engine, blocks: list[str]) -> None:
    prefilter = engine(LITERALS)
    for block in [*blocks, "x CUDA error 7", "x CUDA error 8", "aaaaa", "[123] (4)", *blocks]:
        data = block.encode()
        found = prefilter.find(memoryview(data))
        assert sorted(found) == sorted(occurrences(data))
        assert [end for _, end in found] == sorted(end for _, end in found)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_literal_marked_once_gives_its_first_occurrence(engine) -> None:
    prefilter = engine([b"abcabc", b"CUDA error"], {0}, once=True)
    assert sorted(prefilter.find(b"CUDA error abcabcabc abcabc CUDA error")) == [(0, 17), (1, 10), (1, 38)]


@given(
    st.lists(
        st.sampled_from(["error of rank", "rank", "zQ rank", "error", " of ", "zQzQzQ of rank 0", "of rank 1"]), max_size=12
    )
)
def test_a_literal_searched_for_in_part_is_found_whole_or_not(words: list[str]) -> None:
    literals = [b"zQzQzQ of rank", b"zQzQzQ of rank 0", b"error of rank", b"rank rank rank"]
    sample = b"error of rank 0 of rank 1 of rank 2 of rank"
    data = " ".join(words).encode()
    for block in (data, memoryview(data)):
        found = HyperscanPrefilter(literals, {2}, sample=sample).find(block)
        assert sorted(found) == sorted(occurrences(data, literals))
        assert [end for _, end in found] == sorted(end for _, end in found)


@given(st.lists(st.sampled_from(["error of rank", "rank of ", "some error, ", "zQ rank", "x"]), max_size=300))
def test_windows_that_turn_out_common_are_replaced_and_nothing_is_lost(words: list[str]) -> None:
    literals = [b"zQzQzQ of rank", b"error of rank", b"rank rank rank", b"error:", b"of  rank"]
    prefilter = HyperscanPrefilter(literals)
    for block in (("rank of error of some" * 60).encode(), " ".join(words).encode()) * 2:
        assert sorted(prefilter.find(block)) == sorted(occurrences(block, literals))


def test_a_common_window_is_searched_for_no_longer() -> None:
    windows = choose_windows([b"abcdef", b"cdefgh"], b"")
    assert list(windows) == [b"cdef"]
    assert replace_windows(windows, {b"cdef"}, b"cdef abcd " * 9) == {b"bcde": ((b"abcdef", 5),), b"defg": ((b"cdefgh", 5),)}
    prefilter = HyperscanPrefilter([b"abcdef", b"cdefgh"])
    assert prefilter.find(b"cdef abcd " * 9) == []
    assert prefilter._engine.windows == (b"bcde", b"defg")
    assert prefilter.find(b"cdef abcdefgh") == [(0, 11), (1, 13)]


def test_a_literal_whose_windows_are_all_common_is_searched_for_whole() -> None:
    assert choose_windows([b"abcdef"], b"abcdeabcd bcdef") == {b"abcdef": ((b"abcdef", 6),)}


def test_memory_of_shapes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape_prefilter, "MAX_SHAPES", 50)
    monkeypatch.setattr(shape_prefilter, "MAX_HOT_SHAPES", 20)
    prefilter = ShapePrefilter([b"CUDA error"])
    words = [re.sub(rb"[0-9]", lambda digit: b"%c" % (digit[0][0] + 50), b"w%d" % number) for number in range(400)]
    for _ in range(2):
        for word in words:
            assert prefilter.find(word + b"\n" + word + b" CUDA error") == [(0, 2 * len(word) + 12)]
    assert len(prefilter._cold) <= 50
    assert len(prefilter._hot) <= 20


@given(st.sets(st.binary(min_size=1, max_size=6), min_size=1, max_size=12), st.binary(max_size=40))
def test_the_trie_finds_what_any_word_finds(words: set[bytes], text: bytes) -> None:
    assert bool(re.search(trie_pattern(words), text)) is any(word in text for word in words)


def test_without_hyperscan_the_shapes_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hyperscan", None)
    assert isinstance(make_prefilter([b"literal"]), ShapePrefilter)
    with pytest.raises(HyperscanUnavailable, match="hyperscan cannot be loaded"):
        make_prefilter([b"literal"], choice="hyperscan")


def test_threads_may_share_a_prefilter() -> None:
    prefilter = HyperscanPrefilter([b"literal"])
    block = b"a literal " * 100_000
    counts = []
    threads = [threading.Thread(target=lambda: counts.append(len(prefilter.find(block)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [100_000] * 4
