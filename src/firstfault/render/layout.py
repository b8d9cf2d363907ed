"""Lines that never pass the width: measuring, folding, cutting, and a canvas that collects them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from firstfault.lazy_pattern import lazy_pattern
from firstfault.render.style import Look, Role

_NARROW = lazy_pattern("[ -~\u00a0-\u00ac\u00ae-\u02ff\u2010-\u2027\u2030-\u205e\u2190-\u22ff\u2500-\u25fc✗]*")
"""Characters of one column, so that the tables of widths are loaded only for texts that need them."""

_COMMENT = lazy_pattern(r"\s#\s")
_SHELL_WORD = lazy_pattern(r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|\\.|[^\s"'\\]|["'\\])+""")
_QUOTED = lazy_pattern(r""""(?:[^"\\]|\\.)*"|'[^']*'""")
_BREAK_AFTER = frozenset("/,_=.&?-:;")
PROSE_WIDTH = 96
"""Longer lines of prose are hard to read, however wide the terminal is."""

Piece = tuple[str, Role] | tuple[str, Role, str]


def cells(text: str) -> int:
    """Columns that `text` takes at most: joined emoji count as their parts, since terminals differ there."""
    if text.isascii() or _NARROW.fullmatch(text):
        return len(text)
    from rich.cells import get_character_cell_size

    return sum(max(0, get_character_cell_size(character)) for character in text) + text.count("\ufe0f")


def cut(text: str, width: int, more: str = "…") -> str:
    """`text` in at most `width` columns, ending in `more` where something is left out."""
    if cells(text) <= width:
        return text
    if width <= len(more):
        return more[: max(0, width)]
    return _head(text, width - len(more)).rstrip() + more


def fold(text: str, width: int, *, first: int = 0, max_lines: int = 0, more: str = "…") -> list[str]:
    """The words of `text` in lines of at most `width` columns (`first` for the first one); words that are too long are broken.

    With `max_lines`, the rest is left out and the last line ends in `more`.
    """
    rest = max(1, width)
    width = max(1, first or width)
    lines: list[str] = []
    current = ""
    used = 0
    for word in text.split():
        size = cells(word)
        if used and used + 1 + size <= width:
            current, used = f"{current} {word}", used + 1 + size
            continue
        if used:
            lines.append(current)
            width = rest
        while cells(word) > width:
            head = _head(word, width)
            lines.append(head)
            width = rest
            word = word[len(head) :]
        current, used = word, cells(word)
    if used or not lines:
        lines.append(current)
    if max_lines and len(lines) > max_lines:
        lines = lines[:max_lines]
        lines[-1] = cut(f"{lines[-1]} {more}", rest if max_lines > 1 else max(1, first or rest), more)
    return lines


def wrap_command(text: str, width: int) -> list[str]:
    """A shell command in lines of at most `width` columns that can still be pasted: broken at blanks outside of quotes.

    A comment behind it stands below it: a comment cannot be continued. A quoted word that is wider than the width is broken
    where the shell joins it again, and only then.
    """
    found = _COMMENT.search(text)
    comments: list[str] = []
    if found and _is_unquoted(text, found.start()) and cells(text) > width:
        text, comment = text[: found.start()], text[found.start() :].strip()
        comments = [f"# {line}" if number else line for number, line in enumerate(fold(comment, width - 2))]
    if cells(text) <= width:
        return [text, *comments]
    rows: list[str] = []
    line = ""
    for word in _shell_words(text):
        indent = "    " if rows else ""
        joined = f"{line} {word}" if line else f"{indent}{word}"
        if line and (cells(joined) > width - 2 or (word == "|" and cells(f"{line} {text}") > width)):
            rows.append(line)
            line = f"    {word}"
        else:
            line = joined
        while cells(line) > width - 2:
            head = _head(line, width - 2)
            rows.append(head)
            line = line[len(head) :]
    rows.append(line)
    return [*_continued(rows), *comments]


def _continued(rows: Sequence[str]) -> list[str]:
    """Every row but the last ends in a backslash; a row that breaks a word has no blank before it."""
    ends = [" \\" if rows[number + 1].startswith("    ") else "\\" for number in range(len(rows) - 1)]
    return [f"{row}{end}" for row, end in zip(rows, [*ends, ""], strict=True)]


def _shell_words(text: str) -> list[str]:
    """The words of a command, each with its quotes."""
    return [found[0] for found in _SHELL_WORD.finditer(text)]


def _is_unquoted(text: str, at: int) -> bool:
    before = _QUOTED.sub("", text[:at])
    return "'" not in before and '"' not in before


def wrap_code(text: str, width: int) -> list[str]:
    """A line of code in pieces of at most `width` columns, broken at blanks if it can be; the continuation is indented."""
    if cells(text) <= width:
        return [text]
    indent = " " * min(4, width // 2)
    lines = [_code_head(text, width)]
    rest = text[len(lines[0]) :]
    while rest:
        head = _code_head(rest, width - len(indent))
        lines.append(indent + head)
        rest = rest[len(head) :]
    return lines


def _code_head(text: str, width: int) -> str:
    """The longest start of a line of code in `width` columns: up to a blank or a bracket, else as `_head` has it."""
    head = _head(text, width)
    if len(head) == len(text):
        return head
    room = width - (len(head) - cells(head) if not head.isascii() else 0)
    limit = min(len(text) - 1, room)
    for signs in (" ", "(,="):
        for index in range(limit, width // 2, -1):
            if text[index - 1] in signs and cells(text[:index]) <= width and text[:index].strip():
                return text[:index]
    return head


def _head(text: str, width: int) -> str:
    """The longest start of `text` in `width` columns (at least one character), ended behind a separator if one is near."""
    used = 0
    end = len(text)
    for index, character in enumerate(text):
        used += cells(character)
        if used > width:
            end = index
            break
    if end < len(text):
        for index in range(end, max(end // 2, 1), -1):
            if text[index - 1] in _BREAK_AFTER:
                return text[:index]
    return text[: max(1, end)]


class Canvas:
    """Collects painted lines and knows how wide each is."""

    def __init__(self, look: Look) -> None:
        self.look = look
        self.width = look.width
        self.lines: list[tuple[int, str]] = []

    def text(self) -> str:
        """Everything, one line break at the end."""
        return "\n".join(painted for _, painted in self.lines) + "\n"

    def blank(self) -> None:
        """An empty line, never two."""
        if self.lines and self.lines[-1][0]:
            self.lines.append((0, ""))

    def put(self, *pieces: Piece) -> None:
        """One line made of pieces that are known to fit."""
        paint = self.look.paint
        plain = "".join(piece[0] for piece in pieces).rstrip()
        painted = "".join(paint(piece[0], piece[1], piece[2] if len(piece) == 3 else "") for piece in pieces)
        self.lines.append((cells(plain), painted if self.look.color or self.look.links else plain))

    def heading(self, word: str, rest: str = "") -> None:
        """A section: a blank line, its word in bold, and a title that may fold."""
        self.blank()
        lead = f"{word}  "
        lines = fold(self.look.line(rest), self.width - len(lead)) if rest else [""]
        self.put((lead if rest else word, "head"), (lines[0], ""))
        for text in lines[1:]:
            self.put((" " * len(lead), ""), (text, ""))

    def prose(
        self, text: str, *, indent: int = 2, hanging: int | None = None, role: Role = "", max_lines: int = 0, full: bool = False
    ) -> None:
        """A paragraph, folded; `hanging` indents the lines after the first, `full` uses the whole width."""
        hanging = indent if hanging is None else hanging
        limit = self.width if full else min(self.width, PROSE_WIDTH)
        text = self.look.line(text)
        lines = fold(text, limit - hanging, first=limit - indent, max_lines=max_lines, more=self.look.glyphs.more)
        for number, line in enumerate(lines):
            self.put((" " * (hanging if number else indent), ""), (line, role))

    def labelled(
        self, label: str, text: str, *, column: int, link: str = "", role: Role = "", right: str = "", max_lines: int = 0
    ) -> None:
        """A row of two columns: `label` on the left, folded text, `right` at the far end; a wide label stands above."""
        look = self.look
        label = look.line(label)
        right_size = cells(right) + 2 if right else 0
        if cells(label) > column - 4:
            for part in wrap_code(label, self.width - 2):
                self.put(("  ", ""), (part, role, link))
            label, column = "", 6
        for number, line in enumerate(self._folded(text, self.width - column - right_size, max_lines)):
            left = label if not number else ""
            pieces: list[Piece] = [("  ", ""), (left, role, link), (" " * (column - 2 - cells(left)), ""), (line, role)]
            if right and not number:
                pieces += [(" " * (self.width - column - cells(line) - cells(right)), ""), (right, "dim")]
            self.put(*pieces)

    def _folded(self, text: str, width: int, max_lines: int) -> list[str]:
        """Each line of `text` folded; blank lines go."""
        look = self.look
        lines: list[str] = []
        for row in look.block(text):
            if row.strip() and not (max_lines and len(lines) >= max_lines):
                left = max_lines - len(lines) if max_lines else 0
                lines += fold(look.line(row), width, max_lines=left, more=look.glyphs.more)
        return lines or [""]

    def code(self, lines: Iterable[tuple[str, Role]], *, indent: int = 2) -> None:
        """Lines of code or of a diff, each with its role, broken only where they must be."""
        for text, role in lines:
            for part in wrap_code(text, self.width - indent):
                self.put((" " * indent, ""), (part.rstrip(), role))

    def command(self, text: str, *, lead: str = "$ ", indent: int = 2) -> None:
        """A shell command that stays pastable, `lead` in front of it."""
        margin = indent + len(lead)
        broken = False
        for number, part in enumerate(wrap_command(self.look.line(text), self.width - margin)):
            # The rest of a broken word begins the line, or the shell would see two words.
            self.put(("" if broken else " " * indent + (" " * len(lead) if number else lead), "dim"), (part, ""))
            broken = part.endswith("\\") and not part.endswith(" \\")

    def beside(self, left: Canvas, right: Canvas) -> None:
        """Two canvases in two columns, the right one at the right edge."""
        column = self.width - right.width
        rows = max(len(left.lines), len(right.lines))
        blank = (0, "")
        for number in range(rows):
            size, painted = left.lines[number] if number < len(left.lines) else blank
            other_size, other = right.lines[number] if number < len(right.lines) else blank
            if other_size:
                self.lines.append((column + other_size, painted + " " * (column - size) + other))
            else:
                self.lines.append((size, painted))


def column_for(labels: Sequence[str], width: int) -> int:
    """The left column that fits most labels without taking more than a third of the width."""
    longest = max((cells(label) for label in labels if cells(label) <= width // 3), default=0)
    return 2 + max(11, longest) + 2
