"""Text from logs, made harmless: nothing in it can drive a terminal, reorder a line or hide.

Logs are written by strangers. Colour codes say nothing and are dropped; every other control character, bidirectional
override and invisible character is spelled out (`\\x07`, `\\u202e`), so that what is shown is what stands there.
"""

from __future__ import annotations

import re

from firstfault.lazy_pattern import lazy_pattern

_COLOUR = lazy_pattern(r"\x1b\[[0-9;:]*[mK]")
_UNSAFE = lazy_pattern(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
_STACKED_MARKS = lazy_pattern("([\u0300-\u036f]{3})[\u0300-\u036f]+")
_TO_ASCII = str.maketrans(
    {
        "·": "|",
        "…": "...",
        "–": "-",
        "—": "-",
        "−": "-",
        "×": "x",
        "≤": "<=",
        "≥": ">=",
        "≈": "~",
        "±": "+-",
        "→": "->",
        "‘": "'",
        "’": "'",
        "“": '"',
        "”": '"',
        "\u00a0": " ",
        "µ": "u",
    }
)


def block(text: str) -> str:
    """`text` with its line breaks and nothing else that acts: tabs become spaces, controls are spelled out."""
    text = text.replace("\r\n", "\n").expandtabs(4)
    if text.replace("\n", "").isprintable() and all(sign < "\u0300" or "\u2000" <= sign < "\u3000" for sign in set(text)):
        # Letters of Latin, typographic signs and frames, all of them printable: the usual case, decided without a pattern.
        return text
    text = _STACKED_MARKS.sub(r"\1", _COLOUR.sub("", text))
    return _UNSAFE.sub(_spell, text)


def line(text: str) -> str:
    """`text` on one line, runs of white space as one blank."""
    return " ".join(block(text).split())


def ascii_only(text: str) -> str:
    """`text` in ASCII: signs that have an ASCII form get it, everything else is spelled out."""
    if text.isascii():
        return text
    return text.translate(_TO_ASCII).encode("ascii", "backslashreplace").decode("ascii")


def _spell(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
