import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.knowledge.regex_subset import SubsetError, widest_repeat


@pytest.mark.parametrize(
    ("pattern", "widest"),
    [
        ("abc", 1),
        (r"[0-9a-f:.]+", float("inf")),
        (r"(?:it/s|s/it)", 1),
        (r"(?:Epoch|Step)[^|]{0,60} {0,3}x", 60),
        (r"'?[0-9.]{1,9}'?", 9),
        (r"Signals\.SIGTERM|15", 1),
        (r"\bfoo\b", 1),
        (r"a+?b", float("inf")),
    ],
)
def test_the_common_subset_passes(pattern, widest):
    assert widest_repeat(pattern) == widest


@pytest.mark.parametrize(
    ("pattern", "part"),
    [
        ("(a)", "only `(?:...)` groups"),
        ("(?=a)", "only `(?:...)` groups"),
        ("(?<!a)b", "only `(?:...)` groups"),
        ("(?P<x>a)", "only `(?:...)` groups"),
        ("(?i:a)", "only `(?:...)` groups"),
        (r"a\1", "no escape"),
        (r"\p{L}", "no escape"),
        (r"\Aa", "no escape"),
        ("(?:a+)+", "what is repeated"),
        ("(?:a|aa)+", "what is repeated"),
        ("(?:aa?)*", "what is repeated"),
        ("(?:a{1,3}){2,5}", "what is repeated"),
        ("[a-z]+[a-z]*", "follow each other"),
        ("[a-z]+b?[a-z]+", "follow each other"),
        ("(?:x|[a-z]+)[a-z]{0,99}", "follow each other"),
        ("a{0,1001}", "counts to 1000"),
        ("a{5,2}", "backwards"),
        ("*a", "repeats nothing"),
        ("a**", "repeats nothing"),
        ("^?a", "cannot be repeated"),
        (r"a\b+", "cannot be repeated"),
        ("(?:a", "without its `)`"),
        ("a)", "without its `(`"),
        ("[a", "no escape or class"),
        ("[^]", "no escape or class"),
        ("[^]a]", "no escape or class"),
        ("(?:" * 12 + "a" + ")" * 12, "deeper than 10"),
    ],
)
def test_what_other_engines_refuse_or_match_slowly_is_refused(pattern, part):
    with pytest.raises(SubsetError, match=re.escape(part)):
        widest_repeat(pattern)


@given(st.text(alphabet="ab()[]|*+?{}0,1\\^-.:=", max_size=25))
def test_any_text_is_accepted_or_refused_and_what_is_accepted_compiles(pattern):
    try:
        widest_repeat(pattern)
    except SubsetError:
        return
    try:
        re.compile(pattern, re.ASCII)
    except re.error as error:
        # Ranges inside a class are left to the engine.
        assert "range" in str(error)
