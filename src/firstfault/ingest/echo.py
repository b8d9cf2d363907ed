"""Lines that only show text: code under a traceback's frames, listings, commands. An error's words there are no event."""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.ingest.linekind import is_command, prompt_command
from firstfault.ingest.lines import Line
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.event import Place

_FRAME = lazy_pattern(r"\s*File \"[^\"]+\", line \d+")
_LISTED = lazy_pattern(r"\s*(?:[│|]\s*)?(?:❱\s*\d+ |\d+ ?)[│|]|\s*-+> *\d+ |\s{2,}\d+ {2,}\S")
_TRACED = lazy_pattern(r"\++ \S", needs="+")

_Stream = tuple[int | None, int | None, int | None, str | None]


def echo_offsets(lines: Sequence[Line]) -> frozenset[int]:
    """The offsets of the lines that repeat code or commands."""
    echoes: set[int] = set()
    frames: dict[_Stream, int] = {}
    for line in lines:
        text = line.text
        if not text:
            continue
        stream = _stream(line.place)
        indent = len(text) - len(text.lstrip())
        if _FRAME.match(text):
            frames[stream] = indent
            continue
        # The source of a frame stands deeper than its `File` line; what stands on the left again is the exception.
        if stream in frames:
            if indent > frames[stream]:
                echoes.add(line.offset)
                continue
            del frames[stream]
        if _LISTED.match(text) or _is_typed(text):
            echoes.add(line.offset)
    return frozenset(echoes)


def _is_typed(text: str) -> bool:
    typed = text[2:] if _TRACED.match(text) else text
    return is_command(typed[:2000].lstrip("+ ")) or prompt_command(text[:2000]) is not None


def _stream(place: Place) -> _Stream:
    return (place.rank, place.local_rank, place.pid, place.host)
