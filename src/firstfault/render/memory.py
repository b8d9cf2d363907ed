"""A memory report as terminal text: the failed allocation, what was alive by call site, growth, pools, what is missing."""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.model.memory_report import Curve, DeviceMemory, Held, MemoryReport
from firstfault.render import memory_words as words
from firstfault.render.layout import Canvas, cells, cut, fold
from firstfault.render.style import Look
from firstfault.units import format_size

MIN_WIDTH = 40
MAX_SITES = 10
MAX_POOLS = 8
MAX_DEVICES = 8
MAX_FRAMES = 8
_SIZE = 10
_SHARE = 6
_TABLE_WIDTH = 60
_HEIGHTS = " ▁▂▃▄▅▆▇█"
_ASCII_HEIGHTS = " .:-=+*%#"


def render_memory(report: MemoryReport, *, width: int = 80, color: bool = False, ascii: bool = False) -> str:
    """The whole report as text of at most `width` columns."""
    canvas = Canvas(Look(width=max(MIN_WIDTH, width), color=color, ascii=ascii))
    canvas.prose(" · ".join(words.what_was_read(report)), indent=0, full=True)
    sites = words.Sites(report)
    order = sorted(report.devices, key=lambda device: device.failed is None)
    for device in order[:MAX_DEVICES]:
        _device(canvas, device, sites)
    if len(order) > MAX_DEVICES:
        canvas.blank()
        canvas.prose(f"and {len(order) - MAX_DEVICES} more devices: --format json", indent=0)
    for fact in report.missing:
        canvas.heading("MISSING", fact.fact)
        canvas.prose(fact.why)
        canvas.prose(fact.command, hanging=4)
    if report.notes:
        canvas.heading("NOTES")
        for note in report.notes:
            canvas.prose(note, hanging=4)
    canvas.blank()
    canvas.prose("more: --output FILE.html (a picture) · --format json", indent=0)
    return canvas.text()


def _device(canvas: Canvas, device: DeviceMemory, sites: words.Sites) -> None:
    canvas.blank()
    failed = device.failed
    head = "OUT OF MEMORY" if failed else "MEMORY"
    lines = fold(canvas.look.line(words.headline(device)), canvas.width - len(head) - 2)
    for number, line in enumerate(lines):
        lead = f"{head}  " if not number else " " * (len(head) + 2)
        canvas.put((lead, "fault" if failed else "head"), (line, ""))
    if failed:
        canvas.prose(failed.why)
        if failed.count > 1:
            canvas.prose(f"{failed.count:,} allocations failed; this is the last one.")
        for number, frame in enumerate(failed.frames[:MAX_FRAMES]):
            canvas.labelled("asked by" if not number else "", frame, column=14)
        if len(failed.frames) > MAX_FRAMES:
            canvas.labelled("", f"and {len(failed.frames) - MAX_FRAMES} frames more", column=14, role="dim")
    amounts = words.amounts(device)
    canvas.blank()
    column = 2 + max((cells(name) for name, _ in amounts), default=0) + 2
    for name, figure in amounts:
        canvas.labelled(name, figure, column=column)
    _curve(canvas, device.curve)
    for heading, when, held, rest in words.moments(device):
        canvas.heading(heading.upper(), when)
        _held(canvas, held, rest, sites)
    _growth(canvas, device, sites)
    _pools(canvas, device)


def _curve(canvas: Canvas, curve: Curve) -> None:
    """One row of bars: the highest total of each stretch of the trace."""
    if len(curve.high_bytes) < 2:
        return
    heights = _ASCII_HEIGHTS if canvas.look.ascii else _HEIGHTS
    columns = min(canvas.width - 4, 100, len(curve.high_bytes))
    highest = max(1, *curve.high_bytes)
    signs = []
    for column in range(columns):
        start, stop = (len(curve.high_bytes) * part // columns for part in (column, column + 1))
        share = max(curve.high_bytes[start : max(stop, start + 1)]) / highest
        signs.append(heights[max(1, round(share * (len(heights) - 1))) if share > 0 else 0])
    canvas.heading("OVER TIME", f"highest {format_size(highest)}")
    canvas.put(("  ", ""), ("".join(signs), ""))


def _held(canvas: Canvas, held: Sequence[Held], rest: int, sites: words.Sites) -> None:
    total = sum(one.size_bytes for one in held) + rest
    shown, others = held[:MAX_SITES], sum(one.size_bytes for one in held[MAX_SITES:]) + rest
    for one in shown:
        _row(canvas, one.size_bytes, total, sites.name(one.site), sites.around(one.site))
    if others:
        count = len(held) - len(shown)
        _row(canvas, others, total, f"{count} other call sites" if not rest else "other call sites", "")


def _row(canvas: Canvas, size: int, total: int, name: str, around: str) -> None:
    lead = f"{format_size(size):>{_SIZE}} {size / max(1, total):>{_SHARE - 1}.0%}  "
    space = " " * (2 + len(lead))
    for number, line in enumerate(fold(canvas.look.line(name), canvas.width - len(space))):
        canvas.put(("  ", ""), (lead if not number else space[2:], ""), (line, ""))
    for line in fold(canvas.look.line(around), canvas.width - len(space)) if around else ():
        canvas.put((space, ""), (line, "dim"))


def _growth(canvas: Canvas, device: DeviceMemory, sites: words.Sites) -> None:
    if not device.growth:
        return
    canvas.heading("KEEPS GROWING", "the least that a call site held, early and late in the trace")
    for growth in device.growth:
        rise = f"{format_size(growth.first_bytes)} to {format_size(growth.last_bytes)}"
        per_step = f", {format_size(growth.per_step_bytes)} a step" if growth.per_step_bytes else ""
        canvas.prose(f"{sites.name(growth.site)}: {rise}{per_step}", hanging=4, role="warn")
        if around := sites.around(growth.site):
            canvas.prose(around, indent=4, role="dim")


def _pools(canvas: Canvas, device: DeviceMemory) -> None:
    if not device.pools:
        return
    canvas.heading("POOLS")
    if canvas.width < _TABLE_WIDTH:
        for pool in device.pools[:MAX_POOLS]:
            name = words.pool_name(pool.kind, pool.stream, private=pool.private, pool_id=pool.pool_id)
            unused = f"{format_size(pool.free_bytes)} unused, largest piece {format_size(pool.largest_free_bytes)}"
            canvas.prose(f"{name}: {format_size(pool.reserved_bytes)} reserved, {unused}", hanging=4)
        return
    name_width = canvas.width - 48
    heads = ("reserved", "unused", "largest", "pieces")
    canvas.put((f"  {'pool':<{name_width}}" + "".join(f"{head:>11}" for head in heads), "dim"))
    for pool in device.pools[:MAX_POOLS]:
        name = words.pool_name(pool.kind, pool.stream, private=pool.private, pool_id=pool.pool_id)
        name += ", expandable" if pool.expandable else ""
        figures = [format_size(size) for size in (pool.reserved_bytes, pool.free_bytes, pool.largest_free_bytes)]
        row = "".join(f"{figure:>11}" for figure in (*figures, f"{pool.free_blocks:,}"))
        canvas.put((f"  {cut(name, name_width - 1):<{name_width}}{row}", ""))
    if len(device.pools) > MAX_POOLS:
        canvas.prose(f"and {len(device.pools) - MAX_POOLS} more pools", role="dim")
