"""How the terminal may look: width, colour, ASCII, links; and the only place that writes escape codes."""

from __future__ import annotations

from typing import Literal

import msgspec

from firstfault.render import safe

Role = Literal["", "fault", "warn", "good", "head", "dim", "added"]

_CODES: dict[Role, str] = {"fault": "1;31", "warn": "1;33", "good": "1;32", "head": "1", "dim": "2", "added": "32"}
_NO_FILES = frozenset({"-", "stdin", "<stdin>", ""})


class Glyphs(msgspec.Struct, frozen=True, kw_only=True):
    """The signs of the timeline; meaning never hangs on colour alone."""

    first: str = "◆"
    waiting: str = "◇"
    stopped: str = "✗"
    pointer: str = "▶"
    outside: str = "▲"
    unknown: str = "?"
    busy: str = "━"
    alive: str = "─"
    more: str = "…"
    dot: str = "·"


ASCII_GLYPHS = Glyphs(
    first="#", waiting="o", stopped="x", pointer=">", outside="^", unknown="?", busy="=", alive="-", more="...", dot="|"
)


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What the reader's terminal can show."""

    width: int = 80
    color: bool = False
    ascii: bool = False
    links: bool = False

    @property
    def glyphs(self) -> Glyphs:
        """The signs to use."""
        return ASCII_GLYPHS if self.ascii else Glyphs()

    def line(self, text: str) -> str:
        """`text` as one harmless line, in ASCII if asked for."""
        text = safe.line(text)
        return safe.ascii_only(text) if self.ascii else text

    def block(self, text: str) -> list[str]:
        """The lines of `text`, harmless, with their indentation."""
        text = safe.block(text)
        return (safe.ascii_only(text) if self.ascii else text).split("\n")

    def paint(self, text: str, role: Role = "", link: str = "") -> str:
        """`text` with the codes of `role`, and as a link if links are wanted."""
        if self.color and role and text:
            text = f"\x1b[{_CODES[role]}m{text}\x1b[0m"
        if self.links and link:
            text = f"\x1b]8;;{link}\x1b\\{text}\x1b]8;;\x1b\\"
        return text

    def target(self, source: str, line: int) -> str:
        """The address of a line of a source for `paint`, empty where nothing can be opened."""
        if not self.links or source in _NO_FILES:
            return ""
        import os
        from urllib.parse import quote

        return f"file://{quote(os.path.abspath(source), errors='replace')}#{line}"  # noqa: PTH100 - no file is touched
