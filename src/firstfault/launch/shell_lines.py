"""The logical lines of a shell script: continuations, open quotes and arrays joined, documents behind `<<` left out."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from firstfault.lazy_pattern import lazy_pattern

MAX_TEXT_CHARS = 1 << 20
MAX_JOINED = 400
MAX_LINE_CHARS = 64 << 10

_ARRAY = lazy_pattern(r"\s*(?:(?:export|local|readonly|declare|typeset)\s+(?:-\w+\s+)*)?[A-Za-z_]\w*\+?=\(")
_DOCUMENT = lazy_pattern(r"<<(?P<tabs>-?)\s*\\?(?P<quote>['\"]?)(?P<word>[A-Za-z_]\w{0,60})(?P=quote)", needs="<<")
_RUNS_DOCUMENT = lazy_pattern(r"\b(?:bash|sh|zsh|ssh|sbatch|srun)\b")


class LogicalLine(msgspec.Struct, frozen=True):
    """The text of one command line and the number of its first physical line, from 1. `cut` tells of a quote left open."""

    text: str
    number: int
    cut: bool = False


def logical_lines(text: str) -> Iterator[LogicalLine]:
    """The lines as a shell reads them; only the first `MAX_TEXT_CHARS` of the text.

    A quote or array that stays open for `MAX_JOINED` lines gives its first line alone, and reading goes on behind the rest.
    A document behind `<<` is data, unless a shell, ssh or sbatch reads it.
    """
    lines = text[:MAX_TEXT_CHARS].splitlines()
    position = 0
    while position < len(lines):
        first = position
        joined, position, closed = _join(lines, position)
        yield LogicalLine(joined[:MAX_LINE_CHARS], first + 1, not closed)
        document = _DOCUMENT.search(joined) if closed else None
        if document and not _RUNS_DOCUMENT.search(joined[: document.start()]):
            position = _behind(lines, position, document["word"], bool(document["tabs"]))


def _join(lines: list[str], position: int) -> tuple[str, int, bool]:
    """The logical line, where the next one begins, and whether everything in it was closed."""
    first = lines[position][:MAX_LINE_CHARS]
    parts: list[str] = []
    quote, size = "", 0
    array = bool(_ARRAY.match(first))
    end = min(len(lines), position + MAX_JOINED)
    while position < end and size < MAX_LINE_CHARS:
        line = lines[position][:MAX_LINE_CHARS]
        position += 1
        quote, continued = _scan(line, quote)
        parts.append(line[:-1] + " " if continued else line)
        size += len(line)
        if array and not quote and line.split(" #")[0].rstrip().rstrip(";").endswith(")"):
            array = False
        if not (quote or continued or array):
            return "".join(part if part.endswith(" ") else part + "\n" for part in parts).rstrip("\n"), position, True
    return first, position, False


def _scan(line: str, quote: str) -> tuple[str, bool]:
    """The quote that is open behind the line, and whether its end is a continuation mark."""
    if not quote and "'" not in line and '"' not in line:
        comment = line.lstrip().startswith("#") or " #" in line
        return "", not comment and (len(line) - len(line.rstrip("\\"))) % 2 == 1
    escaped, before = False, " "
    for character in line:
        if escaped:
            escaped = False
        elif character == "\\" and quote != "'":
            escaped = True
        elif quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == "#" and before.isspace():
            return "", False
        before = character
    return quote, escaped


def _behind(lines: list[str], position: int, word: str, tabs: bool) -> int:
    """Behind the line that ends the document; an unended one takes the rest of the text."""
    while position < len(lines):
        line = lines[position].lstrip("\t") if tabs else lines[position]
        position += 1
        if line.rstrip() == word:
            break
    return position
