"""What is known of the lines of a source when its hits are judged."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from firstfault.ingest.context import Context
from firstfault.ingest.lines import Line
from firstfault.ingest.prefix import Label
from firstfault.model.event import Traceback

MAX_TEXT_CHARS = 2_000
"""What an event keeps of its line."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The lines of a source, its tracebacks, and how its lines are labelled.

    `echoes` are the offsets of lines that only show code or commands; `told` is true for what a person wrote.
    `alone` are the offsets of lines in a post whose message may be a quotation: no other output stands beside them.
    """

    ctx: Context
    label: Label = "none"
    lines: Sequence[Line] = ()
    tracebacks: Sequence[Traceback] = ()
    echoes: frozenset[int] = frozenset()
    told: bool = False
    alone: frozenset[int] = frozenset()
