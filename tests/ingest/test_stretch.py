from __future__ import annotations

import pytest

from firstfault.ingest.lines import Line
from firstfault.ingest.stretch import agreed_place, label_of, line_at, lines_of, ranks_by_local, with_rank
from firstfault.model.event import Place
from firstfault.scan.result import Window


def window(text, offset=0, line=1):
    return Window(offset=offset, line=line, data=text if isinstance(text, bytes) else text.encode())


def test_lines_keep_where_they_stand_and_lose_prefixes_and_colours():
    lines = lines_of(window("\x1b[31m[rank3]:   File x\x1b[0m\nplain\n", 100, 7), Place(host="node-1"), "none")
    assert [(line.number, line.offset, line.text) for line in lines] == [(7, 100, "  File x"), (8, 127, "plain")]
    assert lines[0].place == Place(rank=3, host="node-1")
    assert lines[1].place == Place(host="node-1")


def test_a_byte_order_mark_is_no_text():
    assert lines_of(window(b"\xef\xbb\xbfTraceback\n"), Place(), "none")[0].text == "Traceback"


def test_progress_bars_carriage_returns_and_bad_bytes():
    lines = lines_of(window(b"a 1%\ra 2%\r\nb\xff\0c\n"), Place(), "none")
    assert [(line.number, line.text) for line in lines] == [(1, "a 1%"), (1, "a 2%"), (2, "b\ufffdc")]


def test_what_native_code_prints_below_belongs_to_the_same_rank():
    text = (
        "[rank1]:[E319 09:50:33.8 F.cpp:1] NCCL error: remote, NCCL version 2.21.5\nncclRemoteError: A call failed\n"
        "Last error:\nsocketProgress: closed\nanother process prints\n"
    )
    assert [line.place.rank for line in lines_of(window(text), Place(), "none")] == [1, 1, 1, 1, None]
    assert lines_of(window(text), Place(), "none")[1].place.time is None


@pytest.mark.parametrize("above", ["[rank1] INFO step 4 loss=2.1", "[rank1]: ValueError: bad", "(RANK 1) saved"])
def test_below_a_complete_line_stands_whatever_process_prints_next(above):
    text = f"{above}\nFatal Python error: Segmentation fault\nterminate called after throwing an instance of 'x'\n"
    assert [line.place.rank for line in lines_of(window(text), Place(), "none")] == [1, None, None]


def test_a_native_abort_is_followed_by_pythons_own_report():
    text = (
        "[rank1]:[E319 09:50:33.8 F.cpp:1] Watchdog thread ended\nterminate called after throwing an instance of 'x'\n"
        "  what():  failed\nFatal Python error: Aborted\n"
    )
    assert [line.place.rank for line in lines_of(window(text), Place(), "none")] == [1, 1, 1, 1]


def test_the_file_name_yields_to_the_lines():
    lines = window("[rank5]: a\n[rank5]: b\n")
    place, note = agreed_place("rank_3.log", Place(rank=3, host="node-1"), [lines])
    assert place == Place(rank=5, host="node-1")
    assert "rank 3" in note.what and "rank 5" in note.what
    assert agreed_place("rank_5.log", Place(rank=5), [lines]) == (Place(rank=5), None)
    assert agreed_place("x", Place(rank=1), [window("[rank5]: a\n[rank4]: b\n")])[0].rank is None


def test_a_rank_in_a_sub_group_does_not_contradict_the_file_name():
    assert agreed_place("rank_5.log", Place(rank=5), [window("[E F.cpp:1] [Rank 1] x\n")]) == (Place(rank=5), None)


def test_local_ranks_are_mapped_where_lines_name_both():
    lines = lines_of(window("[default2]:[rank6]: a\n[default2]:b\n"), Place(), "none")
    ranks = ranks_by_local(lines)
    assert [with_rank(line.place, ranks).rank for line in lines] == [6, 6]
    two_nodes = lines_of(window("[default2]:[rank6]: a\n[default2]:[rank2]: b\n"), Place(), "none")
    assert ranks_by_local(two_nodes) == {}


def test_labels_are_judged_over_the_whole_source():
    assert label_of([window("".join(f"{i % 4}: epoch {i}\n" for i in range(50)))]) == "task"
    assert label_of([]) == "none"


def test_a_byte_is_found_in_its_line_but_not_across_a_gap():
    lines = [Line(text="a", raw="a", offset=0, number=1), Line(text="b", raw="b", offset=500, number=90)]
    offsets = [0, 500]
    assert line_at(lines, offsets, 0, 1) is lines[0]
    assert line_at(lines, offsets, 501, 90) is lines[1]
    assert line_at(lines, offsets, 300, 50) is None
    assert line_at([], [], 3, 1) is None
