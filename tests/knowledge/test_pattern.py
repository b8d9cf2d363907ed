import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.knowledge.pattern import PatternError, compile_text


def test_holes_become_named_groups_and_the_rest_is_literal():
    pattern = compile_text("rank {r:int} (pid: {p:int}) at {_:word} [x.y]")
    assert pattern.holes == {"r": "int", "p": "int"}
    assert pattern.runs == ("rank ", " (pid: ", ") at ", " [x.y]")
    assert pattern.literal == " (pid: "
    found = re.search(pattern.regex, "x rank -3 (pid: 77) at here [x.y]")
    assert found and found.groupdict() == {"r": "-3", "p": "77"}
    assert not re.search(pattern.regex, "rank 3 (pid: 77) at here [xzy]")


def test_doubled_braces_are_braces():
    pattern = compile_text("{{'loss': {loss:float}}}")
    assert re.search(pattern.regex, "{'loss': 2.5}")
    assert pattern.runs == ("{'loss': ", "}")


def test_literal_length_counts_bytes():
    assert compile_text("█████ {x:int} abcdefg").literal == "█████ "


def test_re_holes_end_at_their_own_parenthesis():
    pattern = compile_text(r"in {m:re([^)(]+(?:\)|x))}[{n:int}")
    assert re.search(pattern.regex, "in libfoo)[12")["m"] == "libfoo)"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "-12"),
        ("float", "1.5e-07"),
        ("float", "nan"),
        ("size", "594.00 MiB"),
        ("size", "12 bytes"),
        ("size", "1234kB"),
        ("size", "4096"),
        ("duration", "600040 milliseconds"),
        ("duration", "0:30:00"),
        ("duration", "4.9s"),
        ("rank", "1023"),
        ("path", "/mnt/data/x-1.tar"),
        ("path", r"C:\data\x.bin"),
        ("host", "node-1.cluster"),
        ("host", "[fe80::1%eth0]"),
        ("word", "ALLREDUCE,"),
        ("hex", "0x7f3a"),
        ("time", "2026-03-04 10:22:41.118"),
        ("time", "2026-03-04T10:22:41Z"),
        ("time", "Mar  4 10:22:41"),
        ("rest", "anything: at all"),
    ],
)
def test_each_kind_takes_its_texts_whole(kind, text):
    found = re.search(compile_text(f"begins {{x:{kind}}}").regex, f"begins {text}")
    assert found and found["x"] == text


def test_a_size_does_not_eat_into_the_next_word():
    assert re.search(compile_text("got {x:size} of").regex, "got 12 of")["x"] == "12"
    assert re.search(compile_text("got {x:size}").regex, "got 12 Gremlins")["x"] == "12"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a {x} b", "is no hole"),
        ("a {x:int b", "not closed"),
        ("a {x:integer}", "unknown kind `integer`"),
        ("a } b", "single `}`"),
        ("a {x:int} {x:int}", "stands twice"),
        ("{x:int}", "no literal part"),
        ("a {x:re((b))}", "only `(?:...)` groups"),
        ("a {x:re([b)} c", "write {x:re"),
        ("a {x:re([9-0])} c", "bad character range"),
        ("a {x:word}{y:rest}", "follows another"),
        ("{x:re([a-z]+)} failed", "may not begin"),
        ("a {x:rest} b {y:rest} c {z:rest} d", "open holes"),
        ("a {x:word}={y:word}={z:word}=b", "open holes"),
    ],
)
def test_wrong_texts_say_what_is_wrong(text, part):
    with pytest.raises(PatternError, match=re.escape(part)):
        compile_text(text)


def test_fixed_text_that_a_hole_cannot_hold_keeps_many_holes_linear():
    assert compile_text("a {x:word} b {y:word} c {z:word} d {w:re([^,]+)}, e")


@given(st.text(max_size=60).filter(lambda text: text.strip()))
def test_text_without_holes_matches_itself_and_nothing_shorter(text):
    pattern = compile_text(text.replace("{", "{{").replace("}", "}}"))
    assert pattern.literal == text
    assert re.fullmatch(pattern.regex, text)
    assert not re.search(pattern.regex, text[:-1])


@given(st.text(alphabet="ab {}:()_intre[]+", max_size=40))
def test_any_text_is_compiled_or_refused(text):
    try:
        pattern = compile_text(text)
    except PatternError:
        return
    re.compile(pattern.regex)
