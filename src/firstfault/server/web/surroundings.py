"""The lines around a line of evidence, out of the stored capsule."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from firstfault.ingest.capsule import Capsule, CapsuleLine
from firstfault.model.diagnosis import Evidence
from firstfault.render import safe

LINES = 10
MAX_CHARS = 400


def surroundings(capsule: Capsule) -> Callable[[Evidence], str]:
    """What shows, for a line of evidence, ten kept lines before and after it as HTML; empty if nothing else was kept there."""
    stretches = {source.path: source.stretches for source in capsule.sources}

    def around(item: Evidence) -> str:
        for stretch in stretches.get(item.source, ()):
            if item.part is None and stretch and stretch[0].number <= item.line <= stretch[-1].number:
                lines = [line for line in stretch if abs(line.number - item.line) <= LINES]
                return _drawn(lines, item.line) if len(lines) > 1 else ""
        return ""

    return around


def _drawn(lines: list[CapsuleLine], at: int) -> str:
    width = len(str(lines[-1].number))
    rows = "".join(
        f'<span class="{"here" if line.number == at else "near"}">'
        f'<span class="number">{line.number:>{width}}</span> {escape(_cut(line.text))}\n</span>'
        for line in lines
    )
    return (
        f'<details class="around"><summary>{len(lines)} lines around</summary>'
        f'<pre tabindex="0" role="region" aria-label="Lines around line {at}"><code>{rows}</code></pre></details>'
    )


def _cut(text: str) -> str:
    text = safe.block(text).replace("\n", " ")
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}…"
