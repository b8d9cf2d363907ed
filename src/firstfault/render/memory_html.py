"""A memory report as one HTML file: an area over time, a treemap of what was alive, and the same as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from firstfault.model.memory_report import DeviceMemory, Held, MemoryReport
from firstfault.render import memory_svg as svg
from firstfault.render import memory_words as words
from firstfault.render.html_page import line, page, section
from firstfault.units import format_size

MAX_DEVICES = 8
MAX_FRAMES = 40
FEW_DEVICES = 3

CSS = """
svg .tile { stroke: var(--page); stroke-width: .8; }
svg .layer:hover, svg g:hover .tile { filter: brightness(1.08); stroke: var(--ink); stroke-width: 1.4; }
svg .reserved { fill: none; stroke: var(--ink); stroke-width: 1.2; stroke-dasharray: 5 3; opacity: .75; }
svg .peak-line { stroke: var(--ink); stroke-dasharray: 2 4; opacity: .6; }
svg text.on { fill: #16191d; font-size: 12.5px; pointer-events: none; }
.legend { list-style: none; padding: 0; margin: 14px 0 0; } .legend li { margin: 0 0 6px; max-width: none; }
.legend svg { display: inline-block; width: 12px; min-width: 0; height: 12px; margin-right: 8px; vertical-align: -1px; }
.wide { min-width: 600px; margin-top: 18px; }
.number { text-align: right; white-space: nowrap; padding-right: 24px; font-variant-numeric: tabular-nums; }
"""


def memory_html(report: MemoryReport) -> str:
    """The whole report as a self-contained page below 1 MB: no script, nothing loaded."""
    sites = words.Sites(report)
    order = sorted(report.devices, key=lambda device: device.failed is None)
    # All drawings together stay below 1 MB.
    columns = svg.MAX_COLUMNS if len(order) <= FEW_DEVICES else svg.MAX_COLUMNS // FEW_DEVICES
    parts = [text for device in order[:MAX_DEVICES] for text in _device(device, sites, columns)]
    if len(order) > MAX_DEVICES:
        parts.append(f"<p>and {len(order) - MAX_DEVICES} more devices, in the JSON output</p>")
    if report.missing:
        rows = "".join(
            f"<h3>{line(fact.fact)}</h3><p>{line(fact.why)}</p><pre class='command'><code>{line(fact.command)}</code></pre>"
            for fact in report.missing
        )
        parts.append(section("missing", "Missing fact", f'<div class="card ask">{rows}</div>'))
    if report.notes:
        parts.append(
            section("notes", "Notes", f'<ul class="quiet">{"".join(f"<li>{line(note)}</li>" for note in report.notes)}</ul>')
        )
    title = words.headline(order[0]) if order else "memory snapshot"
    return page(title, words.what_was_read(report), parts, "<p>Made by firstfault where the file was read.</p>", style=CSS)


def _device(device: DeviceMemory, sites: words.Sites, columns: int) -> Iterable[str]:
    key = f"device-{device.device}"
    failed = device.failed
    kind, word = ("verdict", "OUT OF MEMORY") if failed else ("verdict no_failure", "MEMORY")
    said = f'<p class="lead">{line(failed.why)}</p>' if failed else ""
    rows = "".join(f"<dt>{line(name)}</dt><dd>{line(figure)}</dd>" for name, figure in words.amounts(device))
    yield (
        f'<section class="{kind}" aria-labelledby="{key}"><p class="word">{word}</p>'
        f'<h1 id="{key}">{line(words.headline(device))}</h1>{said}<dl>{rows}</dl></section>'
    )
    if len(device.curve.events) > 1:
        yield section(f"{key}-time", "Over time", _over_time(device, sites, columns))
    for number, (heading, when, held, rest) in enumerate(words.moments(device)):
        yield section(f"{key}-held-{number}", heading.capitalize(), _held(device, when, held, rest, sites, drawn=not number))
    if device.growth:
        items = "".join(
            f"<li><code>{line(sites.name(one.site))}</code> {line(sites.around(one.site))}: {format_size(one.first_bytes)} to "
            f"{format_size(one.last_bytes)}{f', {format_size(one.per_step_bytes)} a step' if one.per_step_bytes else ''}</li>"
            for one in device.growth
        )
        yield section(f"{key}-growth", "Keeps growing", f"<ul>{items}</ul>")
    if failed and failed.frames:
        frames = "\n".join(line(frame) for frame in failed.frames[:MAX_FRAMES])
        yield section(f"{key}-stack", "The stack of the failed allocation, innermost first", f"<pre>{frames}</pre>")
    if device.pools:
        yield section(f"{key}-pools", "Pools", _pools(device))


def _over_time(device: DeviceMemory, sites: words.Sites, columns: int) -> str:
    """The drawing with its legend; the figures stand in the tables below it."""
    label = f"Bytes alive on device {device.device} by call site, over {device.events:,} events of the allocator"
    colors = svg.colors_of(device)
    entries = [(colors.get(site, svg.REST_COLOR), f"{sites.name(site)} {sites.around(site)}") for site in device.curve.sites]
    total = sum(layer[-1] for layer in device.curve.layers)
    if device.curve.total_bytes[-1] > total:
        entries.append((svg.REST_COLOR, "everything else"))
    legend = "".join(
        '<li><svg viewBox="0 0 12 12" aria-hidden="true">'
        f'<rect width="12" height="12" rx="2" fill="{color}"/></svg>{line(text)}</li>'
        for color, text in entries
    )
    drawing = _drawn("Memory over time, drawn", svg.area(device, sites.name, label, columns))
    reserved = '<p class="quiet">dashed: reserved by PyTorch</p>' if device.curve.reserved_bytes else ""
    return f'{drawing}{reserved}<ul class="legend">{legend}</ul>'


def _drawn(name: str, drawing: str) -> str:
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{name}">{drawing}</div>'


def _held(device: DeviceMemory, when: str, held: Sequence[Held], rest: int, sites: words.Sites, *, drawn: bool) -> str:
    total = sum(one.size_bytes for one in held) + rest
    rows = [
        f"<tr><td class='number'>{format_size(size)}</td><td class='number'>{size / max(1, total):.0%}</td>"
        f"<th scope='row'><code>{line(name)}</code></th><td>{line(around)}</td></tr>"
        for size, name, around in (
            *((one.size_bytes, sites.name(one.site), sites.around(one.site)) for one in held),
            *(((rest, "other call sites", ""),) if rest else ()),
        )
    ]
    head = "".join(f"<th scope='col'>{name}</th>" for name in ("bytes", "share", "call site", "around it"))
    table = (
        f"<div class='scroll'><table class='wide'><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
    if not drawn:
        return f"<p>{line(when)}</p>{table}"
    items = [*((one.site, one.size_bytes) for one in held), (None, rest)]
    picture = svg.treemap(items, svg.colors_of(device), sites.name, f"What was alive, by call site: {when}")
    return f"<p>{line(when)}</p>{_drawn('What was alive, drawn', picture)}{table}"


def _pools(device: DeviceMemory) -> str:
    rows = "".join(
        f"<tr><th scope='row'>{line(words.pool_name(pool.kind, pool.stream, private=pool.private, pool_id=pool.pool_id))}"
        f"{', expandable' if pool.expandable else ''}</th><td class='number'>{pool.segments:,}</td>"
        f"<td class='number'>{format_size(pool.reserved_bytes)}</td><td class='number'>{format_size(pool.free_bytes)}</td>"
        f"<td class='number'>{format_size(pool.largest_free_bytes)}</td><td class='number'>{pool.free_blocks:,}</td></tr>"
        for pool in device.pools[:64]
    )
    heads = ("pool", "segments", "reserved", "unused", "largest piece", "pieces")
    head = "".join(f"<th scope='col'>{name}</th>" for name in heads)
    return f"<div class='scroll'><table class='wide'><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
