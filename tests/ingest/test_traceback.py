from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from firstfault.ingest.traceback import read_tracebacks
from firstfault.ingest.traceback_lines import begins_record
from firstfault.model.event import Place, Traceback
from reader_lines import context, lines


def read(text: str) -> tuple[Traceback, ...]:
    return read_tracebacks(lines(textwrap.dedent(text).strip("\n") + "\n"), context())


PLAIN = """
Traceback (most recent call last):
  File "train.py", line 9, in <module>
    main()
  File "train.py", line 5, in main
    loss = step(batch)
           ^^^^^^^^^^^
RuntimeError: sizes differ
    first: 3
second line
"""


def test_keeps_frames_code_and_message() -> None:
    (traceback,) = read(PLAIN)
    block = traceback.root
    assert [(frame.path, frame.line, frame.function, frame.code) for frame in block.frames] == [
        ("train.py", 9, "<module>", "main()"),
        ("train.py", 5, "main", "loss = step(batch)"),
    ]
    assert (block.type, block.message) == ("RuntimeError", "sizes differ\n    first: 3\nsecond line")
    assert block.whole
    assert block.span.line == 7
    assert block.frames[1].span.line == 4
    text = PLAIN.strip("\n")
    assert text.encode()[block.span.offset :].startswith(b"RuntimeError")
    assert block.end_offset == len(text) + 1


def test_a_log_record_or_a_blank_line_ends_the_message() -> None:
    (traceback,) = read(PLAIN + "2031-01-02 10:00:00,123 INFO saved\n")
    assert traceback.root.message.endswith("second line")
    (traceback,) = read(PLAIN + "\nsome other program speaks\n")
    assert traceback.root.message.endswith("second line")


def test_ranks_that_print_at_once_are_kept_apart() -> None:
    first, second = read(
        """
        [rank1]: Traceback (most recent call last):
        [rank0]: Traceback (most recent call last):
        [rank1]:   File "a.py", line 1, in one
        [rank0]:   File "b.py", line 2, in two
        [rank1]:     left()
        [rank0]:     right()
        [rank0]: KeyError: 'y'
        [rank1]: ValueError: x

        [rank1]: During handling of the above exception, another exception occurred:

        [rank1]: Traceback (most recent call last):
        [rank1]:   File "a.py", line 3, in one
        [rank1]: OSError: z
        """
    )
    assert (first.place.rank, first.root.type, first.root.frames[0].code) == (0, "KeyError", "right()")
    assert second.place.rank == 1
    assert [block.type for block in second.blocks] == ["ValueError", "OSError"]


def test_the_oldest_exception_is_the_root() -> None:
    (traceback,) = read(
        """
        Traceback (most recent call last):
          File "a.py", line 1, in read
        FileNotFoundError: [Errno 2] No such file

        The above exception was the direct cause of the following exception:

        Traceback (most recent call last):
          File "a.py", line 7, in load
        RuntimeError: cannot load
        """
    )
    assert (traceback.root.type, traceback.last.type) == ("FileNotFoundError", "RuntimeError")


def test_the_exception_of_a_dataloader_worker_comes_before_the_one_that_quotes_it() -> None:
    (traceback,) = read(
        """
        Traceback (most recent call last):
          File "train.py", line 1, in <module>
          File "torch/_utils.py", line 733, in reraise
            raise exception
        KeyError: Caught KeyError in DataLoader worker process 2.
        Original Traceback (most recent call last):
          File "data.py", line 4, in __getitem__
            return row["text"]
        KeyError: 'text'

        During handling of the above exception, another exception occurred:

        Traceback (most recent call last):
          File "train.py", line 3, in <module>
        SystemExit: 1
        """
    )
    assert [(block.type, len(block.frames)) for block in traceback.blocks] == [
        ("KeyError", 1),
        ("KeyError", 2),
        ("SystemExit", 1),
    ]
    assert traceback.root.message == "'text'"


def test_a_spawned_process_names_itself() -> None:
    (traceback,) = read(
        """
        Traceback (most recent call last):
          File "spawn.py", line 200, in join
        torch.multiprocessing.spawn.ProcessRaisedException:

        -- Process 3 terminated with the following error:
        Traceback (most recent call last):
          File "train.py", line 8, in worker
        ZeroDivisionError: division by zero
        """
    )
    assert traceback.root.type == "ZeroDivisionError"
    assert traceback.last.type == "torch.multiprocessing.spawn.ProcessRaisedException"
    assert (traceback.place.rank, traceback.place.local_rank) == (None, 3)


def test_a_launcher_report_names_the_rank_of_the_traceback_that_it_quotes() -> None:
    launcher, worker = read(
        """
        Traceback (most recent call last):
          File "run.py", line 1, in <module>
        torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
        ============================================================
        train.py FAILED
        [0]:
          time      : 2031-01-02_10:00:00
          host      : node-1
          rank      : 6 (local_rank: 2)
          exitcode  : 1 (pid: 44)
          traceback : Traceback (most recent call last):
            File "train.py", line 8, in main
              f()
          ValueError: inner
        """
    )
    assert launcher.place.rank is None
    assert (worker.place.rank, worker.place.local_rank, worker.place.host) == (6, 2, "node-1")
    assert (worker.root.type, worker.root.message) == ("ValueError", "inner")


def test_members_of_a_group_come_before_it() -> None:
    (traceback,) = read(
        """
          + Exception Group Traceback (most recent call last):
          |   File "a.py", line 1, in <module>
          | ExceptionGroup: outer (2 sub-exceptions)
          +-+---------------- 1 ----------------
            | Exception Group Traceback (most recent call last):
            |   File "b.py", line 2, in g
            | ExceptionGroup: nested (1 sub-exception)
            +-+---------------- 1 ----------------
              | Traceback (most recent call last):
              |   File "c.py", line 3, in h
              | ValueError: deep
              +------------------------------------
            +---------------- 2 ----------------
            | TypeError: flat
            +------------------------------------
        """
    )
    assert [block.message for block in traceback.blocks] == [
        "deep",
        "flat",
        "nested (1 sub-exception)",
        "outer (2 sub-exceptions)",
    ]
    assert all(block.whole for block in traceback.blocks)


def test_reads_the_frames_of_rich() -> None:
    (traceback,) = read(
        """
        ╭──────────── Traceback (most recent call last) ────────────╮
        │ /home/user/train.py:12 in main                            │
        │                                                           │
        │    9 │   x = 1                                            │
        │ ❱ 12 │   run(x)                                           │
        │ ╭─ locals ─╮                                              │
        │ │ x = 1    │                                              │
        │ ╰──────────╯                                              │
        │ /home/user/env/lib/python3.11/site-packages/torch/nn/modu │
        │ les/module.py:1775 in _call_impl                          │
        │ ❱ 1775 │   return forward(*args)                          │
        ╰───────────────────────────────────────────────────────────╯
        ValueError: bad
        """
    )
    block = traceback.root
    assert (block.type, block.message, block.whole) == ("ValueError", "bad", True)
    assert [(frame.line, frame.code) for frame in block.frames] == [(12, "run(x)"), (1775, "return forward(*args)")]
    assert block.frames[1].path.endswith("torch/nn/modules/module.py")


def test_hidden_frames_of_rich_make_it_incomplete() -> None:
    (traceback,) = read(
        """
        ╭──────── Traceback (most recent call last) ────────╮
        │ /home/user/train.py:12 in main                    │
        │ ... 7 frames hidden ...                           │
        ╰────────────────────────────────────────────────────╯
        ValueError: bad
        """
    )
    assert not traceback.root.whole


def test_reads_the_frames_of_loguru() -> None:
    (traceback,) = read(
        """
        Traceback (most recent call last):

          File "train.py", line 3, in <module>
            main()
            └ <function main at 0x7f0000000000>

        > File "train.py", line 10, in main
            step(x)
            │    └ 3
            └ <function step>

        RuntimeError: boom
        """
    )
    assert [frame.code for frame in traceback.root.frames] == ["main()", "step(x)"]
    assert (traceback.root.message, traceback.root.whole) == ("boom", True)


@pytest.mark.parametrize("place", ["Cell In[5], line 1", "<ipython-input-3-abcdef> in <module>"])
def test_reads_the_frames_of_a_notebook(place: str) -> None:
    (traceback,) = read(
        f"""
        -----------------------------------------------------------
        RuntimeError               Traceback (most recent call last)
        {place}
             12 x = 1
        ---> 14 trainer.train()

        File /opt/env/lib/trainer.py:1555, in Trainer.train(self, resume)
           1553     pass
        -> 1555     return inner()

        RuntimeError: device lost
        """
    )
    assert [(frame.line, frame.code) for frame in traceback.root.frames] == [(14, "trainer.train()"), (1555, "return inner()")]
    assert (traceback.root.type, traceback.root.message) == ("RuntimeError", "device lost")


def test_a_syntax_error_of_the_script_needs_no_header() -> None:
    (traceback,) = read('  File "train.py", line 3\n    x = = 1\n        ^\nSyntaxError: invalid syntax\n')
    assert (traceback.root.type, traceback.root.frames[0].line, traceback.root.whole) == ("SyntaxError", 3, True)


def test_cut_tracebacks_say_so() -> None:
    (headless,) = read('  File "a.py", line 3, in f\n    g()\nValueError: x\n')
    assert (headless.root.type, headless.root.whole) == ("ValueError", False)
    (endless,) = read('Traceback (most recent call last):\n  File "a.py", line 3, in f\n    g()\n')
    assert (endless.root.type, endless.root.whole, endless.root.span.line) == ("", False, 2)
    (gap,) = read('Traceback (most recent call last):\n  File "a.py", line 3, in f\n[... 12 lines cut ...]\nValueError: x\n')
    assert (gap.root.type, gap.root.whole) == ("ValueError", False)


def test_lines_that_interleaving_glued_together_are_read() -> None:
    (traceback,) = read(
        """
        2%|x| 3/100 [00:01<00:02]Traceback (most recent call last):
          File "a.py", line 1, in <module>  File "a.py", line 1, in <module>
            main()
          [Previous line repeated 12 more times]
        RecursionError: too deep
        """
    )
    assert [frame.function for frame in traceback.root.frames] == ["<module>", "<module>"]
    assert traceback.root.type == "RecursionError"


def test_an_unknown_prefix_before_every_line_is_taken_off() -> None:
    (traceback,) = read(
        'w7> Traceback (most recent call last):\nw7>   File "a.py", line 1, in f\nw7>     g()\nw7> ValueError: 1\n'
    )
    assert (traceback.root.type, traceback.root.frames[0].code) == ("ValueError", "g()")


def test_frames_may_lack_the_prefix_that_a_logger_gave_the_header() -> None:
    given_lines = lines(
        'ERROR failed\nTraceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\nValueError: 1\n'
    )
    at = Place(pid=7)
    mixed = [replace(line, place=at) if line.number <= 2 else line for line in given_lines]
    (traceback,) = read_tracebacks(mixed, context())
    assert (traceback.place.pid, traceback.root.type, len(traceback.root.frames)) == (7, "ValueError", 1)


def test_reads_a_traceback_inside_a_structured_record() -> None:
    (traceback,) = read(
        r'{"level": "e", "exc": "Traceback (most recent call last):\n  File \"t.py\", line 3, in main\n    f()\nOSError: no\n"}'
    )
    assert (traceback.root.type, traceback.root.message, traceback.root.frames[0].path) == ("OSError", "no", "t.py")


@pytest.mark.parametrize(
    "text",
    [
        "generated: 'Traceback (most recent call last): RuntimeError: NCCL error'\n",
        'Thread 0x01 (most recent call first):\n  File "a.py", line 3 in f\n  File "b.py", line 4 in g\n',
        'Stack (most recent call last):\n  File "a.py", line 3, in f\n    g()\nINFO done\n',
        'User stack trace:\n  File "a.py", line 3, in f\n    g()\nmore advice\n',
    ],
)
def test_what_only_talks_about_frames_is_no_exception(text: str) -> None:
    assert read(text) == ()


def test_user_frames_in_a_message_are_not_a_second_exception() -> None:
    (traceback,) = read(
        """
        Traceback (most recent call last):
          File "convert.py", line 1, in f
        torch._dynamo.exc.Unsupported: generic_jump

        from user code:
           File "m.py", line 5, in forward
            print(x)

        Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace
        """
    )
    assert len(traceback.blocks) == 1


def test_frames_are_bounded_and_the_ends_are_kept() -> None:
    body = "".join(f'  File "a.py", line {number}, in f\n' for number in range(1, 2001))
    (traceback,) = read(f"Traceback (most recent call last):\n{body}ValueError: x\n")
    frames = traceback.root.frames
    assert (len(frames), frames[0].line, frames[-1].line, traceback.root.whole) == (256, 1, 2000, False)


PIECES = st.sampled_from(
    [
        "Traceback (most recent call last):",
        '  File "a.py", line 3, in f',
        "    g()",
        "ValueError: x",
        "",
        "During handling of the above exception, another exception occurred:",
        "Original Traceback (most recent call last):",
        "-- Process 1 terminated with the following error:",
        "  + Exception Group Traceback (most recent call last):",
        "  +-+---------------- 1 ----------------",
        "    +------------------------------------",
        "╭── Traceback (most recent call last) ──╮",
        "│ ❱ 1 │ x │",
        "RuntimeError       Traceback (most recent call last)",
        "[rank1]: ValueError: Caught ValueError in DataLoader worker process 0.",
        "  rank      : 3 (local_rank: 3)",
    ]
)


@given(st.lists(PIECES | st.text(max_size=40), max_size=40))
def test_any_order_of_lines_is_read_without_an_error(pieces: list[str]) -> None:
    for traceback in read_tracebacks(lines("\n".join(pieces)), context()):
        assert traceback.blocks


@pytest.mark.parametrize(
    "announced",
    [
        "Exception ignored in: <function Pool.__del__ at 0x7f>",
        "Exception ignored while calling deallocator <function Pool.__del__ at 0x7f>:",
        "Exception ignored in atexit callback: <function stop at 0x7f>",
        " 50%|#####     | 5/10Exception ignored in: <generator object loop at 0x7f>",
        "Exception ignored in: <Pool with\n  2 workers>",
    ],
)
def test_what_python_ignores_is_marked(announced):
    text = f'{announced}\nTraceback (most recent call last):\n  File "/x/pool.py", line 3, in __del__\nOSError: handle\n'
    later = 'Traceback (most recent call last):\n  File "/x/train.py", line 9, in main\nValueError: bad\n'
    found = read_tracebacks(lines(text + "step 4\n" + later), context())
    assert [(one.root.type, one.ignored) for one in found] == [("OSError", True), ("ValueError", False)]


def test_ignored_exceptions_of_two_processes_in_turns():
    text = (
        "Exception ignored in: <a>\nException ignored in: <a>\n"
        "Traceback (most recent call last):\nTraceback (most recent call last):\n"
        '  File "/x/pool.py", line 3, in __del__\n  File "/x/pool.py", line 3, in __del__\nOSError: handle\nOSError: handle\n'
    )
    assert all(one.ignored for one in read_tracebacks(lines(text), context()))


def test_of_very_many_tracebacks_the_first_and_the_last_are_kept(monkeypatch):
    monkeypatch.setattr("firstfault.ingest.traceback.MAX_TRACEBACKS", 4)
    text = "".join(
        f'Traceback (most recent call last):\n  File "/x/t.py", line 3, in f\n    f()\nValueError: {index}\n'
        for index in range(50)
    )
    found = read_tracebacks(lines(text), context())
    assert [traceback.root.message for traceback in found] == ["0", "1", "48", "49"]


@pytest.mark.parametrize(
    "line",
    ["step 60 loss 0.91", "Epoch: 3 done", "=== run B ===", "[1]+  Exit 1    python train.py", "{'loss': 0.4, 'epoch': 1.0}"],
)
def test_output_below_an_exception_is_no_part_of_its_message(line):
    assert begins_record(line)


@pytest.mark.parametrize("line", ["stepping back", "  epochs: 3", "{key: value}", "= 3 expected"])
def test_further_lines_of_a_message_stay(line):
    assert not begins_record(line)
