"""A diagnosis as terminal text: the verdict first, the next command last, every claim with its line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.diagnosis import Diagnosis, Fix
from firstfault.render import lanes, timeline, words
from firstfault.render.layout import Canvas, Piece, cells, column_for, cut, fold
from firstfault.render.patch import git_apply
from firstfault.render.prose import plain
from firstfault.render.style import Look, Role

MIN_WIDTH = 40
_TWO_COLUMNS = 100
_MAX_TEXT_LINES = 3
_INSTALLED = lazy_pattern(r'"[^"\n]*/(?:site|dist)-packages/')
"""Where a library is installed says nothing; JSON keeps the whole path."""
_MAX_FIX_LINES = 40
_MAX_NOTES = 8
_MAX_GROUPS = 6


def render_diagnosis(
    diagnosis: Diagnosis,
    *,
    width: int = 80,
    color: bool = False,
    ascii: bool = False,
    links: bool = False,
    titles: Mapping[str, str] | None = None,
    inputs: str = "INPUT...",
    here: bool = True,
) -> str:
    """The whole answer, no line beyond `width`. `titles` names entries by id; `inputs` is what the user typed, for commands.

    `here` is false where the evidence was sent: the answer then does not say that nothing left the machine.
    """
    look = Look(width=max(MIN_WIDTH, width), color=color, ascii=ascii, links=links)
    report = _Report(diagnosis, Canvas(look), titles or {}, inputs, here=here)
    report.draw()
    return report.canvas.text()


class _Report:
    """The sections of one answer, in the order in which they are read."""

    def __init__(
        self, diagnosis: Diagnosis, canvas: Canvas, titles: Mapping[str, str], inputs: str, *, here: bool = True
    ) -> None:
        self.diagnosis = diagnosis
        self.canvas = canvas
        self.look = canvas.look
        self.titles = titles
        self.inputs = inputs
        self.here = here
        self.places = words.Places(diagnosis.evidence)
        self.shown = words.in_reading_order(diagnosis)
        groups = words.collateral_groups(diagnosis.collateral, self.titles)
        self.column = column_for(
            [*map(self.places.of, self.shown), *(words.ranks_text(group.ranks) for group in groups)], canvas.width
        )

    def draw(self) -> None:
        self.read()
        self.verdict()
        lanes.draw(self.canvas, timeline.build(self.diagnosis))
        if self.diagnosis.verdict == "undetermined":
            self.candidates()
            self.missing()
        self.why()
        self.evidence_lines()
        self.against()
        self.others()
        self.collateral()
        self.fix_and_verify()
        if self.diagnosis.verdict != "undetermined":
            self.missing()
        self.notes()
        self.next_commands()

    def read(self) -> None:
        self._dotted(words.what_was_read(self.diagnosis, here=self.here), "dim")

    def verdict(self) -> None:
        diagnosis, canvas = self.diagnosis, self.canvas
        word = words.verdict_word(diagnosis)
        role: Role = {"FAILED": "fault", "UNDETERMINED": "warn"}.get(word, "good")  # type: ignore[assignment]
        indent = len(word) + 2
        canvas.blank()
        lines = fold(self.look.line(words.title(diagnosis)), canvas.width - indent)
        for number, text in enumerate(lines):
            canvas.put((" " * indent if number else f"{word}  ", "" if number else role), (text, "head"))
        if diagnosis.entry and diagnosis.verdict != "no_failure":
            self._dotted([diagnosis.entry, f"cause: {diagnosis.verdict}"], indent=indent)
        if said := words.verdict_of_rank(diagnosis):
            self._dotted(said, indent=indent)

    def candidates(self) -> None:
        """The causes between which nothing decides, before anything else is said."""
        canvas = self.canvas
        sentence = words.undecided_between(self.diagnosis)
        if sentence:
            canvas.blank()
            canvas.prose(sentence, indent=0)
        for item in words.possible(self.diagnosis):
            canvas.blank()
            canvas.prose(self.titles.get(item.entry, item.entry), role="head", hanging=4)
            if item.entry in self.titles:
                canvas.prose(f"firstfault explain {item.entry}", indent=4, role="dim")
            for text in item.for_:
                canvas.prose(f"for: {text}", indent=4, hanging=9, role="dim")
            for text in item.against:
                canvas.prose(f"against: {text}", indent=4, hanging=13, role="dim")

    def why(self) -> None:
        diagnosis, canvas = self.diagnosis, self.canvas
        if not (diagnosis.cause or diagnosis.mechanism or diagnosis.reasons):
            return
        canvas.heading("WHAT IS KNOWN" if diagnosis.verdict == "undetermined" else "WHY")
        for text in (diagnosis.cause, plain(diagnosis.mechanism)):
            if text:
                canvas.prose(text)
                canvas.blank()
        for reason in sorted(diagnosis.reasons, key=lambda item: -item.weight):
            decisive = "decisive: " if reason.weight >= words.DECISIVE else ""
            canvas.prose(f"{self._dot} {decisive}{reason.text.rstrip('.')}{self._cited(reason.evidence)}", hanging=4)

    def evidence_lines(self) -> None:
        if not self.shown:
            return
        canvas = self.canvas
        wide = canvas.width >= _TWO_COLUMNS
        weights = words.weights(self.diagnosis)
        canvas.blank()
        folder = f"  in {cut(self.look.line(self.places.folder), canvas.width // 2)}" if self.places.folder else ""
        pieces: list[Piece] = [("EVIDENCE", "head"), (folder, "dim")]
        if wide and weights:
            pieces.append(("weighs".rjust(canvas.width - len("EVIDENCE") - cells(folder)), "dim"))
        canvas.put(*pieces)
        first = set(self.diagnosis.initiating.evidence) if self.diagnosis.initiating else set()
        for item in self.shown:
            canvas.labelled(
                self.places.of(item),
                _INSTALLED.sub('"…/', item.text),
                column=self.column,
                link=self.look.target(item.source, item.line),
                role="" if item.id in first or item.id in weights else "dim",
                right=words.weight_word(weights[item.id]) if wide and item.id in weights else "",
                max_lines=_MAX_TEXT_LINES,
            )

    def against(self) -> None:
        """What speaks against the answer, and which other causes were held against the evidence."""
        diagnosis, canvas = self.diagnosis, self.canvas
        counter = words.against_the_answer(diagnosis)
        ruled_out = words.ruled_out(diagnosis)
        possible = [] if diagnosis.verdict == "undetermined" else words.possible(diagnosis)
        nothing = diagnosis.verdict == "established" and not counter
        if not (counter or ruled_out or possible or nothing):
            return
        canvas.heading("AGAINST")
        if nothing:
            canvas.labelled("this answer", "nothing found", column=self.column)
        for text in counter:
            canvas.labelled("this answer", text, column=self.column)
        for item in ruled_out:
            name = self.titles.get(item.entry, item.entry)
            canvas.labelled("ruled out", f"{name}: {' '.join(item.against)}", column=self.column)
        for item in possible:
            canvas.labelled("possible", self._sentence(item.entry, item.for_), column=self.column)

    def others(self) -> None:
        if not self.diagnosis.others:
            return
        self.canvas.heading("ALSO FOUND", "independent of the first failure")
        for other in self.diagnosis.others:
            first = f", {words.who_was_first(other.initiating)}" if other.initiating else ""
            text = f"{words.named(other.entry, self.titles)}: {other.verdict}{first}"
            self.canvas.prose(f"{self._dot} {text}{self._cited(other.evidence)}", hanging=4)

    def collateral(self) -> None:
        groups = words.collateral_groups(self.diagnosis.collateral, self.titles)
        if not groups:
            return
        mostly = words.explained_mostly(groups)
        self.canvas.heading("COLLATERAL", f"follows from {mostly}: ignore these")
        rows: dict[tuple[tuple[int, ...], str], list[str]] = {}
        for group in groups:
            places = self.places.named(group.evidence)
            where = f" ({places[0]}{f' and {len(places) - 1} more' if len(places) > 1 else ''})" if places else ""
            rows.setdefault((group.ranks, words.follows_from(group, mostly)), []).append(f"{group.what}{where}")
        for (ranks, after), texts in list(rows.items())[:_MAX_GROUPS]:
            label = words.ranks_text(ranks) if ranks else "the job"
            if cells(label) > self.column - 4:
                label = f"{len(ranks):,} ranks"
            text = f"{after}: {'; '.join(texts)}" if after else "; ".join(texts)
            self.canvas.labelled(label, text, column=self.column, role="dim", max_lines=4)
        if len(rows) > _MAX_GROUPS:
            self.canvas.prose(f"and {len(rows) - _MAX_GROUPS} more: --format json lists them", role="dim")

    def fix_and_verify(self) -> None:
        canvas = self.canvas
        half = (canvas.width - 2) // 2
        if canvas.width >= _TWO_COLUMNS and self.diagnosis.fix and self.diagnosis.verify and self._fit(half - 4):
            left, right = self._part(half), self._part(half)
            left.fixes()
            right.verification()
            canvas.blank()
            canvas.beside(left.canvas, right.canvas)
            return
        self.fixes()
        self.verification()

    def _fit(self, width: int) -> bool:
        """True if nothing that is to be copied has to be broken: a selection cannot leave out the other column."""
        texts = [*(fix.text for fix in self.diagnosis.fix), *(check.command for check in self.diagnosis.verify)]
        return all(cells(line) <= width for text in texts for line in self.look.block(text))

    def fixes(self) -> None:
        fixes = self.diagnosis.fix
        last = max((number for number, fix in enumerate(fixes) if fix.applies), default=-1)
        for number, fix in enumerate(fixes):
            word = words.fix_word(self.diagnosis).upper()
            self.canvas.heading(f"{word} {number + 1}" if len(fixes) > 1 else word, words.fix_heading(fix))
            if fix.kind == "edit" and not fix.applies:
                self.canvas.prose("the pattern; adapt the names to your file:", role="dim")
            self._change(fix)
            if fix.risk:
                self.canvas.prose(f"risk: {fix.risk}", hanging=8)
            if number == last:
                self.canvas.command(f"firstfault diagnose {self.inputs} --patch | {git_apply(self.diagnosis)}", lead="apply: ")

    def verification(self) -> None:
        if not self.diagnosis.verify:
            return
        self.canvas.heading("VERIFY")
        for check in self.diagnosis.verify:
            if words.is_command(check.command):
                self.canvas.command(check.command)
            else:
                self.canvas.prose(words.RUN_AGAIN)
            self.canvas.prose(f"must show: {check.expect}", indent=4, hanging=15)

    def missing(self) -> None:
        if not self.diagnosis.missing:
            return
        canvas = self.canvas
        asked = self.diagnosis.missing[0]
        canvas.heading("MISSING FACT", words.question(asked))
        if said := words.decides(asked):
            canvas.prose(said)
        canvas.blank()
        then, *others = words.answering(asked, self.inputs)
        rows = [("get it", words.steps(asked.command)), ("costs", asked.cost), ("then", then), ("", words.answer_note(asked))]
        rows += [("or", text) for text in others]
        rows.append(("after that", words.later_questions(self.diagnosis.missing)))
        for label, text in rows:
            if text:
                canvas.labelled(label, text, column=14, role="dim" if label == "after that" else "")

    def notes(self) -> None:
        notes = self.diagnosis.notes
        if not notes:
            return
        self.canvas.heading("NOTES")
        for text in notes[:_MAX_NOTES]:
            self.canvas.prose(f"{self._dot} {text}", hanging=4, max_lines=_MAX_TEXT_LINES)
        if len(notes) > _MAX_NOTES:
            self.canvas.prose(f"{self._dot} {len(notes) - _MAX_NOTES} more: --format json lists them all", hanging=4)

    def next_commands(self) -> None:
        self.canvas.blank()
        parts = ["--format json|markdown|html"]
        if self.diagnosis.entry and self.diagnosis.verdict != "no_failure":
            parts.insert(0, f"firstfault explain {self.diagnosis.entry}")
        if self.diagnosis.verdict == "undetermined":
            why = ", a fact is missing" if self.diagnosis.missing else ""
            self.canvas.prose(f"exit status 3: undetermined{why}", indent=0, role="dim")
        self._dotted([f"more: {parts[0]}", *parts[1:]], hanging=6)

    def _sentence(self, entry: str, texts: Sequence[str]) -> str:
        name = words.named(entry, self.titles)
        return f"{name}: {' '.join(texts)}" if texts else name

    @property
    def _dot(self) -> str:
        return "-" if self.look.ascii else "·"

    def _cited(self, keys: Sequence[str]) -> str:
        places = self.places.cited(keys)
        return f" ({', '.join(places)})" if places else ""

    def _part(self, width: int) -> _Report:
        look = Look(width=width, color=self.look.color, ascii=self.look.ascii, links=self.look.links)
        return _Report(self.diagnosis, Canvas(look), self.titles, self.inputs)

    def _dotted(self, parts: Sequence[str], role: Role = "", *, indent: int = 0, hanging: int | None = None) -> None:
        """Statements joined by dots, broken between statements where that is possible."""
        limit = self.canvas.width - indent
        line = ""
        for part in parts:
            text = self.look.line(part)
            joined = f"{line} {self.look.glyphs.dot} {text}" if line else text
            if line and cells(joined) > limit:
                self.canvas.prose(line, indent=indent, role=role, full=True)
                indent = indent if hanging is None else hanging
                limit = self.canvas.width - indent
                joined = text
            line = joined
        self.canvas.prose(line, indent=indent, role=role, full=True)

    def _change(self, fix: Fix) -> None:
        lines = self.look.block(fix.text.rstrip("\n"))
        if fix.kind != "edit":
            for text in lines:
                self.canvas.command(text)
            return
        diff = any(text.startswith(("+", "-")) for text in lines)
        result: list[tuple[str, Role]] = []
        for text in lines:
            if fix.applies and text.startswith(("--- ", "+++ ", "diff ", "index ")):
                continue
            role: Role = "added" if text.startswith("+") else "dim" if diff and text.startswith(("@@", " ")) else ""
            result.append((text, role))
        if len(result) > _MAX_FIX_LINES:
            left_out = len(result) - _MAX_FIX_LINES
            result = [*result[:_MAX_FIX_LINES], (f"{left_out} more lines: --format markdown shows them", "dim")]
        self.canvas.code(result)
