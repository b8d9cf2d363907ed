"""Lines of a window, and text without control sequences."""

from __future__ import annotations

import pytest

from firstfault.scan.lines import iter_lines, strip_ansi
from firstfault.scan.result import Window


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2K\x1b[1A10%", "10%"),
        ("\x1b]0;title\x07shell", "shell"),
        ("\x1b]8;;https://example.invalid\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\x00b\x00", "ab"),
        ("[31m no escape", "[31m no escape"),
        ("\x1b]0;never closed", "0;never closed"),
    ],
)
def test_strip_ansi(raw: str, text: str) -> None:
    assert strip_ansi(raw) == text


def test_lines_have_offsets_and_numbers() -> None:
    window = Window(offset=100, line=7, data=b"one\r\n10%\r20%\n\nlast")
    assert list(iter_lines(window)) == [(100, 7, b"one"), (105, 8, b"10%"), (109, 8, b"20%"), (113, 9, b""), (114, 10, b"last")]


def test_a_window_may_begin_between_the_two_ends_of_a_line() -> None:
    assert list(iter_lines(Window(offset=5, line=1, data=b"\nnext\n"))) == [(5, 1, b""), (6, 2, b"next")]
