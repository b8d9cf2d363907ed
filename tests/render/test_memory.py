from __future__ import annotations

import io
import pickle
import re
from html.parser import HTMLParser

import pytest

from firstfault.ingest.memory_snapshot_reading import read_snapshot
from firstfault.memory.snapshot import report_of
from firstfault.model.memory_report import MemoryReport
from firstfault.render.layout import cells
from firstfault.render.memory import render_memory
from firstfault.render.memory_html import memory_html
from firstfault.render.memory_svg import Tile, tiles_of
from golden_file import check
from memory_snapshots import MIB, Device, frames, snapshot, train

HOSTILE = "</script><script>alert(1)</script>\x1b[31m\u202e&<b>" + "x" * 300


def report(*devices: Device) -> MemoryReport:
    return report_of(read_snapshot(io.BytesIO(pickle.dumps(snapshot(*devices))).read), "oom.pickle")


def full(index: int = 0) -> Device:
    device = Device(index, 1_600 * MIB)
    with pytest.raises(MemoryError):
        train(device, 60, leak=20 * MIB)
    return device


def hostile() -> Device:
    device = Device(0, 400 * MIB)
    with pytest.raises(MemoryError):
        for number in range(80):
            device.alloc(f"a{number}", 9 * MIB + number * 4096, frames((f"{HOSTILE}{number}.py", number, HOSTILE)))
    return device


def off() -> Device:
    device = Device()
    device.recording = False
    train(device, 3)
    return device


def kinds() -> dict[str, MemoryReport]:
    return {
        "full": report(full()),
        "hostile": report(hostile()),
        "off": report(off()),
        "eight": report(*map(full, range(10))),
        "empty": report(),
    }


@pytest.mark.parametrize("width", [80, 120])
def test_golden(width: int) -> None:
    check(f"memory-full-{width}.txt", render_memory(report(full()), width=width))


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("ascii", [False, True])
def test_no_line_is_wider_than_asked_and_nothing_drives_the_terminal(width: int, ascii: bool) -> None:
    for name, made in kinds().items():
        text = render_memory(made, width=width, ascii=ascii)
        lines = text.split("\n")
        assert max(map(cells, lines)) <= width, name
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert not ascii or text.isascii()


def test_the_terminal_names_the_failure_the_holder_and_what_grows() -> None:
    text = render_memory(report(full()))
    for part in ("OUT OF MEMORY", "train.py:66 step", "KEEPS GROWING", "20 MiB a step", "POOLS", "asked by"):
        assert part in text
    assert "MISSING  memory.history" in render_memory(report(off()))


class Page(HTMLParser):
    """The tags of a page, with what each of them may load or run."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]


@pytest.mark.parametrize("name", ["full", "hostile", "off", "eight", "empty"])
def test_the_page_loads_and_runs_nothing_and_stays_small(name: str) -> None:
    text = memory_html(kinds()[name])
    page = Page()
    page.feed(text)
    assert not {"script", "link", "img", "iframe", "object", "form"} & set(page.tags)
    assert not any(key in ("src", "href", "style", "srcset") or key.startswith("on") for key, _ in page.attributes)
    assert "default-src 'none'" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len(text.encode()) < 1_000_000
    assert not re.search(r"nan|inf(?!o)\b", " ".join(value for key, value in page.attributes if key in ("d", "x", "y")))


def test_the_page_has_area_treemap_and_the_same_as_tables() -> None:
    text = memory_html(report(full()))
    assert text.count('class="layer"') >= 6
    assert text.count('class="tile"') >= 4
    assert "<table" in text
    assert text.count("train.py:66 step") >= 4
    for word in ("peak", "failed"):
        assert f">{word}</text>" in text


def test_tiles_fill_the_room_in_proportion() -> None:
    sizes = [500, 300, 100, 60, 30, 9, 1]
    room = Tile(0, 0, 912, 320)
    tiles = tiles_of(sizes, room)
    for size, tile in zip(sizes, tiles, strict=True):
        assert tile.width * tile.height == pytest.approx(size / 1_000 * 912 * 320)
        assert tile.x >= -0.01
        assert tile.x + tile.width <= 912.01
        assert tile.y + tile.height <= 320.01
    assert max(max(tile.width / tile.height, tile.height / tile.width) for tile in tiles[:3]) < 4
    assert tiles_of([], room) == []
