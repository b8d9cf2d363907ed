"""Stacks of live processes as py-spy, faulthandler, pystack and torch's watchdog print them."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from firstfault.ingest.stacks import read_stacks, titled
from firstfault.model.stack import ProcessStack
from reader_lines import context, lines

HANGS = Path(__file__).parents[1] / "data" / "hangs"
_BODY = 'Thread 7 (idle): "MainThread"\n    f (a.py:1)\n'
_PIECES = (
    *("Process 7: python t.py", 'Thread 7 (idle): "MainThread"', "    f (a.py:1)", "Parent Process 3: x", "        Arguments:"),
    *("Current thread 0x01 (most recent call first):", "Thread 0x02 (most recent call first):", '  File "a.py", line 3 in f'),
    *("Traceback for thread 1 (x) [] (most recent call last):", '    (Python) File "a.py", line 3, in f', "Timeout (0:00:01)!"),
    *("Fatal Python error: Aborted", "Stack trace of the failed collective: ", "  <no Python frame>"),
)


def _of(text: str) -> tuple[ProcessStack, ...]:
    return read_stacks(lines(text), context())


def _recorded(name: str) -> tuple[ProcessStack, ...]:
    return _of((HANGS / name).read_text(encoding="utf-8"))


def _innermost(stack: ProcessStack) -> str:
    assert stack.main is not None
    return stack.main.frames[-1].function


def test_py_spy_names_pid_thread_and_frames() -> None:
    (stack,) = _recorded("data_worker/stack-rank1.txt")
    assert (stack.tool, stack.place.pid) == ("py-spy", 28857)
    assert stack.main is not None
    assert stack.main.state == "idle"
    assert [frame.function for frame in stack.main.frames][:2] == ["<module>", "train"]
    assert _innermost(stack) == "all_reduce"
    assert len(stack.threads) == 2


def test_a_data_worker_knows_its_parent() -> None:
    parent, worker = _recorded("data_worker/stack-rank2.txt")
    assert worker.parent_pid == parent.place.pid
    assert _innermost(worker) == "Shards.__getitem__"


def test_the_thread_that_holds_the_lock_of_python() -> None:
    (stack,) = _of('Process 7: python train.py\nThread 7 (active+gil): "MainThread"\n    train (train.py:27)\n')
    assert stack.main is not None
    assert stack.main.holds_gil


def test_titles_and_options_name_the_rank() -> None:
    body = 'Thread 7 (idle): "MainThread"\n    f (a.py:1)\n'
    titled, optioned, plain = _of(
        f"== rank 3 on node-1 ==\nProcess 7: python t.py\n{body}\nProcess 8: python t.py --local_rank=2\n{body}"
        f"the 5 ranks of this job\nProcess 9: python t.py\n{body}"
    )
    assert titled.place.rank == 3
    assert optioned.place.local_rank == 2
    assert plain.place.rank is None


def test_faulthandler_ends_a_process_at_its_main_thread() -> None:
    text = (HANGS / "faulthandler" / "rank_1.log").read_text(encoding="utf-8")
    found = _of(text + text)
    assert [_innermost(stack) for stack in found] == ["all_reduce", "all_reduce"]
    assert all(len(stack.threads) == 2 for stack in found)


def test_faulthandler_after_a_time_limit_shows_no_current_thread() -> None:
    frames = '  File "a.py", line 3 in f\n  File "a.py", line 9 in <module>\n'
    text = f"Timeout (0:00:10)!\nThread 0x00007f01 (most recent call first):\n{frames}"
    found = _of(text + text)
    assert [_innermost(stack) for stack in found] == ["f", "f"]


def test_a_crash_is_no_stack_of_a_live_process() -> None:
    frames = '  File "a.py", line 3 in <module>\n'
    (stack,) = _of(f"Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f01 (most recent call first):\n{frames}")
    assert stack.crashed


def test_pystack_prints_the_innermost_frame_last() -> None:
    (stack,) = _recorded("pystack/stack-rank1.txt")
    assert stack.tool == "pystack"
    assert _innermost(stack) == "all_reduce"


def test_the_watchdogs_frames_belong_to_the_rank_of_the_line_above() -> None:
    (stack,) = _of(
        "[rank3]: Stack trace of the failed collective: \n"
        "#0 all_reduce from /opt/venv/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py:3174\n"
        "#1 train_step from /home/user/train.py:88\n\n"
        "#2 a heading of something else\n"
    )
    assert (stack.tool, stack.place.rank) == ("watchdog", 3)
    assert _innermost(stack) == "all_reduce"
    assert stack.main is not None
    assert len(stack.main.frames) == 2


def test_ranks_that_print_at_once_are_kept_apart() -> None:
    found = _of(
        "[rank0]: Current thread 0x01 (most recent call first):\n[rank1]: Current thread 0x01 (most recent call first):\n"
        '[rank0]:   File "a.py", line 1 in f\n[rank1]:   File "a.py", line 2 in g\n'
    )
    assert [(stack.place.rank, stack.threads[0].frames[0].function) for stack in found] == [(0, "f"), (1, "g")]


def test_the_line_above_a_fence_names_the_rank_of_the_first_stack() -> None:
    found = _of("Process 7: python t.py\n" + _BODY + "Process 8: python t.py\n" + _BODY)
    assert [stack.place.rank for stack in titled(found, "It hangs.\n\nrank 3 (node 2):\n```\n")] == [3, None]
    assert [stack.place.rank for stack in titled(found, "rank 3 is fine.\n\nThe others:\n\n```text\n")] == [None, None]


@given(st.lists(st.sampled_from([*_PIECES, "", "    ", "#0 f from a.py:1"]), max_size=40))
def test_lines_in_any_order_are_read_without_an_error(pieces: list[str]) -> None:
    for stack in _of("\n".join(pieces)):
        assert stack.threads
        assert all(thread.frames for thread in stack.threads)


def test_odd_lines_are_passed_over() -> None:
    assert _of("Process 12: it died\nThread of thoughts (idle)\n    (py-spy)\nProcess group (most recent call first)\n") == ()
