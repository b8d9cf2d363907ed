"""A signal held against a line: whether its text stands there, and the values in its holes."""

from __future__ import annotations

import re
from functools import lru_cache

from firstfault.knowledge.schema import HoleKind, Signal
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.event import CaptureValue
from firstfault.units import parse_duration, parse_size

MAX_TAIL = 4096
_CLOCK = lazy_pattern(r"([0-9]+):([0-9]{2}):([0-9]{2}(?:\.[0-9]+)?)\Z")


def match_text(signal: Signal, line: str, tail: str = "") -> dict[str, CaptureValue] | None:
    """Captures of `signal` in `line` and, for its continuations, in `tail` (the lines below); None if it does not match.

    Continuations end where the signal's own text stands again: what follows belongs to the next event.
    """
    found = _compiled(signal.pattern).search(line)
    if not found:
        return None
    captures = _captures(signal, found)
    if signal.then:
        rest = f"{line[found.end() :]}\n{tail[:MAX_TAIL]}"
        again = _compiled(signal.pattern).search(rest)
        end, position = again.start() if again else len(rest), 0
        for pattern in signal.then:
            follower = _compiled(pattern).search(rest, position, end)
            if follower:
                captures |= _captures(signal, follower)
                position = follower.end()
    return captures


def convert(kind: HoleKind, text: str) -> CaptureValue | None:
    """The value that a capture stands for: bytes for a size, seconds for a duration; None if it is none."""
    try:
        if kind in ("int", "rank"):
            return int(text)
        if kind == "float":
            return float(text)
        if kind == "size":
            return parse_size(text)
        if kind == "duration":
            clock = _CLOCK.match(text)
            return int(clock[1]) * 3600 + int(clock[2]) * 60 + float(clock[3]) if clock else parse_duration(text)
    except (ValueError, OverflowError):
        return None
    return text


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    # ASCII gives \d, \w, \s and \b the meaning that they have in RE2 (and, but for \s, in JavaScript).
    return re.compile(pattern, re.ASCII)


def _captures(signal: Signal, found: re.Match[str]) -> dict[str, CaptureValue]:
    values = {name: convert(signal.holes[name], text) for name, text in found.groupdict().items() if text is not None}
    return {name: value for name, value in values.items() if value is not None}
