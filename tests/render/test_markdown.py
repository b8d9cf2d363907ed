from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnosis_samples import ALL, TITLES, hostile
from firstfault.render.markdown import code, escape, fence, to_markdown
from golden_file import check

FENCE = re.compile(r"(`{3,})(.*)")
CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")


def _outside_code(markdown: str) -> str:
    """The text that Markdown would read as markup: no fences, no code spans, escapes undone to a letter."""
    kept = []
    marks = ""
    for line in markdown.split("\n"):
        found = FENCE.match(line)
        if marks:
            if found and found[1] == marks and not found[2]:
                marks = ""
        elif found:
            marks = found[1]
        else:
            kept.append(line)
    assert marks == "", "a fence is never closed"
    text = re.sub(r"\\[\\`*\[\]<>|~#_.)+=-]", "x", "\n".join(kept))
    return CODE.sub("code", text)


@pytest.mark.parametrize("name", ALL)
def test_golden(name: str) -> None:
    check(f"{name}.md", to_markdown(ALL[name](), titles=TITLES, inputs="runs/job-4127/"))


def test_log_text_leaves_no_fence_and_makes_no_markup() -> None:
    rest = _outside_code(to_markdown(hostile(), titles=TITLES))
    assert "onerror" in rest
    assert "<" not in rest
    assert "](" not in rest
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", rest)
    headings = [line for line in rest.split("\n") if line.startswith("#")]
    assert all(line.startswith(("## FAILED: ", "### ")) for line in headings)


@given(st.text(alphabet="`~a \n", max_size=60))
def test_a_fence_is_longer_than_any_run_in_it(text: str) -> None:
    lines = fence(text).split("\n")
    marks = lines[-1]
    assert set(marks) == {"`"}
    assert lines[0] == f"{marks}text"
    assert all(marks not in line for line in lines[1:-1])


@given(st.text(alphabet="`a ", min_size=1, max_size=30).filter(str.strip))
def test_a_code_span_holds_its_text(text: str) -> None:
    found = re.fullmatch(r"(`+)(.*[^`])\1", code(text)) or re.fullmatch(r"(`+) (.*) \1", code(text))
    assert found
    assert found[1] not in re.findall("`+", found[2])


def test_prose_keeps_its_code_spans_and_nothing_else() -> None:
    assert escape("set `max_length` *now* <b> [x](y) __init__ # 1") == (
        r"set `max_length` \*now\* \<b\> \[x\](y) \_\_init\_\_ \# 1"
    )
    assert escape("a `` b ` c") == r"a \`\` b \` c"
    assert escape("- item") == r"\- item"
    assert escape("1. item") == r"\1. item"


def test_a_table_cell_keeps_its_bars() -> None:
    assert escape("a `|` b", spans=False) == r"a \`\|\` b"
