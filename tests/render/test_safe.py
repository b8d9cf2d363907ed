from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnosis_samples import HOSTILE
from firstfault.render import safe

ANY_TEXT = st.text(alphabet=st.characters(), max_size=60)
ALLOWED_FORMAT = {"\u200c", "\u200d"}
"""Joiners: scripts and emoji need them, and widths are counted without joining."""


@given(ANY_TEXT)
def test_a_line_holds_nothing_that_acts(text: str) -> None:
    shown = safe.line(text)
    acting = [c for c in shown if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or c in "\u202a\u202e\u2066\u200f\ufeff"]
    assert acting == []


@given(ANY_TEXT)
def test_a_line_is_stable(text: str) -> None:
    assert safe.line(safe.line(text)) == safe.line(text)


def test_controls_are_spelled_out_and_colours_dropped() -> None:
    assert safe.line("\x1b[1;31mred\x1b[0m\x07 \x9b2J") == "red\\x07 \\x9b2J"
    assert safe.line("\x1b]8;;http://x\x1b\\y") == "\\x1b]8;;http://x\\x1b\\y"
    assert safe.line("a\u202eb\u2066c\U000e0041") == "a\\u202eb\\u2066c\\U000e0041"


def test_a_block_keeps_lines_and_indentation() -> None:
    assert safe.block("if x:\r\n\ty = 1\n") == "if x:\n    y = 1\n"
    assert safe.block("50%|##\r100%") == "50%|##\\x0d100%"


def test_stacked_marks_are_bounded() -> None:
    assert len(safe.line("a" + "\u0301" * 500)) == 4


def test_ascii_only_has_a_form_for_known_signs_and_spells_the_rest() -> None:
    assert safe.ascii_only("4 × 2 ≤ 9 … 中") == "4 x 2 <= 9 ... \\u4e2d"


@pytest.mark.parametrize("text", ["plain text", "tabs\tinside"])
def test_plain_ascii_passes_unchanged_but_for_tabs(text: str) -> None:
    assert safe.block(text) == text.expandtabs(4)


def test_the_hostile_sample_keeps_its_readable_words() -> None:
    shown = safe.line(HOSTILE)
    assert "中文日志 内存不足" in shown
    assert "\x1b" not in shown
