"""The known word that a misspelt one was meant to be."""

from __future__ import annotations

from collections.abc import Collection

ALIKE = 0.88
"""Share of letters in common order: one wrong letter in a word of ten, two in one of twenty."""


def nearest(word: str, known: Collection[str]) -> str | None:
    """The known word that is nearest to one that is not among them; None if none is near."""
    import difflib

    found = difflib.get_close_matches(word[:200], sorted(known), n=1, cutoff=ALIKE)
    return found[0] if found else None
