"""One line as the structure readers see it: prefixes stripped into a place, position kept."""

from __future__ import annotations

import msgspec

from firstfault.model.event import Place


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a source.

    `text` lacks rank, host and time prefixes and ANSI codes (indentation is kept); `raw` is the line as printed, decoded.
    `number` (from 1) and `offset` (bytes) count in the file that the user named, also for a part of a paste.
    `place` is what the prefixes and the file's name say of rank, host, pid, attempt and time.
    """

    text: str
    raw: str
    offset: int
    number: int
    place: Place = Place()
