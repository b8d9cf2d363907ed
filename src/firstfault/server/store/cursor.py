"""Where a list goes on: the time and id of the last row shown, as one opaque word."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime

from firstfault.errors import UsageError


def encode_cursor(when: datetime, last: str) -> str:
    """The cursor behind the row with this time and id."""
    return urlsafe_b64encode(f"{when.isoformat()} {last}".encode()).decode().rstrip("=")


def decode_cursor(cursor: str) -> tuple[datetime, str]:
    """The time and id of a cursor; UsageError for a word that is none."""
    try:
        when, _, last = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode().partition(" ")
        return datetime.fromisoformat(when), last
    except ValueError as error:
        raise UsageError("is no place in a list", where="after") from error
