"""Variables in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.launch.expansion import MAX_WORD_CHARS, expand, holds_unknown

KNOWN = {"N": "4", "E": "", "A": "${B}", "B": "$A", "W": "two words"}


@pytest.mark.parametrize(
    ("word", "result"),
    [
        ("$N", "4"),
        ("--n=${N}", "--n=4"),
        ("${N:-8}", "4"),
        ("${E:-8}", "8"),
        ("${E-8}", ""),
        ("${X:-8}", "8"),
        ("${X:-${N}}", "4"),
        ("${N:+x}", "x"),
        ("$X", "$X"),
        ("$(hostname):$N", "$(hostname):4"),
        ("$((N * 2 + 1))", "9"),
        ("$(( $N * X ))", "$(( 4 * X ))"),
        ("$((N / 0))", "$((N / 0))"),
        ("$A", "$A"),
        ("$W", "two words"),
    ],
)
def test_what_is_known_is_put_in(word: str, result: str) -> None:
    found = expand(word, KNOWN.get)
    assert found == result or (word == "$A" and holds_unknown(found))


@pytest.mark.parametrize(
    ("word", "unknown"), [("$N", True), ("`x`", True), ("$(x)", True), ("4", False), ("a$", False), ("$@", True)]
)
def test_words_that_are_not_known(word: str, unknown: bool) -> None:
    assert holds_unknown(word) is unknown


def test_variables_that_double_each_other_stay_bounded() -> None:
    bomb = {f"V{index}": f"$V{index + 1}$V{index + 1}$V{index + 1}" for index in range(60)}
    assert len(expand("$V0", bomb.get)) <= MAX_WORD_CHARS
    assert len(expand("$N" * 60_000, {"N": "x" * 100_000}.get)) <= MAX_WORD_CHARS


@given(st.text(alphabet="${}():-+=N4 *`'\"ab", max_size=60))
def test_any_word_can_be_expanded(word: str) -> None:
    expand(word, KNOWN.get)
