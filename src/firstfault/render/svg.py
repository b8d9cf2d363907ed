"""The timeline as an inline drawing for HTML; the same lanes stand beside it as a table."""

from __future__ import annotations

from collections.abc import Collection
from html import escape

from firstfault.render import safe
from firstfault.render.layout import cut
from firstfault.render.timeline import Kind, Lane, Mark, Timeline

_WIDTH = 912
_LEFT = 150
_RIGHT = 190
_ROW = 28
_TOP = 14
_LABEL_CELLS = 19
_END_CELLS = 22


def draw(timeline: Timeline, shown: Collection[str] = ()) -> str:
    """An `svg` element in which everything is named by text or shape, not by colour alone.

    A sign whose evidence is `shown` in the same page, under its id, leads to it.
    """
    lanes = timeline.lanes
    bottom = _TOP + _ROW * len(lanes)
    height = bottom + 54
    parts = [f'<svg viewBox="0 0 {_WIDTH} {height}" role="{_role(timeline, shown)}" aria-labelledby="drawing-title">']
    parts.append(f'<title id="drawing-title">{_text(describe(timeline))}</title>')
    faults = [mark.at for lane in lanes for mark in lane.marks if mark.kind == "initiating"]
    if faults:
        at = _x(min(faults))
        parts.append(f'<line class="fault-line" x1="{at}" y1="{_TOP - 8}" x2="{at}" y2="{bottom}"/>')
    for number, lane in enumerate(lanes):
        parts += _lane(lane, _TOP + _ROW * number + _ROW // 2, shown)
    parts.append(f'<line class="axis" x1="{_LEFT}" y1="{bottom + 2}" x2="{_WIDTH - _RIGHT}" y2="{bottom + 2}"/>')
    parts += _ticks(timeline, bottom + 19)
    parts += _legend(timeline, bottom + 44)
    return "".join([*parts, "</svg>"])


def describe(timeline: Timeline) -> str:
    """The drawing in a sentence, for those who do not see it."""
    first = [lane.label for lane in timeline.lanes if lane.first]
    rows = f"Timeline with {len(timeline.lanes)} {'row' if len(timeline.lanes) == 1 else 'rows'}"
    return f"{rows}; failed first: {', '.join(first)}" if first else rows


def _lane(lane: Lane, y: int, shown: Collection[str]) -> list[str]:
    strong = " strong" if lane.first else " soft"
    parts = [f'<text class="label{strong}" x="0" y="{y + 4}">{_text(cut(safe.line(lane.label), _LABEL_CELLS))}</text>']
    last = max(mark.at for mark in lane.marks)
    busy = max((mark.at for mark in lane.marks if mark.kind == "progress"), default=-1.0)
    begin = 0.0 if busy >= 0 else min(mark.at for mark in lane.marks)
    if last > begin:
        parts.append(f'<line class="alive" x1="{_x(begin)}" y1="{y}" x2="{_x(last)}" y2="{y}"/>')
    if busy > 0:
        parts.append(f'<line class="busy" x1="{_x(0)}" y1="{y}" x2="{_x(busy)}" y2="{y}"/>')
    parts += [_mark(mark, y, lane.label, shown) for mark in lane.marks if mark.kind != "progress"]
    ended = cut(safe.line(lane.ended_by), _END_CELLS)
    parts.append(f'<text class="end{strong}" x="{_WIDTH - _RIGHT + 16}" y="{y + 4}">{_text(ended)}</text>')
    return parts


def _role(timeline: Timeline, shown: Collection[str]) -> str:
    """A drawing is one thing to a screen reader; one that holds links is not."""
    leads = any(mark.evidence in shown for lane in timeline.lanes for mark in lane.marks if mark.kind != "progress")
    return "group" if leads else "img"


def _mark(mark: Mark, y: int, label: str, shown: Collection[str]) -> str:
    sign = _sign(mark.kind, _x(mark.at), y, _title(mark))
    if mark.evidence is None or mark.evidence not in shown:
        return sign
    name = _text(f"{label}: {cut(safe.line(mark.text), 80)}")
    return f'<a href="#{_text(mark.evidence)}" aria-label="{name}">{sign}</a>'


def _title(mark: Mark) -> str:
    text = " ".join(part for part in (mark.time, mark.text) if part)
    return f"<title>{_text(cut(safe.line(text), 200))}</title>"


def _sign(kind: Kind, x: float, y: int, title: str = "") -> str:
    if kind == "initiating":
        return f'<path class="initiating" d="M{x} {y - 9}l9 9l-9 9l-9 -9z">{title}</path>'
    if kind == "collateral":
        return f'<path class="collateral" d="M{x} {y - 7}l7 7l-7 7l-7 -7z">{title}</path>'
    if kind == "stopped":
        return f'<path class="stopped" d="M{x - 5} {y - 5}l10 10m0 -10l-10 10">{title}</path>'
    if kind == "silent":
        return f'<circle class="silent" cx="{x}" cy="{y}" r="5">{title}</circle>'
    if kind == "progress":
        return f'<line class="busy" x1="{x - 7}" y1="{y}" x2="{x + 7}" y2="{y}"/>'
    return f'<path class="outside" d="M{x} {y - 8}l8 14h-16z">{title}</path>'


def _ticks(timeline: Timeline, y: int) -> list[str]:
    parts = []
    free = 0.0
    for tick in timeline.ticks:
        x = _x(tick.at)
        anchor = "start" if tick.at < 0.05 else "end" if tick.at > 0.95 else "middle"
        size = 7.0 * len(tick.text)
        start = x - (0 if anchor == "start" else size if anchor == "end" else size / 2)
        if start >= free:
            parts.append(f'<text class="soft" x="{x}" y="{y}" text-anchor="{anchor}">{_text(tick.text)}</text>')
            free = start + size + 10
    if not timeline.timed:
        parts.append(f'<text class="soft" x="{_LEFT}" y="{y}">in order, not to scale</text>')
    return parts


def _legend(timeline: Timeline, y: int) -> list[str]:
    parts = []
    x = float(_LEFT)
    for kind in timeline.kinds:
        text = timeline.says(kind)
        parts += [_sign(kind, x + 8, y - 4), f'<text class="soft" x="{x + 24}" y="{y}">{text}</text>']
        x += 24 + 7.2 * len(text) + 22
    return parts


def _x(at: float) -> float:
    return round(_LEFT + 9 + at * (_WIDTH - _LEFT - _RIGHT - 18), 1)


def _text(text: str) -> str:
    return escape(safe.line(text))
