from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import get_character_cell_size

from firstfault.render import layout
from firstfault.render.layout import Canvas, cells, column_for, cut, fold, wrap_code, wrap_command
from firstfault.render.style import Look

TEXT = st.text(alphabet="ab /.中👩é-", max_size=120)


@given(TEXT, st.integers(2, 60), st.integers(0, 40))
def test_folded_lines_fit_and_lose_nothing(text: str, width: int, first: int) -> None:
    first = max(2, first) if first else 0
    lines = fold(text, width, first=first)
    assert all(cells(line) <= (first or width if number == 0 else width) for number, line in enumerate(lines))
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_what_is_left_out_is_marked() -> None:
    assert fold("one two three four", 8, max_lines=2) == ["one two", "three …"]
    assert fold("one two three", 8, max_lines=1, more="...") == ["one t..."]


def test_a_long_word_breaks_behind_a_separator() -> None:
    assert fold("see /data/checkpoints/model.bin", 20) == ["see", "/data/checkpoints/", "model.bin"]


def test_wide_characters_take_two_columns() -> None:
    assert cells("内存") == 4
    assert cells("👩\u200d🚀") == 4
    assert cells("⚠\ufe0f") == 2
    assert cells("◆━·") == 3
    assert cut("内存不足", 5) == "内存…"


@given(st.text(alphabet="ab| -中", min_size=1, max_size=200), st.integers(20, 60))
def test_a_wrapped_command_is_the_same_command(text: str, width: int) -> None:
    lines = wrap_command(text, width)
    assert all(cells(line) <= width for line in lines)
    joined = " ".join(line.removesuffix(" \\") for line in lines)
    if all(cells(word) < width - 8 for word in text.split()):
        assert joined.split() == text.split()


def test_a_command_breaks_before_a_pipe() -> None:
    lines = wrap_command("firstfault diagnose runs/job-4127/ --patch | git apply", 50)
    assert lines == ["firstfault diagnose runs/job-4127/ --patch \\", "    | git apply"]


def test_a_comment_stands_below_and_quotes_stay_whole() -> None:
    text = "dmesg -T | grep -i -E 'oom-kill|killed process' # or: journalctl -k --since '2 hours ago'"
    assert wrap_command(text, 60) == [
        "dmesg -T | grep -i -E 'oom-kill|killed process'",
        "# or: journalctl -k --since '2 hours ago'",
    ]
    shown = wrap_command("python train.py --name 'a b c d e f g h' --steps 3", 36)
    assert any("'a b c d e f g h'" in line for line in shown)


def test_a_word_that_must_break_is_joined_again_by_the_shell() -> None:
    canvas = Canvas(Look(width=40))
    canvas.command("nvidia-smi --query-gpu=index,pci.bus_id,pcie.link.width.current --format=csv")
    script = canvas.text().replace("  $ ", "", 1)
    joined = script.replace("\\\n", "")
    assert "index,pci.bus_id,pcie.link.width.current " in joined


@given(TEXT, st.integers(8, 60))
def test_wrapped_code_keeps_its_blanks(text: str, width: int) -> None:
    lines = wrap_code(text, width)
    assert all(cells(line) <= width for line in lines)
    assert lines[0] + "".join(line[4:] for line in lines[1:]) == text


def test_a_label_that_is_too_wide_stands_above_its_text() -> None:
    canvas = Canvas(Look(width=40))
    canvas.labelled("a/very/long/path/to/a/file.log:10", "text", column=14)
    assert canvas.text() == "  a/very/long/path/to/a/file.log:10\n      text\n"


def test_lines_of_evidence_stay_lines() -> None:
    canvas = Canvas(Look(width=40))
    canvas.labelled("a.log:1", 'File "x.py", line 3, in f\n    return g()\n\nmore', column=14, max_lines=2)
    assert canvas.text() == '  a.log:1     File "x.py", line 3, in f\n              return g()\n'


def test_the_right_column_ends_at_the_edge() -> None:
    canvas = Canvas(Look(width=40))
    canvas.labelled("label", "text", column=14, right="for 2")
    assert canvas.text() == "  label       text                 for 2\n"


def test_two_canvases_stand_beside_each_other() -> None:
    canvas, left, right = Canvas(Look(width=40)), Canvas(Look(width=19)), Canvas(Look(width=19))
    left.put(("left", ""))
    left.put(("more", ""))
    right.put(("right", ""))
    canvas.beside(left, right)
    assert canvas.text() == "left" + " " * 17 + "right\nmore\n"


def test_the_characters_counted_without_tables_are_narrow() -> None:
    narrow = [chr(code) for code in range(0x20, 0x3000) if layout._NARROW.fullmatch(chr(code))]
    assert len(narrow) > 1000
    assert [character for character in narrow if get_character_cell_size(character) != 1] == []


def test_one_long_label_does_not_push_the_column() -> None:
    assert column_for(["a.log:1", "x" * 70], 80) == 15
    assert column_for(["logs/rank0.log:8829"], 80) == 23


def test_paint_is_used_only_when_asked_for() -> None:
    plain, painted = Canvas(Look(width=40)), Canvas(Look(width=40, color=True))
    for canvas in (plain, painted):
        canvas.put(("FAILED", "fault"), ("  title", "head"))
    assert plain.text() == "FAILED  title\n"
    assert painted.text() == "\x1b[1;31mFAILED\x1b[0m\x1b[1m  title\x1b[0m\n"
