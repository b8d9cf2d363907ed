"""What a structure reader knows besides its lines: the source they stand in."""

from __future__ import annotations

import msgspec

from firstfault.ingest.lines import Line
from firstfault.model.bundle import Source
from firstfault.model.event import Place
from firstfault.model.span import SourceSpan


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """The source of the lines, and how to point into it."""

    source: Source

    @property
    def source_id(self) -> str:
        """The unique id of the source (`paste.txt#2`)."""
        return self.source.id

    @property
    def place(self) -> Place:
        """What the file's name and folder say of rank, host and attempt."""
        return self.source.place

    def span(self, line: Line) -> SourceSpan:
        """Where `line` stands in the file that the user named."""
        return SourceSpan(self.source.path, line.number, line.offset)

    def at(self, number: int, offset: int) -> SourceSpan:
        """A span for a position found without a `Line` (a YAML mark, a byte offset of a JSON file)."""
        return SourceSpan(self.source.path, number, offset)
