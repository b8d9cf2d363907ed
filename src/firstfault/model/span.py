"""Where something stands in what the user handed over."""

from __future__ import annotations

import msgspec


class SourceSpan(msgspec.Struct, frozen=True, order=True):
    """A place in a source: the file as the user named it, its line (from 1) and the byte offset of that line's match.

    For a part of a paste, line and offset count in the whole paste, so an editor can jump there.
    Offsets are bytes of the decompressed file. A file that has no lines, such as a dump, is cited by `part`: the place in
    its data (`pg_status[3]`).
    """

    source: str
    line: int
    offset: int
    part: str = ""

    def __str__(self) -> str:
        return f"{self.source}:{self.part or self.line}"
