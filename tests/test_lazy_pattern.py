"""Patterns that are compiled on use answer as compiled ones do."""

from __future__ import annotations

import gc
import importlib
import pkgutil
import re

import pytest

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


def test_every_pattern_of_the_product_is_valid() -> None:
    for found in pkgutil.walk_packages(firstfault.__path__, "firstfault."):
        if found.name != "firstfault.__main__":
            importlib.import_module(found.name)
    patterns = [value for value in gc.get_objects() if isinstance(value, module._LazyPattern)]
    assert len(patterns) > 150
    for pattern in patterns:
        pattern.match("" if isinstance(pattern.pattern, str) else b"")
