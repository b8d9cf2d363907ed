"""Three-valued truth: true, false, or unknown (None). Unknown is not false."""

from __future__ import annotations

from collections.abc import Iterable

Truth = bool | None


def not_(value: Truth) -> Truth:
    """The opposite; unknown stays unknown."""
    return None if value is None else not value


def and_(values: Iterable[Truth]) -> Truth:
    """False if any is false, else unknown if any is unknown, else true."""
    result: Truth = True
    for value in values:
        if value is False:
            return False
        if value is None:
            result = None
    return result


def or_(values: Iterable[Truth]) -> Truth:
    """True if any is true, else unknown if any is unknown, else false."""
    result: Truth = False
    for value in values:
        if value is True:
            return True
        if value is None:
            result = None
    return result
