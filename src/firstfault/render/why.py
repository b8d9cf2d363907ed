"""Why a rank is, or is not, the one, as terminal text."""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.model.diagnosis import Evidence
from firstfault.model.why import RankAnswer, RankRole, Statement
from firstfault.render import words
from firstfault.render.layout import Canvas, column_for
from firstfault.render.style import Look, Role

MIN_WIDTH = 40
_MAX_TEXT_LINES = 3
_WORDS: dict[RankRole, tuple[str, Role]] = {
    "initiating": ("FIRST", "fault"),
    "symmetric": ("ALIKE", "fault"),
    "suspect": ("SUSPECT", "warn"),
    "independent": ("ALSO FAILED", "warn"),
    "collateral": ("NOT FIRST", "good"),
    "unmarked": ("NOTHING SEEN", "good"),
    "absent": ("NO RECORD", "warn"),
}


def render_rank(
    answer: RankAnswer,
    *,
    width: int = 80,
    color: bool = False,
    ascii: bool = False,
    links: bool = False,
    inputs: str = "INPUT...",
) -> str:
    """The answer, no line beyond `width`; `inputs` is what the user typed, for the command at the end."""
    canvas = Canvas(Look(width=max(MIN_WIDTH, width), color=color, ascii=ascii, links=links))
    _Page(answer, canvas, inputs).draw()
    return canvas.text()


class _Page:
    """The sections of one answer."""

    def __init__(self, answer: RankAnswer, canvas: Canvas, inputs: str) -> None:
        self.answer = answer
        self.canvas = canvas
        self.inputs = inputs
        self.places = words.Places(answer.evidence)
        self.shown: set[str] = set()
        self.column = column_for([self.places.of(item) for item in answer.evidence], canvas.width)

    def draw(self) -> None:
        answer, canvas = self.answer, self.canvas
        word, role = _WORDS[answer.role]
        host = f" ({answer.host})" if answer.host else ""
        attempt = f", attempt {answer.attempt}" if answer.attempt else ""
        canvas.put((f"{word}  ", role), (canvas.look.line(f"rank {answer.rank}{host}{attempt}"), "head"))
        if answer.certainty:
            canvas.prose(f"who was first: {answer.certainty}", indent=len(word) + 2, role="dim")
        canvas.blank()
        canvas.prose(answer.says)
        self._section("WHAT SHOWS IT", answer.shown)
        self._section("WHAT IT REPORTS", answer.events)
        self._section("WHAT IT WAITED FOR", answer.waited_for)
        self._section("HOW IT ENDED", answer.ended)
        last = {key for line in answer.last_lines for key in line.evidence}
        if answer.progress and last.isdisjoint(answer.progress.evidence):
            self._section("LAST PROGRESS", (answer.progress,), quoted=True)
        self._section("LAST LINES", answer.last_lines, quoted=True)
        for note in answer.notes:
            canvas.prose(note, role="dim")
        if answer.next_step:
            canvas.blank()
            canvas.command(answer.next_step.replace("INPUTS", self.inputs), lead="more: ", indent=0)

    def _section(self, heading: str, statements: Sequence[Statement], *, quoted: bool = False) -> None:
        """A sentence and its lines below it; what is `quoted` is the line itself."""
        if not statements:
            return
        self.canvas.heading(heading)
        known = {item.id: item for item in self.answer.evidence}
        for statement in statements:
            lines = [known[key] for key in statement.evidence if key in known]
            if quoted and lines:
                self._line(lines[0], statement.text)
                continue
            time = words.moment(statement.time) if statement.time else ""
            self.canvas.prose(f"{self.canvas.look.glyphs.dot} {statement.text}{f', at {time}' if time else ''}", hanging=4)
            for item in lines:
                if item.id not in self.shown:
                    self._line(item, item.text)

    def _line(self, item: Evidence, text: str) -> None:
        self.shown.add(item.id)
        link = self.canvas.look.target(item.source, item.line)
        self.canvas.labelled(self.places.of(item), text, column=self.column, link=link, role="dim", max_lines=_MAX_TEXT_LINES)
