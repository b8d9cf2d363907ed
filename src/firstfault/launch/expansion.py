"""Variables of the shell in a word: what is known of them is put in, what is not stays as it is written."""

from __future__ import annotations

import re
from collections.abc import Callable

from firstfault.lazy_pattern import lazy_pattern

MAX_WORD_CHARS = 64 << 10
MAX_VALUE_CHARS = 4_096
MAX_DEPTH = 20
MAX_REFERENCES = 200

Lookup = Callable[[str], str | None]

_UNKNOWN = lazy_pattern(r"\$(?:[A-Za-z_0-9@*#?!$-]|\{|\()|`")
_REFERENCE = lazy_pattern(
    r"\$(?:(?P<plain>[A-Za-z_]\w*|[0-9@*#?!$-])|\{(?P<name>[A-Za-z_]\w*|[0-9@*#?!$-])(?P<rest>(?::?[-=+?][^{}]{0,4096})?)\})"
)
_ARITHMETIC = lazy_pattern(r"\$\(\((?P<sum>[0-9A-Za-z_ $*+/%-]{1,200})\)\)")
_TERM = lazy_pattern(r"\s*(?:(?P<number>[0-9]{1,9})|\$?(?P<name>[A-Za-z_]\w*)|(?P<operator>[*/%+-]))\s*")


def holds_unknown(word: str) -> bool:
    """True if the word still holds a variable or the output of a command: what it stands for is not known."""
    return bool(_UNKNOWN.search(word))


def defaults_taken(word: str, lookup: Lookup) -> list[str]:
    """The names of `${N:-4}` in the word that `lookup` does not know, so that their default stands."""
    found = _REFERENCE.finditer(word) if "${" in word else ()
    defaults = [match["name"] for match in found if (match["rest"] or "").lstrip(":")[:1] in ("-", "=")]
    return [name for name in defaults if lookup(name) is None]


def expand(word: str, lookup: Lookup) -> str:
    """The word with every variable that `lookup` knows put in, `${N:-4}` and `$((A * B))` included.

    A name that `lookup` does not know (None) stays as written, except that `${N:-4}` is then its default. Variables that
    refer to each other are followed `MAX_DEPTH` deep, and no further.
    """
    for _ in range(MAX_DEPTH):
        if "$" not in word or len(word) > MAX_WORD_CHARS:
            break
        after = _ARITHMETIC.sub(lambda found: _sum(found, lookup), word, count=MAX_REFERENCES)
        after = _REFERENCE.sub(lambda found: _value(found, lookup), after, count=MAX_REFERENCES)
        if after == word:
            break
        word = after
    return word[:MAX_WORD_CHARS]


def _value(found: re.Match[str], lookup: Lookup) -> str:
    """`${N:-4}` takes its default also for an empty value, `${N-4}` does not; `${N:+x}` is x where N is set."""
    known, rest = lookup(found["plain"] or found["name"]), found["rest"] or ""
    operator, colon = rest.lstrip(":")[:1], rest.startswith(":")
    if known is None:
        return rest.lstrip(":")[1:] if operator in ("-", "=") else found[0]
    known = known[:MAX_VALUE_CHARS]
    if operator == "+":
        return rest.lstrip(":")[1:] if known or not colon else ""
    return rest[2:] if operator in ("-", "=") and colon and not known else known


def _sum(found: re.Match[str], lookup: Lookup) -> str:
    """The number of a sum of products of whole numbers and known variables; anything else stays as it is written."""
    total, product, operator, sign, position = 0, None, "", 1, 0
    text = found["sum"]
    while position < len(text):
        term = _TERM.match(text, position)
        if term is None:
            return found[0]
        position = term.end()
        if term["operator"]:
            if product is None or operator:
                return found[0]
            operator = term["operator"]
            if operator in "+-":
                total, sign, product, operator = total + sign * product, 1 if operator == "+" else -1, None, ""
            continue
        value = term["number"] or (lookup(term["name"]) or "").strip()
        if not value.isdecimal() or len(value) > 9 or (product is not None and not operator):
            return found[0]
        product, operator = _apply(product, operator, int(value)), ""
        if product is None:
            return found[0]
    return found[0] if product is None or operator else str(total + sign * product)


def _apply(left: int | None, operator: str, right: int) -> int | None:
    if left is None:
        return right
    if operator == "*":
        return left * right
    if right == 0:
        return None
    return left // right if operator == "/" else left % right
