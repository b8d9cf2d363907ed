"""The Markdown of entries in a terminal: paragraphs, lists, tables and fences, no more than entries use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from firstfault.lazy_pattern import lazy_pattern
from firstfault.render.layout import PROSE_WIDTH, Canvas, cells, fold

_FENCE = lazy_pattern(r"\s*(`{3,}|~{3,})(.*)")
_ITEM = lazy_pattern(r"(\s*)([-*]|\d+[.)])\s+(.*)")
_RULE = lazy_pattern(r"\|?[\s:|-]+\|[\s:|-]*\Z")
_CELL = lazy_pattern(r"(?<!\\)\|")
_CODE_SPAN = lazy_pattern(r"(`[^`]+`)")
_STRONG = lazy_pattern(r"\*\*([^*]+)\*\*|(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])")
_LINK = lazy_pattern(r"\[([^\]]+)\]\(([^)\s]+)\)")


class Block(NamedTuple):
    """One block of Markdown; `rows` for tables, `lead` is the marker of a list item with its indentation."""

    kind: Literal["paragraph", "item", "table", "code"]
    text: str = ""
    lead: str = ""
    rows: tuple[tuple[str, ...], ...] = ()


def read_blocks(markdown: str) -> list[Block]:
    """The blocks of a section in their order."""
    blocks: list[Block] = []
    pending: list[str] = []
    lead = ""
    lines = iter(markdown.split("\n"))
    for line in lines:
        fence = _FENCE.match(line)
        item = _ITEM.match(line)
        ends = bool(fence or item or not line.strip() or line.lstrip().startswith("|"))
        if pending and ends:
            blocks.append(Block("item" if lead else "paragraph", " ".join(pending), lead))
            pending, lead = [], ""
        if fence:
            blocks.append(Block("code", "\n".join(_until(lines, fence[1]))))
        elif item:
            pending, lead = [item[3]], f"{item[1]}{item[2]} "
        elif line.lstrip().startswith("|"):
            _add_row(blocks, line)
        elif line.strip():
            pending.append(line.strip())
    if pending:
        blocks.append(Block("item" if lead else "paragraph", " ".join(pending), lead))
    return blocks


def draw(canvas: Canvas, markdown: str) -> None:
    """Puts a section on the canvas."""
    before = ""
    for block in read_blocks(markdown):
        if before and not (before == block.kind == "item"):
            canvas.blank()
        if block.kind == "table":
            _table(canvas, block.rows)
        elif block.kind == "code":
            canvas.code([(line, "") for line in canvas.look.block(block.text)], indent=4)
        else:
            indent = 2 + cells(block.lead)
            canvas.prose(f"{block.lead.strip()} {plain(block.text)}", indent=2 + _depth(block.lead), hanging=indent)
        before = block.kind


def plain(text: str) -> str:
    """A line without the marks of emphasis and links; code spans keep their backticks."""
    parts = _CODE_SPAN.split(text)
    return "".join(
        part if number % 2 else _LINK.sub(r"\1 (\2)", _STRONG.sub(lambda found: found[1] or found[2], part))
        for number, part in enumerate(parts)
    )


def _until(lines: Iterator[str], marks: str) -> Iterator[str]:
    for line in lines:
        if line.strip().startswith(marks) and not line.strip().strip(marks[0]):
            return
        yield line


def _add_row(blocks: list[Block], line: str) -> None:
    if _RULE.match(line.strip()):
        return
    row = tuple(cell.strip().replace("\\|", "|") for cell in _CELL.split(line.strip().strip("|")))
    if blocks and blocks[-1].kind == "table":
        blocks[-1] = Block("table", rows=(*blocks[-1].rows, row))
    else:
        blocks.append(Block("table", rows=(row,)))


def _depth(lead: str) -> int:
    return len(lead) - len(lead.lstrip())


def _table(canvas: Canvas, rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as they need, the widest made narrower until all fit; the first row is the heading."""
    count = max(len(row) for row in rows)
    texts = [[canvas.look.line(plain(cell)) for cell in row] + [""] * (count - len(row)) for row in rows]
    sizes = [max(1, *(cells(row[column]) for row in texts)) for column in range(count)]
    room = min(canvas.width, PROSE_WIDTH + 16) - 2 - 2 * (count - 1)
    while sum(sizes) > room and max(sizes) > 4:
        sizes[sizes.index(max(sizes))] -= 1
    for number, row in enumerate(texts):
        folded = [fold(cell, size) for cell, size in zip(row, sizes, strict=True)]
        for line in range(max(len(cell) for cell in folded)):
            parts = [cell[line] if line < len(cell) else "" for cell in folded]
            padded = [part + " " * (size - cells(part)) for part, size in zip(parts, sizes, strict=True)]
            canvas.put(("  ", ""), ("  ".join(padded).rstrip(), "" if number else "head"))
