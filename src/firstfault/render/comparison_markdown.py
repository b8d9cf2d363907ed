"""A comparison as Markdown, for an issue or a chat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from firstfault.model.comparison import Comparison, Difference, SideValue, Subject
from firstfault.render.comparison import HEADINGS, counts, ending_of, next_command, one_sided, short_place, shown, verdict_word
from firstfault.render.markdown import code, escape, fence


def comparison_markdown(made: Comparison) -> str:
    """The whole comparison in CommonMark with tables."""
    parts = [
        f"**{verdict_word(made)[0]}**: {escape(made.summary)}",
        "\n".join(_subject(letter, subject) for letter, subject in (("A", made.a), ("B", made.b))),
        *_explanations(made),
        *(f"On both sides: {escape(text)}" for text in made.alike),
        *_missing(made),
        *_tables(made.differences),
        *_one_sided(made.unknown),
        *_fixes(made),
        "\n".join(f"- {escape(note)}" for note in made.notes),
        escape(counts(made)),
        fence(next_command(made), "sh") if next_command(made) else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _subject(letter: str, subject: Subject) -> str:
    title = f": {escape(subject.title)}" if subject.title and subject.ending not in ("ends_well", "not_seen") else ""
    return f"- {letter}: {code(subject.name)}, {ending_of(subject)}{title}"


def _explanations(made: Comparison) -> Iterator[str]:
    for one in made.explanations:
        said = f"{escape(one.text)} " if one.text != made.summary else ""
        yield f"{said}That this is the reason: {one.verdict}."


def _missing(made: Comparison) -> Iterator[str]:
    for fact in made.missing:
        yield f"**Missing:** {escape(fact.fact)}. {escape(fact.why)}"
        yield fence(fact.command, "sh")


def _tables(rows: Sequence[Difference]) -> Iterator[str]:
    for topic, heading in HEADINGS.items():
        own = [row for row in rows if row.topic == topic]
        if own:
            yield f"### {heading.capitalize()}"
            lines = [f"| {escape(row.name)} | {_cell(row.a)} | {_cell(row.b)}{_note(row.note)} |" for row in own]
            yield "\n".join(["| | A | B |", "|---|---|---|", *lines])


def _cell(side: SideValue) -> str:
    place = f" ({escape(short_place(side.where))})" if side.where else ""
    text = code(shown(side)).replace("|", "\\|") if side.state == "known" else shown(side)
    return f"{text}{place}"


def _note(note: str) -> str:
    return f", {escape(note)}" if note else ""


def _one_sided(rows: Sequence[Difference]) -> Iterator[str]:
    if rows:
        yield "### Known on one side only"
        yield "\n".join(f"- {escape(topic)}: {escape(text)}" for topic, text in one_sided(rows))


def _fixes(made: Comparison) -> Iterator[str]:
    for one in made.explanations[:1]:
        for fix in one.fix[:2]:
            yield f"**Fix:** {escape(fix.title)}"
            yield fence(fix.text, "diff" if fix.kind == "edit" else "sh")
