"""The drawings of a memory report: an area over time, stacked by call site, and a treemap of what was alive."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import msgspec

from firstfault.model.memory_report import CallSite, Curve, DeviceMemory
from firstfault.render.html_page import line
from firstfault.render.layout import cut
from firstfault.units import format_duration, format_size

MAX_COLUMNS = 900
MAX_TILES = 60
_COLORS = ("#7fb3e6", "#f2b66d", "#8fce9b", "#e69ab0", "#b7a5e0", "#e3d26f", "#7fd0cf", "#d7a483", "#a9b6c4", "#c5d68a")
REST_COLOR = "#cfd3d9"
_WIDTH, _LEFT, _RIGHT, _TOP, _HEIGHT = 912, 76, 12, 26, 300
_TREE_HEIGHT = 320
_CHAR = 7.2

Namer = Callable[[CallSite], str]


class Tile(msgspec.Struct, frozen=True):
    """A rectangle of the treemap."""

    x: float
    y: float
    width: float
    height: float


def colors_of(device: DeviceMemory) -> dict[CallSite, str]:
    """A colour a call site, the same in both drawings."""
    return dict(zip(device.curve.sites, _COLORS, strict=False))


def area(device: DeviceMemory, name: Namer, label: str, columns: int = MAX_COLUMNS) -> str:
    """The curve as an `svg` element: layers by call site, all that was reserved as a line, the peak and the failure marked.

    At most `columns` points are drawn.
    """
    curve = _thinned(device.curve, columns)
    top = max(1, *curve.high_bytes, *curve.reserved_bytes)
    xs = _across(curve)
    bottom = _TOP + _HEIGHT

    def y(size: int) -> float:
        return bottom - _HEIGHT * size / top

    parts = [f'<svg viewBox="0 0 {_WIDTH} {bottom + 30}" role="img"><title>{line(label)}</title>']
    for share in range(5):
        at = _TOP + _HEIGHT * share / 4
        size = format_size(top * (4 - share) / 4)
        parts.append(f'<line class="axis" x1="{_LEFT}" y1="{at:.1f}" x2="{_WIDTH - _RIGHT}" y2="{at:.1f}"/>')
        parts.append(f'<text class="soft" x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{size}</text>')
    colors = colors_of(device)
    layers = [*zip(curve.layers, curve.sites, strict=True)]
    # The highest sum first: what lies below is drawn over it.
    parts.append(_filled(xs, [y(size) for size in curve.total_bytes], bottom, REST_COLOR, "everything else"))
    for count in range(len(layers), 0, -1):
        site = layers[count - 1][1]
        sums = [
            min(total, sum(at)) for total, at in zip(curve.total_bytes, zip(*curve.layers[:count], strict=True), strict=True)
        ]
        parts.append(_filled(xs, [y(size) for size in sums], bottom, colors.get(site, REST_COLOR), name(site)))
    if curve.reserved_bytes:
        parts.append(
            f'<path class="reserved" d="{_path(xs, [y(size) for size in curve.reserved_bytes])}"><title>reserved</title></path>'
        )
    parts += _marks(device, curve, xs, bottom)
    first, last = _ends(curve)
    parts.append(f'<text class="soft" x="{_LEFT}" y="{bottom + 20}">{first}</text>')
    parts.append(f'<text class="soft" x="{_WIDTH - _RIGHT}" y="{bottom + 20}" text-anchor="end">{last}</text>')
    return "".join([*parts, "</svg>"])


def _thinned(curve: Curve, columns: int) -> Curve:
    """At most `columns` points, of each group the highest: more than a screen has columns cannot be seen."""
    count = len(curve.events)
    if count <= columns:
        return curve
    bounds = [count * column // columns for column in range(columns + 1)]
    chosen = [max(range(start, stop), key=curve.total_bytes.__getitem__) for start, stop in pairwise(bounds)]

    def pick(values: Sequence[int]) -> tuple[int, ...]:
        return tuple(values[index] for index in chosen)

    return msgspec.structs.replace(
        curve,
        events=pick(curve.events),
        after_s=None if curve.after_s is None else tuple(curve.after_s[index] for index in chosen),
        total_bytes=pick(curve.total_bytes),
        high_bytes=pick(curve.high_bytes),
        reserved_bytes=pick(curve.reserved_bytes) if curve.reserved_bytes else (),
        layers=tuple(pick(layer) for layer in curve.layers),
    )


def _across(curve: Curve) -> list[float]:
    """Where each point stands: by event, since memory changes with events and a trace may pause for hours."""
    first, last = curve.events[0], curve.events[-1]
    room = _WIDTH - _LEFT - _RIGHT
    return [_LEFT + room * (event - first) / max(1, last - first) for event in curve.events]


def _path(xs: Sequence[float], ys: Sequence[float]) -> str:
    points = []
    known = None
    for x, y in zip(xs, ys, strict=True):
        point = f"{x:.1f} {y:.1f}"
        if point != known:
            points.append(point)
        known = point
    return "M" + "L".join(points)


def _filled(xs: Sequence[float], ys: Sequence[float], bottom: float, color: str, name: str) -> str:
    shape = f"{_path(xs, ys)}L{xs[-1]:.1f} {bottom}L{xs[0]:.1f} {bottom}Z"
    return f'<path class="layer" fill="{color}" d="{shape}"><title>{line(name)}</title></path>'


def _marks(device: DeviceMemory, curve: Curve, xs: Sequence[float], bottom: float) -> list[str]:
    """Vertical lines with a word at the peak and at the failure; one where they are nearly the same moment."""
    rows = []
    if device.peak is not None:
        rows.append((device.peak.event, "peak", "peak-line"))
    if device.failed is not None:
        rows.append((device.failed.moment.event, "failed", "fault-line"))
    parts = []
    first, last = curve.events[0], curve.events[-1]
    placed: list[float] = []
    for event, word, style in reversed(rows):
        x = xs[0] + (xs[-1] - xs[0]) * (min(max(event, first), last) - first) / max(1, last - first)
        parts.append(f'<line class="{style}" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}"/>')
        near = any(abs(x - other) < 60 for other in placed)
        anchor = "end" if x > _WIDTH / 2 else "start"
        at = x - 60 if near and anchor == "end" else x
        parts.append(f'<text class="strong" x="{at:.1f}" y="{_TOP - 8}" text-anchor="{anchor}">{word}</text>')
        placed.append(x)
    return parts


def _ends(curve: Curve) -> tuple[str, str]:
    if curve.after_s is not None:
        return "0 s", f"event {curve.events[-1]:,}, after {format_duration(curve.after_s[-1])}"
    return f"event {curve.events[0]:,}", f"event {curve.events[-1]:,}"


def treemap(items: Sequence[tuple[CallSite | None, int]], colors: Mapping[CallSite, str], name: Namer, label: str) -> str:
    """Rectangles as large as what each call site holds; None is everything else."""
    shown = sorted(((site, size) for site, size in items if size > 0), key=lambda item: -item[1])[:MAX_TILES]
    total = sum(size for _, size in shown)
    parts = [f'<svg viewBox="0 0 {_WIDTH} {_TREE_HEIGHT}" role="img"><title>{line(label)}</title>']
    tiles = tiles_of([size for _, size in shown], Tile(0, 0, _WIDTH, _TREE_HEIGHT))
    for (site, size), tile in zip(shown, tiles, strict=True):
        text = "other call sites" if site is None else name(site)
        color = REST_COLOR if site is None else colors.get(site, "#b9c2cc")
        parts.append(f"<g><title>{line(text)}: {format_size(size)}, {size / total:.0%}</title>")
        parts.append(
            f'<rect class="tile" x="{tile.x:.1f}" y="{tile.y:.1f}" width="{tile.width:.1f}" height="{tile.height:.1f}" '
            f'fill="{color}"/>'
        )
        room = int((tile.width - 12) / _CHAR)
        if room >= 8 and tile.height >= 22:
            short = text.rpartition("/")[2]
            parts.append(f'<text class="on" x="{tile.x + 6:.1f}" y="{tile.y + 17:.1f}">{line(cut(short, room))}</text>')
            if tile.height >= 40:
                parts.append(f'<text class="on" x="{tile.x + 6:.1f}" y="{tile.y + 34:.1f}">{format_size(size)}</text>')
        parts.append("</g>")
    return "".join([*parts, "</svg>"])


def tiles_of(sizes: Sequence[int], room: Tile) -> list[Tile]:
    """Rectangles that fill `room` in proportion to `sizes` (largest first), each as near to a square as its row allows."""
    tiles: list[Tile] = []
    start = 0
    while start < len(sizes):
        left = sum(sizes[start:])
        scale = room.width * room.height / left if left else 0.0
        side = min(room.width, room.height)
        stop = start + 1
        while stop < len(sizes) and _worst(sizes[start : stop + 1], scale, side) <= _worst(sizes[start:stop], scale, side):
            stop += 1
        row = sizes[start:stop]
        thick = sum(row) * scale / side if side else 0.0
        at = 0.0
        for size in row:
            length = size * scale / thick if thick else 0.0
            if room.width >= room.height:
                tiles.append(Tile(room.x, room.y + at, thick, length))
            else:
                tiles.append(Tile(room.x + at, room.y, length, thick))
            at += length
        if room.width >= room.height:
            room = Tile(room.x + thick, room.y, max(0.0, room.width - thick), room.height)
        else:
            room = Tile(room.x, room.y + thick, room.width, max(0.0, room.height - thick))
        start = stop
    return tiles


def _worst(row: Sequence[int], scale: float, side: float) -> float:
    """The longest side over the shortest in a row of rectangles along `side`."""
    thick = sum(row) * scale / side if side else 0.0
    if not thick:
        return float("inf")
    lengths = [size * scale / thick for size in (row[0], row[-1])]
    return max(max(length / thick, thick / length) if length else float("inf") for length in lengths)
