"""One thing that was handed over, before it is read."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import msgspec

from firstfault.model.event import Place


class Handed(msgspec.Struct, frozen=True, kw_only=True):
    """A file, or bytes that came through a pipe or as text.

    `path` is what the user typed or would open; `location` where the bytes are. Without it they are in `data`, and what
    does not fit there still comes from `stream`, which can be read once.
    `place` is what the path says of rank, host and attempt.
    """

    path: str
    location: Path | None = None
    data: bytes = b""
    stream: BinaryIO | None = None
    size_bytes: int = 0
    place: Place = Place()
