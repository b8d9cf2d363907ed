"""Checks that an expression means the same in Python, JavaScript and RE2, and that matching it takes linear time.

The subset: literals, `.`, classes, the escapes below, `(?:...)`, alternation, `* + ? {n} {n,m}` and their lazy forms. There
are no captures (holes make them), no look-around, no back-references, no inline flags. What is repeated may hold no repeat,
option or alternative, and two open-ended repeats may not follow each other: those make a backtracking engine slow on hostile
text.
"""

from __future__ import annotations

import re

from firstfault.lazy_pattern import lazy_pattern

MAX_REPEAT = 1000
"""RE2 refuses larger counts."""

_QUANTIFIER = lazy_pattern(r"(?:[*+?]|\{(\d+)(?:(,)(\d*))?\})(\??)")
_ESCAPE = lazy_pattern(r"\\(?:[dDwWsSbBtnrfv]|x[0-9A-Fa-f]{2}|[^A-Za-z0-9\s])")
# `[^]` is no end of a class in Python and all there is in JavaScript.
_CLASS = lazy_pattern(r"\[(?:\^(?!\])|(?!\^))(?:\\(?:[dDwWsStnrfv]|x[0-9A-Fa-f]{2}|[^A-Za-z0-9\s])|[^\]\\\[])+\]")


OPEN_REPEAT = 16
"""A repeat that may count higher is open-ended: it can hold a long stretch of hostile text."""

_ANCHORS = frozenset({"^", "$", r"\b", r"\B"})


class SubsetError(ValueError):
    """An expression outside of the subset; the message says why."""


class _Shape:
    """Whether a part can match in several ways, whether it ends with an open-ended repeat, and how far its repeats count."""

    def __init__(self) -> None:
        self.varies = False
        self.open_end = False
        self.widest = 1.0


def widest_repeat(pattern: str) -> float:
    """How far the widest repeat of the expression counts; SubsetError if the expression leaves the subset."""
    end, shape = _alternation(pattern, 0, 0)
    if end != len(pattern):
        raise SubsetError("a `)` without its `(`")
    return shape.widest


def _alternation(text: str, at: int, depth: int) -> tuple[int, _Shape]:
    if depth > 10:
        raise SubsetError("groups are nested deeper than 10")
    whole = _Shape()
    while True:
        at, branch = _sequence(text, at, depth)
        whole.varies |= branch.varies
        whole.open_end |= branch.open_end
        whole.widest = max(whole.widest, branch.widest)
        if at >= len(text) or text[at] != "|":
            return at, whole
        whole.varies = True
        at += 1


def _sequence(text: str, at: int, depth: int) -> tuple[int, _Shape]:
    whole = _Shape()
    while at < len(text) and text[at] not in "|)":
        after_open = whole.open_end
        start = at
        at, part = _atom(text, at, depth)
        found = _QUANTIFIER.match(text, at)
        whole.widest = max(whole.widest, part.widest)
        if not found:
            whole.varies |= part.varies
            whole.open_end = part.open_end
            continue
        if text[start:at] in _ANCHORS:
            raise SubsetError(f"`{text[start:at]}` matches a place: it cannot be repeated")
        at = found.end()
        low, high = _bounds(found)
        if high > 1 and part.varies:
            raise SubsetError("what is repeated holds a repeat, an option or an alternative")
        wide = high > OPEN_REPEAT
        if wide and after_open:
            raise SubsetError("two open-ended repeats follow each other: put a fixed character between them")
        whole.varies |= part.varies or high > low
        whole.widest = max(whole.widest, high)
        whole.open_end = wide or part.open_end or (low == 0 and after_open)
    return at, whole


def _bounds(found: re.Match[str]) -> tuple[int, float]:
    mark = found[0][0]
    if mark != "{":
        return (1 if mark == "+" else 0), (1 if mark == "?" else float("inf"))
    low = int(found[1])
    high = low if not found[2] else int(found[3]) if found[3] else float("inf")
    if low > MAX_REPEAT or MAX_REPEAT < high < float("inf"):
        raise SubsetError(f"a repeat counts to {MAX_REPEAT} at most")
    if high < low:
        raise SubsetError("a repeat counts backwards")
    return low, high


def _atom(text: str, at: int, depth: int) -> tuple[int, _Shape]:
    character = text[at]
    if character == "(":
        if not text.startswith("(?:", at):
            raise SubsetError("only `(?:...)` groups: no captures, look-around, references or flags")
        end, shape = _alternation(text, at + 3, depth + 1)
        if end >= len(text):
            raise SubsetError("a `(` without its `)`")
        return end + 1, shape
    if character in "*+?{}":
        raise SubsetError(f"`{character}` repeats nothing; escape it with a backslash")
    for mark, pattern in (("\\", _ESCAPE), ("[", _CLASS)):
        if character == mark:
            found = pattern.match(text, at)
            if not found:
                raise SubsetError(f"`{text[at : at + 6]}` is no escape or class of the common subset")
            return found.end(), _Shape()
    return at + 1, _Shape()
