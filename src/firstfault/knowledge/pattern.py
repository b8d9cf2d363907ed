"""Turns a signal's text with typed holes into an expression for Python, JavaScript and RE2.

A hole is `{name:kind}`, `{_:kind}` (matched, not kept) or `{name:re(...)}`; `{{` and `}}` stand for braces.
"""

from __future__ import annotations

import re
from typing import NamedTuple, cast, get_args

from firstfault.knowledge.regex_subset import OPEN_REPEAT, SubsetError, widest_repeat
from firstfault.knowledge.schema import HoleKind
from firstfault.lazy_pattern import lazy_pattern

MIN_LITERAL_BYTES = 6
GOOD_LITERAL_BYTES = 8
"""The prefilter compares eight bytes at once: a shorter literal slows the search for all."""

KINDS: dict[str, str] = {
    "int": r"[-+]?[0-9]{1,18}",
    "float": r"[-+]?(?:[0-9]{1,18}(?:\.[0-9]{0,18})?(?:[eE][-+]?[0-9]{1,3})?|nan|NaN|inf)",
    "size": r"[0-9]{1,18}(?:\.[0-9]{1,9})?(?: ?(?:[KkMGT]i?B|bytes|byte|B|[KkMGT])\b)?",
    "duration": (
        r"(?:[0-9]{1,5}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?"
        r"|[0-9]{1,15}(?:\.[0-9]{1,9})?(?: ?(?:milliseconds|seconds|minutes|hours|sec|min|ms|us|ns|s|m|h)\b)?)"
    ),
    "rank": r"[0-9]{1,7}",
    "path": r"(?:[A-Za-z]:)?[^ \t\r\n'\",;:()\[\]]{1,500}",
    "host": r"[A-Za-z0-9\[][A-Za-z0-9_.:%\]-]{0,253}",
    "word": r"[^ \t\r\n]{1,300}",
    "rest": r"[^\r\n]*",
    "hex": r"(?:0x)?[0-9A-Fa-f]{1,32}",
    "time": (
        r"(?:[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?(?:Z|[-+][0-9]{2}:?[0-9]{2})?"
        r"|[A-Z][a-z]{2} [ 0-9][0-9] [0-9]{2}:[0-9]{2}:[0-9]{2}|[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?)"
    ),
}
_INNER_REST = r"[^\r\n]{0,500}?"
_WIDTHS = {"path": 500, "word": 300, "rest": 500, "host": 253}
MAX_LOOSE_HOLES = 2
MAX_LEADING_WIDTH = 500
_HOLE = lazy_pattern(r"([A-Za-z_][A-Za-z0-9_]*):([a-z]+)")
_SPECIAL = lazy_pattern(r"[\\^$.|?*+()\[\]{}]")


class PatternError(ValueError):
    """A text with holes that cannot be compiled; the message says why."""


class Pattern(NamedTuple):
    """The expression of a text: its source, the kind of each named hole, and the literal runs between the holes."""

    regex: str
    holes: dict[str, HoleKind]
    runs: tuple[str, ...]

    @property
    def literal(self) -> str:
        """The longest literal run: what the prefilter looks for."""
        return max(self.runs, key=lambda run: len(run.encode()), default="")


def compile_text(text: str) -> Pattern:
    """The expression that `text` stands for; PatternError says what is wrong with it."""
    parts: list[str] = []
    runs: list[str] = [""]
    holes: dict[str, HoleKind] = {}
    expressions: list[tuple[HoleKind, str]] = []
    position = 0
    while position < len(text):
        character = text[position]
        if text.startswith(("{{", "}}"), position) or character not in "{}":
            runs[-1] += character
            parts.append(_SPECIAL.sub(r"\\\g<0>", character))
            position += 2 if character in "{}" else 1
            continue
        if character == "}":
            raise PatternError("a single `}`: write `}}` for a brace")
        name, kind, expression, position = _hole(text, position)
        if kind == "rest" and position < len(text):
            expression = _INNER_REST
        if name in holes:
            raise PatternError(f"hole `{name}` stands twice")
        if name != "_":
            holes[name] = kind
        parts.append(f"(?:{expression})" if name == "_" else f"(?P<{name}>{expression})")
        runs.append("")
        expressions.append((kind, expression))
    _check_linear(expressions, runs)
    literal_runs = tuple(run for run in runs if run)
    if not literal_runs:
        raise PatternError("the text has no literal part")
    return Pattern("".join(parts), holes, literal_runs)


def _check_linear(expressions: list[tuple[HoleKind, str]], runs: list[str]) -> None:
    """Refuse texts whose holes could share a long stretch of hostile text in many ways."""
    widths = [widest_repeat(expression) if kind == "re" else _WIDTHS.get(kind, 1) for kind, expression in expressions]
    if expressions and not runs[0] and widths[0] > MAX_LEADING_WIDTH:
        raise PatternError(f"a text may not begin with a hole that is wider than {MAX_LEADING_WIDTH}")
    loose = 0
    for number, (_, expression) in enumerate(expressions):
        after = runs[number + 1]
        if widths[number] <= OPEN_REPEAT or (not after and number == len(expressions) - 1):
            continue
        if not after and widths[number + 1] > OPEN_REPEAT:
            raise PatternError("an open hole follows another: put fixed text between them")
        # A character that the hole cannot hold stops it; without one it may end at every repetition of the text behind it.
        loose += all(any(re.fullmatch(expression, f"{probe}{c}{probe}") for probe in ("a", "0")) for c in after)
    if loose > MAX_LOOSE_HOLES:
        raise PatternError(f"{loose} open holes stand before text that they could hold, {MAX_LOOSE_HOLES} at most may")


def _hole(text: str, start: int) -> tuple[str, HoleKind, str, int]:
    """Name, kind and expression of the hole that begins at `start`, and the position after it."""
    found = _HOLE.match(text, start + 1)
    if not found:
        raise PatternError(f"`{text[start : start + 20]}` is no hole: write {{name:kind}}, or {{{{ for a brace")
    name, kind = found[1], found[2]
    if kind not in get_args(HoleKind):
        raise PatternError(f"unknown kind `{kind}` of hole `{name}`: {', '.join(get_args(HoleKind))}")
    if kind != "re":
        if not text.startswith("}", found.end()):
            raise PatternError(f"hole `{name}` is not closed by `}}`")
        return name, cast(HoleKind, kind), KINDS[kind], found.end() + 1
    end = _closing(text, found.end())
    if end is None or not text.startswith("}", end + 1):
        raise PatternError(f"hole `{name}`: write {{{name}:re(...)}}")
    expression = text[found.end() + 1 : end]
    try:
        widest_repeat(expression)
        re.compile(expression, re.ASCII)
    except (SubsetError, re.error) as error:
        raise PatternError(f"hole `{name}`: {error}") from None
    return name, "re", expression, end + 2


def _closing(text: str, opening: int) -> int | None:
    """Position of the parenthesis that closes the one at `opening`; escapes and classes may hold others."""
    depth, in_class, position = 0, False, opening
    if not text.startswith("(", opening):
        return None
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 1
        elif in_class or character == "[":
            in_class = character != "]"
        elif character in "()":
            depth += 1 if character == "(" else -1
            if depth == 0:
                return position
        position += 1
    return None
