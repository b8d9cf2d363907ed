"""A comparison as terminal text: the verdict, what explains it, then the rows that differ in two columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from shlex import quote

from firstfault.model.comparison import Comparison, Difference, Ending, Explanation, SideValue, Subject, Topic
from firstfault.model.plan import Scalar, UnknownFact
from firstfault.render.layout import Canvas, cells, fold
from firstfault.render.plan_findings import write_change
from firstfault.render.style import Look, Role
from firstfault.units import format_duration

MIN_WIDTH = 40
MAX_ROWS = 14
"""Rows of one topic; the JSON has all of them."""
MAX_FIXES = 2
_MAX_CELL_LINES = 4
_MAX_NAMES = 8
_EMPTY: tuple[str, Role] = ("", "")

HEADINGS: dict[Topic, str] = {
    "outcome": "OUTCOME",
    "plan": "WHAT STARTS",
    "batch": "BATCH",
    "version": "VERSIONS",
    "configuration": "CONFIGURATION",
    "argument": "ARGUMENTS",
    "environment": "ENVIRONMENT",
    "machine": "MACHINE",
    "memory": "MEMORY",
    "progress": "PROGRESS",
}
_ENDINGS: dict[Ending, str] = {
    "fails": "fails",
    "stops": "stops before it trains",
    "goes_wrong": "does not start what one would expect",
    "ends_well": "no failure",
    "not_seen": "how it ends was not read",
}
_IMPORTANT = ("torch", "transformers", "accelerate", "deepspeed", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "cuda", "python")


def render_comparison(made: Comparison, *, width: int = 80, color: bool = False, ascii: bool = False) -> str:
    """The whole comparison as text of at most `width` columns."""
    canvas = Canvas(Look(width=max(MIN_WIDTH, width), color=color, ascii=ascii))
    canvas.prose(counts(made), indent=0, full=True)
    canvas.blank()
    for letter, subject in (("A", made.a), ("B", made.b)):
        _subject(canvas, letter, subject)
    _verdict(canvas, made)
    for text in made.alike:
        canvas.prose(f"on both sides: {text}", hanging=4)
    _missing(canvas, made.missing)
    write_rows(canvas, made.differences, {name for one in made.explanations for name in one.differences})
    _one_sided(canvas, made.unknown)
    _fixes(canvas, made.explanations)
    if made.notes:
        canvas.heading("NOTES")
        for note in made.notes:
            canvas.prose(note, hanging=4)
    following = next_command(made)
    if following:
        canvas.blank()
        canvas.command(following, lead="more: ", indent=0)
    return canvas.text()


def render_difference(made: Comparison, *, width: int = 80, color: bool = False, ascii: bool = False) -> str:
    """The rows that differ and nothing else; one line where there is none."""
    canvas = Canvas(Look(width=max(MIN_WIDTH, width), color=color, ascii=ascii))
    canvas.labelled("A", made.a.name, column=5, max_lines=3)
    canvas.labelled("B", made.b.name, column=5, max_lines=3)
    if made.differences:
        write_rows(canvas, made.differences)
    else:
        canvas.blank()
        canvas.prose(f"both start the same: {made.equal} values are alike")
    _missing(canvas, made.missing)
    return canvas.text()


def counts(made: Comparison) -> str:
    """`12 differ`, `30 alike`, `3 read on one side only`, and that nothing left the machine."""
    parts = [f"{len(made.differences)} differ", f"{made.equal} alike"]
    if made.unknown:
        parts.append(f"{len(made.unknown)} on one side only")
    parts.append(format_duration(made.elapsed_s) if made.elapsed_s >= 0.05 else "under 0.1 s")
    return " · ".join([*parts, "nothing left this machine"])


def verdict_word(made: Comparison) -> tuple[str, Role]:
    """The verdict of a comparison in a word or two."""
    if made.explanations and made.verdict != "undetermined":
        return "EXPLAINED", "fault"
    if made.verdict == "undetermined":
        return "UNDETERMINED", "warn"
    if not made.differences:
        return "NO DIFFERENCE", "good"
    return ("BOTH ALIKE", "warn") if made.a.ending not in ("ends_well", "not_seen") else ("NOTHING AMISS", "good")


def next_command(made: Comparison) -> str:
    """The command that tells more of the side that fails."""
    for subject in (made.b, made.a):
        if subject.ending in ("fails", "goes_wrong", "stops"):
            if subject.kind == "command":
                if "***" in subject.command:
                    return ""  # a secret was left out: it could not be pasted
                return f"firstfault plan -- {subject.command}"
            return f"firstfault diagnose {quote(subject.name)}"
    return ""


def ending_of(subject: Subject) -> str:
    """How a side ends, in a few words."""
    if subject.told:
        return "fails, as you say" if subject.ending == "fails" else "works, as you say"
    return _ENDINGS[subject.ending]


def _subject(canvas: Canvas, letter: str, subject: Subject) -> None:
    ending = ending_of(subject)
    bad = subject.ending in ("fails", "stops", "goes_wrong")
    verdict = f" ({subject.verdict})" if bad and subject.verdict in ("established", "likely", "undetermined") else ""
    canvas.labelled(letter, subject.name, column=5, max_lines=3)
    said = f"{ending}: {subject.title}{verdict}" if bad and subject.title else ending
    canvas.prose(said, indent=5, hanging=7, role="warn" if bad else "dim")


def _verdict(canvas: Canvas, made: Comparison) -> None:
    word, role = verdict_word(made)
    canvas.blank()
    lead = f"{word}  "
    for number, line in enumerate(fold(canvas.look.line(made.summary), canvas.width - len(lead))):
        canvas.put((lead if not number else " " * len(lead), role), (line, "head"))
    for number, one in enumerate(made.explanations):
        if number:
            canvas.blank()
            canvas.prose(f"also: {one.title}", indent=2, role="head")
        if one.text != made.summary:
            canvas.prose(one.text, indent=2)
        canvas.prose(f"that this is the reason: {one.verdict}", indent=2, role="dim")


def _missing(canvas: Canvas, missing: Sequence[UnknownFact]) -> None:
    for fact in missing:
        canvas.heading("MISSING", fact.fact)
        canvas.prose(fact.why)
        canvas.command(fact.command)


def write_rows(canvas: Canvas, rows: Sequence[Difference], marked: Iterable[str] = ()) -> None:
    """The rows by topic in two columns, those that an explanation rests on with a sign and first."""
    signs = set(marked)
    topics = dict.fromkeys(row.topic for row in rows)
    first = {row.topic for row in rows if row.id in signs}
    table = _Table(canvas, rows)
    for topic in sorted(topics, key=lambda topic: (topic not in first, list(HEADINGS).index(topic))):
        own = sorted((row for row in rows if row.topic == topic), key=lambda row: _order(row, signs))
        canvas.blank()
        table.head(HEADINGS[topic])
        for row in own[:MAX_ROWS]:
            table.row(row, row.id in signs)
        if len(own) > MAX_ROWS:
            canvas.prose(f"{canvas.look.glyphs.more} {len(own) - MAX_ROWS} more: --format json", indent=2, role="dim")


def _order(row: Difference, signs: set[str]) -> tuple[bool, int]:
    name = row.name
    return row.id not in signs, _IMPORTANT.index(name) if name in _IMPORTANT else len(_IMPORTANT)


class _Table:
    """Three columns: what, A, B."""

    def __init__(self, canvas: Canvas, rows: Sequence[Difference]) -> None:
        self.canvas = canvas
        longest = max((cells(row.name) for row in rows), default=0)
        self.first = min(max(longest + 4, 14), max(14, canvas.width * 3 // 10))
        self.column = (canvas.width - self.first) // 2

    def head(self, word: str) -> None:
        """The heading with the letters of both sides above their columns."""
        gap = " " * max(1, self.first - len(word))
        self.canvas.put((word + gap, "head"), ("A" + " " * (self.column - 1), "head"), ("B", "head"))

    def row(self, row: Difference, marked: bool) -> None:
        """Name, both values, each with its place below or behind it."""
        canvas = self.canvas
        look = canvas.look
        width = self.column - 2
        name = fold(look.line(row.name), self.first - 3, max_lines=3, more=look.glyphs.more)
        b = self._cell(row.b, width)
        if row.note:
            b.append((look.line(row.note), "dim"))
        a = self._cell(row.a, width)
        for number in range(max(len(name), len(a), len(b))):
            left = name[number] if number < len(name) else ""
            one, two = (cell[number] if number < len(cell) else _EMPTY for cell in (a, b))
            sign = look.glyphs.pointer if marked and not number else " "
            canvas.put(
                (f"{sign} ", "fault"),
                (left + " " * (self.first - 2 - cells(left)), "head" if marked else ""),
                one,
                (" " * (self.column - cells(one[0])), ""),
                two,
            )

    def _cell(self, side: SideValue, width: int) -> list[tuple[str, Role]]:
        look = self.canvas.look
        value = look.line(shown(side))
        place = look.line(short_place(side.where))
        if place and cells(value) + cells(place) + 2 <= width and cells(value) <= width // 2:
            return [(f"{value}  {place}", "")]
        lines: list[tuple[str, Role]] = [
            (line, "") for line in fold(value, width, max_lines=_MAX_CELL_LINES, more=look.glyphs.more)
        ]
        return lines + [(line, "dim") for line in fold(place, width, max_lines=2, more=look.glyphs.more) if place]


def shown(side: SideValue) -> str:
    """A value as a reader sees it."""
    if side.state == "absent":
        return "not set"
    if side.state == "unknown":
        return "not known"
    return _scalar(side.value)


def _scalar(value: Scalar) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return '""' if value == "" else "null" if value is None else str(value)


def short_place(where: str) -> str:
    """The place without its folders: which side it belongs to is said by the column."""
    path, colon, line = where.rpartition(":")
    if colon and line.isdecimal() and "/" in path and " " not in path:
        return f"{path.rpartition('/')[2]}:{line}"
    return where.rpartition("/")[2] if where.startswith("/") and " " not in where else where


def one_sided(rows: Sequence[Difference]) -> list[tuple[str, str]]:
    """What only one side shows, by topic: `versions`, `only A: torch, numpy and 12 more`."""
    found: dict[tuple[Topic, str], list[str]] = {}
    for row in rows:
        letter = "A" if row.b.state == "unknown" else "B"
        found.setdefault((row.topic, letter), []).append(row.name)
    lines = []
    for (topic, letter), names in found.items():
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        lines.append((HEADINGS[topic].lower(), f"only {letter}: {', '.join(names[:_MAX_NAMES])}{more}"))
    return lines


def _one_sided(canvas: Canvas, rows: Sequence[Difference]) -> None:
    if not rows:
        return
    canvas.heading("KNOWN ON ONE SIDE ONLY", "whether it differs is not known")
    for topic, text in one_sided(rows):
        canvas.labelled(topic, text, column=17, role="dim", max_lines=3)


def _fixes(canvas: Canvas, explanations: Sequence[Explanation]) -> None:
    fixes = [fix for one in explanations[:1] for fix in one.fix[:MAX_FIXES]]
    if not fixes:
        return
    canvas.heading("FIX", "one of these" if len(fixes) > 1 else "")
    for fix in fixes:
        canvas.prose(fix.title, hanging=4)
        write_change(canvas, fix)
