"""Patterns that are compiled on use answer as compiled ones do."""

from __future__ import annotations

import gc
import importlib
import pkgutil
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import firstfault
from firstfault import lazy_pattern as module
from firstfault.lazy_pattern import lazy_pattern


def test_it_answers_as_the_compiled_pattern() -> None:
    lazy, compiled = lazy_pattern(r"(?P<n>\d+)\s*", re.IGNORECASE), re.compile(r"(?P<n>\d+)\s*", re.IGNORECASE)
    text = "12 and 7 "
    assert lazy.findall(text) == compiled.findall(text)
    assert [found.span() for found in lazy.finditer(text)] == [found.span() for found in compiled.finditer(text)]
    assert lazy.sub("-", text) == compiled.sub("-", text)
    assert lazy.split(text) == compiled.split(text)
    match, search = lazy.match(text, 1), lazy.search(text, 2)
    assert match is not None and match["n"] == "2"
    assert search is not None and search["n"] == "7"
    assert lazy.fullmatch(text) is None
    assert lazy_pattern(rb"\d").search(b"a1") is not None


def test_it_compiles_once_and_only_when_used(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    original = re.compile
    monkeypatch.setattr(re, "compile", lambda pattern, flags=0: compiled.append(pattern) or original(pattern, flags))
    lazy = lazy_pattern("one")
    assert not compiled
    assert lazy.search("one two") is not None
    assert lazy.match("one two") is not None
    assert compiled == ["one"]


def test_it_has_no_more_than_a_pattern() -> None:
    with pytest.raises(AttributeError):
        lazy_pattern("one").nothing  # type: ignore[attr-defined]  # noqa: B018


def test_it_is_not_compiled_for_a_text_without_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    lazy = lazy_pattern(r"pid (\d+)", needs="pid ")
    with monkeypatch.context() as patched:
        patched.setattr(re, "compile", lambda *given: pytest.fail("compiled"))
        assert lazy.match("12 MiB") is lazy.search("12 MiB") is lazy.fullmatch("12 MiB") is None
    first, again = lazy.search("with pid 7"), lazy.search("with pid 8")
    assert first is not None and first[1] == "7"
    assert again is not None and again[1] == "8"
    assert lazy.search("12 MiB") is None


def test_one_of_several_texts_is_enough_in_any_case_if_the_pattern_ignores_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lazy = lazy_pattern(r"(pid|tid) (\d+)", re.IGNORECASE, needs=("pid ", "tid "))
    with monkeypatch.context() as patched:
        patched.setattr(re, "compile", lambda *given: pytest.fail("compiled"))
        assert lazy.findall("12 MiB") == list(lazy.finditer("12 MiB")) == []
    assert lazy.findall("TID 7, pid 8") == [("TID", "7"), ("pid", "8")]
    assert lazy_pattern(rb"pid (\d+)", needs=b"pid ").search(b"pid 9") is not None


@pytest.fixture(scope="module")
def patterns() -> list[Any]:
    """Every lazy pattern of the product."""
    for found in pkgutil.walk_packages(firstfault.__path__, "firstfault."):
        # What is traced runs in the interpreter of the user, which has torch.
        if found.name == "firstfault.__main__" or found.name.startswith("firstfault.memory.traced"):
            continue
        try:
            importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            # The console's packages are an extra; the session `console` has them.
            if not found.name.startswith("firstfault.server") or (error.name or "").startswith("firstfault"):
                raise
    return [value for value in gc.get_objects() if isinstance(value, module._LazyPattern)]


def test_every_pattern_of_the_product_is_valid(patterns: list[Any]) -> None:
    assert len(patterns) > 150
    for pattern in patterns:
        re.compile(pattern.pattern, pattern.flags)


@given(st.data())
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_a_pattern_needs_stands_in_all_that_it_finds(patterns: list[Any], data: st.DataObject) -> None:
    needy = [pattern for pattern in patterns if pattern.needs is not None]
    assert needy
    # One a case: texts of all of them are more than Hypothesis makes for one.
    pattern = data.draw(st.sampled_from(needy))
    text = data.draw(st.from_regex(re.compile(pattern.pattern, pattern.flags)))
    held = text.lower() if pattern.flags & re.IGNORECASE else text
    assert any(need in held for need in pattern.needs), (pattern.pattern, text)
