"""Lines and contexts for the tests of structure readers, built by hand."""

from __future__ import annotations

import re

from firstfault.ingest.context import Context
from firstfault.ingest.lines import Line
from firstfault.model.bundle import Source, SourceKind
from firstfault.model.event import Place

_RANK = re.compile(r"\[rank(\d+)\]:[ ]?")


def context(path: str = "run.log", kind: SourceKind = "log", place: Place = Place()) -> Context:  # noqa: B008
    """A context for a source of that name."""
    return Context(source=Source(id=path, path=path, kind=kind, place=place))


def lines(text: str, place: Place = Place()) -> list[Line]:  # noqa: B008
    """The lines of `text`; `[rankN]: ` is taken off into the place, anything else stays."""
    found, offset = [], 0
    for number, raw in enumerate(text.split("\n"), start=1):
        prefix = _RANK.match(raw)
        at = Place(rank=int(prefix[1])) if prefix else place
        found.append(Line(text=raw[prefix.end() :] if prefix else raw, raw=raw, offset=offset, number=number, place=at))
        offset += len(raw.encode()) + 1
    return found
