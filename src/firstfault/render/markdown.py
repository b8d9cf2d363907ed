"""A diagnosis as Markdown, for an issue or a chat: log text stands in fences that it cannot leave."""

from __future__ import annotations

from collections.abc import Mapping

from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.diagnosis import Diagnosis, Fix
from firstfault.render import lanes, safe, timeline, words
from firstfault.render.layout import Canvas
from firstfault.render.patch import git_apply
from firstfault.render.prose import plain
from firstfault.render.style import Look

_TIMELINE_WIDTH = 80
_CODE_SPAN = lazy_pattern(r"((?<!`)`[^`]+`(?!`))")
_SPECIAL = lazy_pattern(r"[\\`*\[\]<>|~#]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|^[-+=]|^\d+(?=[.)])")
_BACKTICKS = lazy_pattern(r"`+")


def to_markdown(
    diagnosis: Diagnosis, *, titles: Mapping[str, str] | None = None, inputs: str = "INPUT...", here: bool = True
) -> str:
    """The whole answer in CommonMark with tables. `here` is false where the evidence was sent to be read."""
    parts = [
        _verdict(diagnosis, here),
        _timeline(diagnosis),
        *_candidates(diagnosis, titles or {}),
        *_missing(diagnosis, inputs),
        *_why(diagnosis),
        *_evidence(diagnosis),
        *_against(diagnosis, titles or {}),
        *_others(diagnosis, titles or {}),
        *_collateral(diagnosis, titles or {}),
        *_fixes(diagnosis, inputs),
        *_verification(diagnosis),
        *_notes(diagnosis),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def escape(text: str, *, spans: bool = True) -> str:
    """One line of prose in which nothing but its own code spans is markup, and not even these without `spans`."""
    parts = _CODE_SPAN.split(safe.line(text)) if spans else [safe.line(text)]
    return "".join(part if index % 2 else _SPECIAL.sub(r"\\\g<0>", part) for index, part in enumerate(parts))


def fence(text: str, language: str = "text") -> str:
    """`text` in a fence that is longer than any run of backticks in it."""
    text = safe.block(text).rstrip("\n")
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    marks = "`" * max(3, longest + 1)
    return f"{marks}{language}\n{text}\n{marks}"


def code(text: str) -> str:
    """A code span for one line of any text."""
    text = safe.line(text)
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    if not longest:
        return f"`{text}`"
    marks = "`" * (longest + 1)
    return f"{marks} {text} {marks}"


def _verdict(diagnosis: Diagnosis, here: bool) -> str:
    lines = [f"## {words.verdict_word(diagnosis)}: {escape(words.title(diagnosis))}", ""]
    statements = []
    if diagnosis.entry and diagnosis.verdict != "no_failure":
        statements.append(f"{code(diagnosis.entry)}, cause: **{diagnosis.verdict}**")
    if said := words.verdict_of_rank(diagnosis):
        statements.append(", ".join(escape(text) for text in said))
    lines += [f"- {statement}" for statement in statements]
    lines.append(f"- {' · '.join(words.what_was_read(diagnosis, here=here))}")
    return "\n".join(lines)


def _timeline(diagnosis: Diagnosis) -> str:
    canvas = Canvas(Look(width=_TIMELINE_WIDTH))
    lanes.draw(canvas, timeline.build(diagnosis))
    return fence(canvas.text()) if canvas.lines else ""


def _candidates(diagnosis: Diagnosis, titles: Mapping[str, str]) -> list[str]:
    if diagnosis.verdict != "undetermined" or not words.possible(diagnosis):
        return []
    lines = []
    for item in words.possible(diagnosis):
        title = f": {escape(titles[item.entry])}" if item.entry in titles else ""
        lines.append(f"- {code(item.entry)}{title}")
        lines += [f"  - for: {escape(text)}" for text in item.for_]
        lines += [f"  - against: {escape(text)}" for text in item.against]
    return [words.undecided_between(diagnosis), "\n".join(lines)]


def _missing(diagnosis: Diagnosis, inputs: str) -> list[str]:
    if not diagnosis.missing:
        return []
    asked = diagnosis.missing[0]
    parts = [f"### Missing fact: {escape(words.question(asked))}", escape(words.decides(asked))]
    if asked.command:
        parts += [f"Get it{f' (costs: {escape(asked.cost)})' if asked.cost else ''}:", fence(words.steps(asked.command))]
    note = words.answer_note(asked)
    parts += [f"Then{f' ({escape(note)})' if note else ''}:", fence("\n".join(words.answering(asked, inputs)), "sh")]
    if later := words.later_questions(diagnosis.missing):
        parts.append(f"After that: {escape(later)}")
    return parts


def _why(diagnosis: Diagnosis) -> list[str]:
    texts = [escape(text) for text in (diagnosis.cause, plain(diagnosis.mechanism)) if text]
    places = words.Places(diagnosis.evidence)
    reasons = []
    for reason in sorted(diagnosis.reasons, key=lambda item: -item.weight):
        cited = ", ".join(code(place) for place in places.named(reason.evidence))
        decisive = "**decisive:** " if reason.weight >= words.DECISIVE else ""
        reasons.append(f"- {decisive}{escape(reason.text.rstrip('.'))}{f' ({cited})' if cited else ''}")
    if not (texts or reasons):
        return []
    heading = "### What is known" if diagnosis.verdict == "undetermined" else "### Why"
    return [heading, *texts, "\n".join(reasons)]


def _evidence(diagnosis: Diagnosis) -> list[str]:
    shown = words.in_reading_order(diagnosis)
    if not shown:
        return []
    return [
        "### Evidence",
        fence("\n".join(f"{safe.line(f'{item.source}:{item.part or item.line}')}: {safe.line(item.text)}" for item in shown)),
    ]


def _against(diagnosis: Diagnosis, titles: Mapping[str, str]) -> list[str]:
    counter = words.against_the_answer(diagnosis)
    lines = [f"- this answer: {escape(text)}" for text in counter]
    if diagnosis.verdict == "established" and not counter:
        lines.append("- this answer: nothing found")
    rows = [("ruled out", item.entry, item.against) for item in words.ruled_out(diagnosis)]
    if diagnosis.verdict != "undetermined":
        rows += [("possible", item.entry, item.for_) for item in words.possible(diagnosis)]
    for label, entry, texts in rows:
        lines.append(f"- {label}: {escape(words.named(entry, titles))}{': ' if texts else ''}{escape(' '.join(texts))}")
    return ["### Against", "\n".join(line.rstrip() for line in lines)] if lines else []


def _others(diagnosis: Diagnosis, titles: Mapping[str, str]) -> list[str]:
    if not diagnosis.others:
        return []
    places = words.Places(diagnosis.evidence)
    lines = []
    for other in diagnosis.others:
        first = f", {escape(words.who_was_first(other.initiating))}" if other.initiating else ""
        cited = ", ".join(code(place) for place in places.named(other.evidence))
        lines.append(f"- {escape(words.named(other.entry, titles))}: {other.verdict}{first}{f' ({cited})' if cited else ''}")
    return ["### Also found, independent of the first failure", "\n".join(lines)]


def _collateral(diagnosis: Diagnosis, titles: Mapping[str, str]) -> list[str]:
    groups = words.collateral_groups(diagnosis.collateral, titles)
    if not groups:
        return []
    places = words.Places(diagnosis.evidence)
    rows = ["| where | what | follows from | first line |", "|---|---|---|---|"]
    for group in groups:
        line = places.named(group.evidence)[:1]
        cells = [
            words.ranks_text(group.ranks) if group.ranks else "the job",
            group.what,
            group.explained_by,
            line[0] if line else "",
        ]
        # A bar ends a cell of a table even inside a code span.
        rows.append(f"| {' | '.join(escape(cell, spans=False) for cell in cells)} |")
    return ["### Collateral: consequences, ignore these", "\n".join(rows)]


def _fixes(diagnosis: Diagnosis, inputs: str) -> list[str]:
    parts: list[str] = []
    for fix in diagnosis.fix:
        parts += [f"### {words.fix_word(diagnosis)}: {escape(words.fix_heading(fix))}".rstrip(": "), *_fix(fix)]
    if any(fix.applies for fix in diagnosis.fix):
        parts += ["Apply:", fence(f"firstfault diagnose {inputs} --patch | {git_apply(diagnosis)}", "sh")]
    return parts


def _fix(fix: Fix) -> list[str]:
    parts = []
    if fix.kind == "edit" and not fix.applies:
        parts.append("The pattern; adapt the names to your file:")
    parts.append(fence(fix.text, "diff" if fix.kind == "edit" else "sh"))
    if fix.risk:
        parts.append(f"Risk: {escape(fix.risk)}")
    return parts


def _verification(diagnosis: Diagnosis) -> list[str]:
    parts = ["### Verify"] if diagnosis.verify else []
    for check in diagnosis.verify:
        told = fence(check.command, "sh") if words.is_command(check.command) else f"{words.RUN_AGAIN.capitalize()}."
        parts += [told, f"Must show: {escape(check.expect)}"]
    return parts


def _notes(diagnosis: Diagnosis) -> list[str]:
    if not diagnosis.notes:
        return []
    return ["### Notes", "\n".join(f"- {escape(text)}" for text in diagnosis.notes)]
