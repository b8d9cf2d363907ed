"""The lines around a line of evidence, out of the stored capsule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
            at = next((index for index, line in enumerate(stretch) if line.number == item.line), None)
            if at is not None and item.part is None and len(stretch) > 1:
                return _drawn(stretch[max(at - LINES, 0) : at + LINES + 1], item.line)
        return ""

    return around


def _drawn(lines: Sequence[CapsuleLine], at: int) -> str:
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
