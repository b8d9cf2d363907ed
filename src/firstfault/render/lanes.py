"""The timeline in a terminal: one line a lane, the time axis, the legend of the signs in use."""

from __future__ import annotations

from firstfault.render.layout import Canvas, Piece, cells, cut
from firstfault.render.style import Glyphs, Role
from firstfault.render.timeline import Kind, Lane, Timeline

_WIDE = 100


def draw(canvas: Canvas, timeline: Timeline) -> None:
    """Puts the lanes on the canvas; nothing if they would say nothing."""
    if not timeline.tells:
        return
    wide = canvas.width >= _WIDE
    texts = _Columns(canvas, timeline, wide)
    canvas.blank()
    if wide:
        canvas.put(*texts.heading())
    for lane in timeline.lanes:
        canvas.put(*texts.row(lane))
    if timeline.hidden:
        canvas.prose(f"{canvas.look.glyphs.more} and {timeline.hidden:,} more ranks", role="dim")
    if timeline.ticks:
        canvas.put((" " * texts.bar_column, ""), (_axis(timeline, texts.bar), "dim"))
    _legend(canvas, timeline)


class _Columns:
    """How wide each column is, and the lines made with them."""

    def __init__(self, canvas: Canvas, timeline: Timeline, wide: bool) -> None:
        self.look = canvas.look
        self.wide = wide
        lanes = timeline.lanes
        self.label = max(cells(self.look.line(lane.label)) for lane in lanes)
        self.label = min(self.label, canvas.width // 4)
        self.host = min(16, max((cells(self.look.line(lane.host)) for lane in lanes), default=0)) if wide else 0
        self.host = max(self.host, 4) if self.host else 0
        self.last = min(16, max((cells(self.look.line(lane.last_progress)) for lane in lanes), default=0)) if wide else 0
        self.last = max(self.last, 9) if self.last else 0
        most = 28 if wide else canvas.width // 4 + 4
        self.end = min(most, max((cells(self.look.line(lane.ended_by)) for lane in lanes), default=0))
        self.end = max(self.end, 8) if wide else self.end
        self.bar_column = 2 + self.label + 2 + (self.host + 2 if self.host else 0)
        gaps = sum(size + 2 for size in (self.last, self.end) if size)
        self.bar = max(8, canvas.width - self.bar_column - gaps)

    def heading(self) -> list[Piece]:
        text = "  " + "rank".ljust(self.label) + "  "
        if self.host:
            text += "host".ljust(self.host) + "  "
        text += " " * self.bar
        if self.last:
            text += "  " + "last seen".ljust(self.last)
        return [(text + "  ended by", "dim")]

    def row(self, lane: Lane) -> list[Piece]:
        glyphs = self.look.glyphs
        quiet: Role = "" if lane.first else "dim"
        pointer = f"{glyphs.pointer} " if lane.first else "  "
        pieces: list[Piece] = [(pointer, "fault"), (self._fit(lane.label, self.label) + "  ", "head" if lane.first else "")]
        if self.host:
            pieces.append((self._fit(lane.host, self.host) + "  ", quiet))
        pieces += _bar(lane, self.bar, glyphs)
        if self.last:
            pieces.append(("  " + self._fit(lane.last_progress, self.last), quiet))
        if self.end:
            pieces.append(("  " + self._fit(lane.ended_by, self.end), quiet))
        return pieces

    def _fit(self, text: str, width: int) -> str:
        text = cut(self.look.line(text), width, self.look.glyphs.more)
        return text + " " * (width - cells(text))


def _bar(lane: Lane, width: int, glyphs: Glyphs) -> list[Piece]:
    """Busy until the last progress, alive until the last mark, signs on top; painted sign by sign."""
    signs: list[tuple[str, Role]] = [(" ", "")] * width
    last = max(_cell(mark.at, width) for mark in lane.marks)
    busy = max((_cell(mark.at, width) for mark in lane.marks if mark.kind == "progress"), default=-1)
    begin = min((_cell(mark.at, width) for mark in lane.marks if mark.kind != "progress"), default=last)
    for cell in range(0 if busy >= 0 else begin, last + 1):
        signs[cell] = (glyphs.busy, "") if cell <= busy else (glyphs.alive, "dim")
    # The first failure is never hidden by what followed it in the same cell.
    for mark in sorted(lane.marks, key=lambda mark: mark.kind == "initiating"):
        sign = _sign(mark.kind, glyphs)
        if sign:
            cell = _cell(mark.at, width)
            signs[cell] = (sign, "fault" if mark.kind == "initiating" else "dim" if signs[cell][1] != "fault" else "fault")
    return _runs(signs)


def _runs(signs: list[tuple[str, Role]]) -> list[Piece]:
    pieces: list[Piece] = []
    text, role = signs[0]
    for sign, next_role in signs[1:]:
        if next_role == role:
            text += sign
        else:
            pieces.append((text, role))
            text, role = sign, next_role
    return [*pieces, (text, role)]


def _cell(at: float, width: int) -> int:
    return min(width - 1, max(0, round(at * (width - 1))))


def _sign(kind: Kind, glyphs: Glyphs) -> str:
    return {
        "initiating": glyphs.first,
        "collateral": glyphs.waiting,
        "stopped": glyphs.stopped,
        "silent": glyphs.unknown,
        "kernel": glyphs.outside,
        "scheduler": glyphs.outside,
        "progress": "",
    }[kind]


def _axis(timeline: Timeline, width: int) -> str:
    """The labels below their columns; one that would touch its neighbour is left out, the first and the fault never."""
    text = ""
    for number, tick in enumerate(timeline.ticks):
        start = _cell(tick.at, width)
        start = min(max(0, start - (len(tick.text) - 1 if start + len(tick.text) > width else 0)), width - len(tick.text))
        if number and start < len(text) + 1:
            continue
        text = text.ljust(start) + tick.text
    return text


def _legend(canvas: Canvas, timeline: Timeline) -> None:
    """What the signs in use mean; a sign stays with its words where the legend folds."""
    glyphs = canvas.look.glyphs
    parts = [f"{_sign(kind, glyphs) or glyphs.busy} {timeline.says(kind)}" for kind in timeline.kinds]
    if not timeline.timed:
        parts.append("in order, not to scale")
    line = ""
    for part in parts:
        if line and cells(line) + 3 + cells(part) > canvas.width - 2:
            canvas.put((f"  {line}", "dim"))
            line = ""
        line = f"{line}   {part}" if line else part
    canvas.put((f"  {line}", "dim"))
