"""What standard output can show, and the writing to it or to a file."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Literal

import msgspec

from firstfault.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

Color = Literal["auto", "always", "never"]
_DEFAULT_WIDTH = 80
_SIGNS = "◆◇✗▶━─…·"


class Screen(msgspec.Struct, frozen=True, kw_only=True):
    """Width, colour, ASCII and links for one output."""

    width: int = _DEFAULT_WIDTH
    color: bool = False
    ascii: bool = False
    links: bool = False


def find_screen(
    *,
    width: int | None = None,
    color: Color = "auto",
    ascii_only: bool = False,
    links: bool = True,
    to_file: bool = False,
) -> Screen:
    """What to use: the options first, then NO_COLOR, TERM and whether somebody watches."""
    watched = not to_file and sys.stdout.isatty()
    clever = watched and os.environ.get("TERM", "") != "dumb"
    wants_color = clever and not os.environ.get("NO_COLOR")
    return Screen(
        width=width or (_terminal_width() if watched else _DEFAULT_WIDTH),
        color=color == "always" or (color == "auto" and wants_color),
        ascii=ascii_only or not (to_file or _can_show(_SIGNS)),
        links=links and clever,
    )


def write(text: str | bytes, output: Path | None = None) -> None:
    """Puts `text` on standard output, or into the file `output`."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "backslashreplace")
    if output is None:
        if isinstance(text, str) and not _can_show(text):
            encoding = sys.stdout.encoding or "ascii"
            data = text.encode(encoding, "backslashreplace")
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return
    try:
        output.write_bytes(data)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror or error}", where=str(output)) from error


def _terminal_width() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _DEFAULT_WIDTH
    except OSError:
        return _DEFAULT_WIDTH


def _can_show(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
