"""What is read without a YAML parser is what the parser reads; everything else is left to it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from firstfault.flat_yaml import Row, flat_rows

ACCELERATE = """\
# written by hand
compute_environment: LOCAL_MACHINE
debug: false
distributed_type: FSDP
downcast_bf16: 'no'
fsdp_config:
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP

  # of all layers
  fsdp_min_num_params: 100000000
  fsdp_offload_params: "yes"
deepspeed_config: {}
mixed_precision: no
num_processes: 8
main_process_ip:
weight: 0.01
"""
_KEYS = st.sampled_from([*"abcdefgh", "num_processes", "fsdp_config", "A1", "_x", "yes_no"])
_WORDS = (
    "no NO No nO y ~ null LOCAL_MACHINE bf16 /a/b.yaml a.b-c {} [] a:b #a &a *a << = .inf .nan | > 'no' '' '#' 'é' é ' \"b\""
)
_NUMBERS = "0 00 010 0x1F 1_000 -1 +1 1.5 -0.0 1. .5 1e3 1.0e3 1.5e+3 190:20:30 2024-01-02 10.0.0.1 -0 -1.50"
_VALUES = st.one_of(
    st.sampled_from(_WORDS.split() + _NUMBERS.split()),
    st.sampled_from(["", " ", "2024-01-02 03:04:05", "a b", "a: b", "a #b", "- a", "!x y", "'it''s'", '"a\\tb"', "\t1"]),
    st.text(alphabet="aN0.9-+_/:#'\" {}[]", max_size=6),
)
# Mostly what such a file holds, so that many texts are read; the rest is what must not be mistaken for it.
_USUAL = st.tuples(
    st.sampled_from(["", "", "  "]), _KEYS, st.just(": "), st.sampled_from(["1", "no", "bf16", "'a'", "", "0.5"])
)
_ODD = st.tuples(
    st.sampled_from(["", "  ", "    ", " "]),
    st.one_of(_KEYS, st.sampled_from(["no", "on", "null", "NO"])),
    st.sampled_from([": ", ": ", ":", ":  ", " :"]),
    _VALUES,
)
_OTHER = st.sampled_from(["", "   ", "# x", "  # x", "---", "...", "- a", "\t", "\r", "a", "? a", "%YAML 1.1", "<<: {}"])
_LINES = st.one_of(_USUAL.map("".join), _USUAL.map("".join), _ODD.map("".join), st.sampled_from(["", "# x"]), _OTHER)


def _content(rows: list[Row]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for row in rows:
        (content if row.parent is None else content[row.parent])[row.key] = row.value
    return content


def _lines(text: str) -> dict[tuple[str | None, str], int]:
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(node, yaml.MappingNode)
    found: dict[tuple[str | None, str], int] = {}
    for key, value in node.value:
        found[None, key.value] = key.start_mark.line
        for inner, _ in value.value if isinstance(value, yaml.MappingNode) else ():
            found[key.value, inner.value] = inner.start_mark.line
    return found


def test_a_configuration_of_accelerate_needs_no_parser() -> None:
    rows = flat_rows(ACCELERATE)
    assert rows is not None
    assert _content(rows) == yaml.safe_load(ACCELERATE)
    assert {(row.parent, row.key): row.number for row in rows} == _lines(ACCELERATE)


@given(st.lists(_LINES, max_size=6).map("\n".join))
@example("a:\n  A1: 1\n  # x\n  _x: no\n")
@example("a: 1\n  A1: 1")
@example("a:\nA1: -0")
def test_it_reads_what_the_parser_reads_or_nothing(text: str) -> None:
    rows = flat_rows(text)
    if rows is None:
        return
    # repr tells true from 1, and 1 from 1.0.
    assert repr(_content(rows)) == repr(yaml.safe_load(text))
    assert {(row.parent, row.key): row.number for row in rows} == _lines(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "# only\n", "a: 1\na: 2\n", "no: 1\n", "a: 010\n", "a: 2024-01-02\n", "a: 1e3\n", "a: b c\n", "a: 'é'\n"),
        *("a: b # c\n", "---\na: 1\n", "- a\n", '{"a": 1}', "a:\n  b:\n    c: 1\n", "a:\n  b: 1\n   c: 2\n", "a: 1\r\n"),
        *("a:\tb\n", " a: 1\n", "a: 1\n" + "#" * (16 << 10)),
    ],
)
def test_what_a_parser_has_to_read_is_left_to_it(text: str) -> None:
    assert flat_rows(text) is None
