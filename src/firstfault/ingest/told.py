"""What the words around a log say of the run: that it stands still, or is gone. Told, so it decides nothing and asks better."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Fact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.ingest.context import Context
    from firstfault.ingest.lines import Line

PRODUCES = ("hang.alive", "run.gone")
MAX_LINES = 400

_STANDS_STILL = lazy_pattern(
    r"(?i)\b(?:hangs?|hanging|hung|freez(?:es|ing)|frozen|deadlock(?:s|ed)?)\b"
    r"|\bstuck\b(?! with\b)"
    r"|\b(?:progress|training|output|the (?:run|job|script|bar|counter)|everything|it)(?: just| simply)? stops? "
    r"(?:here|there|at|moving|without|with no)\b"
    r"|\b(?:no|without any|without) (?:error|output|progress|message)s?\b[^.\n]{0,30}\bfor "
    r"(?:the last |over |about |more than )?(?:an?|\d+|hours|minutes)\b"
)
_GONE = lazy_pattern(
    r"(?i)\b(?:job|run|pod|container|process|training|script|session|instance|it|everything)\b"
    r"(?: (?:is|was|had|has|just|simply|suddenly|silently|then|got|been|all))* "
    r"(?:gone|disappeared|vanished|died|dead|killed|terminated|exited|no longer (?:there|running))\b"
)
_DENIED = lazy_pattern(r"(?i)(?:\bnot|n't|\bnever|\bno longer|\bno|\bwithout|\bfixed|\bused to|\binstead of)(?: \w+)? ?\Z")


def told_facts(lines: Sequence[Line], ctx: Context) -> list[Fact]:
    """`hang.alive`, told, if somebody writes that the run hangs; `run.gone` if he writes that it is no longer there."""
    for name, said in (("hang.alive", _STANDS_STILL), ("run.gone", _GONE)):
        for line in lines[:MAX_LINES]:
            found = said.search(line.text)
            if found and not _DENIED.search(line.text[: found.start()]):
                return [Fact(name=name, value=True, origin="a description in words", spans=(ctx.span(line),), basis="told")]
    return []
