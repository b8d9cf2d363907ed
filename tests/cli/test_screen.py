from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable

import pytest

from firstfault.cli.screen import Screen, find_screen, write

Watch = Callable[..., None]


class _Stream(io.TextIOWrapper):
    """A standard output that somebody watches, or not."""

    def __init__(self, watched: bool, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding)
        self._watched = watched

    def isatty(self) -> bool:
        return self._watched

    def fileno(self) -> int:
        return 1


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Called in the test itself: pytest sets its own stream after the fixtures."""

    def _watch(watched: bool = True, encoding: str = "utf-8") -> None:
        monkeypatch.setattr(sys, "stdout", _Stream(watched, encoding))
        monkeypatch.setattr(os, "get_terminal_size", lambda descriptor: os.terminal_size((132, 40)))
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.delenv("NO_COLOR", raising=False)

    return _watch


def _find(**options: object) -> Screen:
    return find_screen(**{"width": None, "color": "auto", "ascii_only": False, **options})  # type: ignore[arg-type]


def test_a_terminal_has_its_width_colour_and_links(watch: Watch) -> None:
    watch()
    assert _find() == Screen(width=132, color=True, ascii=False, links=True)


def test_nobody_watches(watch: Watch) -> None:
    watch(False)
    assert _find() == Screen(width=80)
    assert _find(color="always").color


def test_no_color(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    watch()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not _find().color
    assert _find().links
    assert _find(color="always").color


def test_a_dumb_terminal_gets_neither_colour_nor_links(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    watch()
    monkeypatch.setenv("TERM", "dumb")
    assert _find() == Screen(width=132)


def test_options_win(watch: Watch) -> None:
    watch()
    assert _find(width=60, color="never", ascii_only=True, links=False) == Screen(width=60, ascii=True)


def test_a_file_is_no_terminal(watch: Watch) -> None:
    watch()
    assert _find(to_file=True) == Screen(width=80)


def test_an_output_that_cannot_show_the_signs_gets_ascii(watch: Watch) -> None:
    watch(False, "latin-1")
    assert _find().ascii
    assert not _find(to_file=True).ascii


def test_writing_never_fails_for_the_encoding(watch: Watch) -> None:
    watch(False, "latin-1")
    write("é 中\n")
    assert sys.stdout.buffer.getvalue() == b"\xe9 \\u4e2d\n"  # type: ignore[attr-defined]


def test_a_terminal_without_size_has_80_columns(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> os.terminal_size:
        raise OSError

    watch()
    monkeypatch.setattr(os, "get_terminal_size", fail)
    assert _find().width == 80
