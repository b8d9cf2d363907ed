"""What the words around a log say of the run itself: that it stands still. Told, so it decides nothing and only asks better."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Fact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.ingest.context import Context
    from firstfault.ingest.lines import Line

PRODUCES = ("hang.alive",)
MAX_LINES = 400

_STANDS_STILL = lazy_pattern(
    r"(?i)\b(?:hangs?|hanging|hung|freez(?:es|ing)|frozen|deadlock(?:s|ed)?)\b"
    r"|\bstuck\b(?! with\b)"
    r"|\b(?:progress|training|output|the (?:run|job|script|bar|counter)|everything|it)(?: just| simply)? stops? "
    r"(?:here|there|at|moving|without|with no)\b"
    r"|\b(?:no|without any|without) (?:error|output|progress|message)s?\b[^.\n]{0,30}\bfor "
    r"(?:the last |over |about |more than )?(?:an?|\d+|hours|minutes)\b"
)
_DENIED = lazy_pattern(r"(?i)(?:\bnot|n't|\bnever|\bno longer|\bno|\bwithout|\bfixed|\bused to|\binstead of)(?: \w+)? ?\Z")


def told_facts(lines: Sequence[Line], ctx: Context) -> list[Fact]:
    """`hang.alive`, told, if somebody writes that the run hangs; nothing otherwise."""
    for line in lines[:MAX_LINES]:
        found = _STANDS_STILL.search(line.text)
        if found and not _DENIED.search(line.text[: found.start()]):
            return [Fact(name="hang.alive", value=True, origin="a description in words", spans=(ctx.span(line),), basis="told")]
    return []
