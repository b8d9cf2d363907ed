"""The last line of each process, and the last lines of its work."""

from __future__ import annotations

from firstfault.ingest.last_lines import KEPT_LINES, ends_of
from firstfault.ingest.lines import Line
from firstfault.model.event import Event, ExceptionBlock, Frame, Place, Traceback
from firstfault.model.span import SourceSpan


def lines(*texts, rank=0):
    return [
        Line(text=text, raw=f"[rank{rank}]: {text}", offset=100 * number, number=number, place=Place(rank=rank))
        for number, text in enumerate(texts, 1)
    ]


def event(number, fault_class, role="either"):
    return Event(name="e", signal="e", role=role, fault_class=fault_class, span=SourceSpan("x", number, 0), text="")


def work(printed, *events, tracebacks=()):
    (end,) = ends_of(printed, events, tracebacks)
    return end.text, [line.text.removeprefix("[rank0]: ") for line in end.work]


def test_last_lines_of_a_rank_are_kept_as_printed():
    (end,) = ends_of(lines(*"abcdefg", " "))
    assert (end.text, end.line) == ("g", 7)
    assert [line.text for line in end.work] == [f"[rank0]: {text}" for text in "abcdefg"[-KEPT_LINES:]]


def test_what_follows_a_failed_wait_is_no_work():
    assert work(lines("saving", "timed out", "frame 1"), event(2, "collective_timeout")) == ("frame 1", ["saving"])


def test_error_that_the_rank_survived_is_left_out():
    assert work(lines("step 1", "disk error", "step 2"), event(2, "io_error")) == ("step 2", ["step 1", "step 2"])
    assert work(lines("a", "b"), event(2, None, role="context")) == ("b", ["a", "b"])


def test_traceback_is_left_out():
    frame = Frame("train.py", 1, "main", "x", SourceSpan("x", 3, 0))
    block = ExceptionBlock(type="ValueError", message="", frames=(frame,), span=SourceSpan("x", 5, 0), end_offset=600)
    printed = lines("step 1", "Traceback (most recent call last):", '  File "train.py"', "    x", "ValueError", "step 2")
    assert work(printed, tracebacks=[Traceback(blocks=(block,))]) == ("step 2", ["step 1", "step 2"])


def test_ranks_of_one_source_are_kept_apart():
    mixed = [line for pair in zip(lines("a", "b"), lines("c", "d", rank=1), strict=True) for line in pair]
    assert [(end.place.rank, len(end.work)) for end in ends_of(mixed)] == [(0, 2), (1, 2)]
