from __future__ import annotations

import pytest

from firstfault.engine.investigate import investigate
from firstfault.ingest.bundle import gather_text
from firstfault.knowledge.pack import load_pack

PACK = load_pack()
ASKED = "Hi, my training does not do what I want.\n\n"
STEPS = "step 1 loss 2.1\nstep 2 loss 2.2\n"
MESSAGE = "RuntimeError: mat1 and mat2 must have the same dtype, but got Double and Float"
FRAMES = 'Traceback (most recent call last):\n  File "/home/user/t.py", line 9, in step\n    run(batch)\n'
XID = "[ 512.000000] NVRM: Xid (PCI:0000:98:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def diagnose(text):
    return investigate(gather_text(text, PACK, name="post.txt"), PACK)


def test_what_a_run_printed_inside_a_post_is_as_sure_as_alone():
    assert diagnose(f"{ASKED}{STEPS}{FRAMES}{MESSAGE}\n\nAny idea? Thanks!\n").verdict == "established"
    assert diagnose(f"{ASKED}```\n{STEPS}{XID}\n```\n\nAny idea? Thanks!\n").entry == "gpu-fell-off-bus"


@pytest.mark.parametrize("line", [MESSAGE, f"{MESSAGE} was in the old ticket", XID, f"[rank0]: {MESSAGE}"])
def test_a_message_without_output_beside_it_is_at_most_likely(line):
    for text in (f"{ASKED}The FAQ lists this:\n\n```\n{line}\n```\n\nThanks!\n", f"{ASKED}{line}\n\n```\n{STEPS}```\n"):
        assert diagnose(text).verdict in ("likely", "undetermined")


@pytest.mark.parametrize(
    "line",
    [
        *(f"> {MESSAGE}", f"| {MESSAGE} | see FAQ |", f"**{MESSAGE}**", f'"{MESSAGE}"', f"# {MESSAGE}", f'echo "{MESSAGE}"'),
        *(f"<b>{MESSAGE}</b>", f'    raise RuntimeError("{MESSAGE}")', f"docs/faq.md:12: {MESSAGE}", f"`{MESSAGE}`"),
    ],
)
def test_a_marked_message_starts_nothing(line):
    assert diagnose(f"{ASKED}{STEPS}{line}\n\nThanks!\n").initiating is None


def test_words_before_a_message_keep_it_from_establishing():
    for words in ("Then came", "Perhaps", "我之前也遇到过"):
        assert diagnose(f"{ASKED}{STEPS}{words} {XID}\n\nThanks!\n").verdict != "established"


def test_a_line_below_a_traceback_is_no_second_message():
    text = f"{ASKED}{STEPS}{FRAMES}RuntimeError: odd\nprevious error: {MESSAGE}\n\nThanks!\n"
    assert diagnose(text).entry != "dtype-mismatch" or diagnose(text).verdict != "established"


def test_a_traceback_silences_a_bare_exception_beside_it():
    bare = "ValueError: Attempting to unscale FP16 gradients."
    found = diagnose(f"{ASKED}{bare}\n\n```\n{STEPS}{FRAMES}{MESSAGE}\n```\n")
    alone = diagnose(f"{ASKED}```\n{STEPS}{FRAMES}{MESSAGE}\n```\n")
    assert (found.entry, found.verdict) == (alone.entry, "established")


@pytest.mark.parametrize("command", ["git log", "gh issue list", "cat docs/faq.md", "history"])
def test_what_people_wrote_is_told_by_the_command_that_shows_it(command):
    assert diagnose(f"$ {command}\n{STEPS}{XID}\n").initiating is None


def test_a_lone_end_of_a_process_between_sentences_establishes_nothing():
    ended = "train.sh: line 9:  4412 Segmentation fault      (core dumped) python train.py"
    assert diagnose(f"{ASKED}Troubleshooting\n\n{ended}\n    Lower the batch size.\n\nThanks!\n").verdict != "established"


@pytest.mark.parametrize("line", ["/* {} */", "__{}__", "# {}"])
def test_a_kernel_line_between_marks_tells_at_most(line):
    kernel = (
        "Mar 04 10:22:41 node-1 kernel: NVRM: Xid (PCI:0000:2b:00): 119, pid=2231, name=python, Timeout after 6s of waiting"
    )
    assert diagnose(f"{ASKED}{STEPS}\n{line.format(kernel)}\n\nThanks!\n").verdict != "established"
    assert diagnose("__" + kernel + "__\n").verdict != "established"


def test_the_one_line_that_a_command_printed_is_its_output():
    text = "$ df -h | grep shm\nshm              64M   61M  3.1M  96% /dev/shm\n"
    report = gather_text(text, PACK, name="df.txt").reports[1]
    assert report.events
    assert not any(event.alone for event in report.events)


def test_a_file_of_nothing_but_the_message_holds_what_was_printed():
    alone = investigate(gather_text(f"{MESSAGE}\n", PACK, name="error.txt"), PACK)
    beside = investigate(gather_text(f"Troubleshooting\n=====\n\n{MESSAGE}\n    Lower it.\n", PACK, name="error.txt"), PACK)
    assert alone.verdict == "established"
    assert beside.verdict != "established"
