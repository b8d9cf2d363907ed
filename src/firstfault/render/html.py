"""A diagnosis as one HTML file: nothing is loaded, nothing is run, everything from logs is escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple

from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.diagnosis import Alternative, Diagnosis, Evidence, Fix, Missing
from firstfault.render import safe, svg, timeline, words
from firstfault.render.html_page import line as _line
from firstfault.render.html_page import page
from firstfault.render.html_page import section as _section
from firstfault.render.patch import git_apply
from firstfault.render.prose import plain

_SHORT_PLACE = 34
_CODE_SPAN = lazy_pattern(r"`([^`]+)`")


def to_html(
    diagnosis: Diagnosis, *, titles: Mapping[str, str] | None = None, inputs: str = "INPUT...", here: bool = True
) -> str:
    """The whole answer as a self-contained page, in light and dark, for screens, screen readers and paper.

    `here` is false where the evidence was sent: the page then does not say that nothing left the machine.
    """
    body = Sections(diagnosis, titles or {}, inputs)
    title = f"{words.verdict_word(diagnosis)}: {words.title(diagnosis)}"
    return page(title, words.what_was_read(diagnosis, here=here), body.in_order(), body.footer(here=here))


class FixPart(NamedTuple):
    """One fix: its heading and its body, both HTML."""

    heading: str
    body: str


class Sections:
    """The sections of one answer, each as HTML and empty where there is nothing to say.

    `link` gives the address of an entry's page, `around` what is shown of the surroundings of a line of evidence (HTML).
    """

    def __init__(
        self,
        diagnosis: Diagnosis,
        titles: Mapping[str, str],
        inputs: str = "INPUT...",
        *,
        link: Callable[[str], str] = lambda entry: "",
        around: Callable[[Evidence], str] = lambda item: "",
    ) -> None:
        self.diagnosis = diagnosis
        self.titles = titles
        self.inputs = inputs
        self.places = words.Places(diagnosis.evidence)
        self._link = link
        self._around = around

    def in_order(self) -> list[str]:
        """All sections of a report, as they are read."""
        undetermined = self.diagnosis.verdict == "undetermined"
        parts = [self.verdict(), self.timeline()]
        if undetermined:
            parts += [self.candidates(), self.missing()]
        parts += [self.why(), self.fixes(), self.verification(), self.lines(), self.against(), self.others(), self.collateral()]
        if not undetermined:
            parts.append(self.missing())
        return [part for part in [*parts, self.notes()] if part]

    def verdict(self) -> str:
        """The verdict with who was first and how sure each is; the page's first heading."""
        diagnosis = self.diagnosis
        rows = []
        if diagnosis.initiating and (said := words.verdict_of_rank(diagnosis)):
            certainty = _sure(diagnosis.initiating.certainty) if len(said) > 1 else ""
            rows.append(("rank", prose(said[0]) + certainty))
        if diagnosis.entry and diagnosis.verdict != "no_failure":
            rows.append(("cause", f"{self._id(diagnosis.entry)}{_sure(diagnosis.verdict)}"))
        listed = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in rows)
        return (
            f'<section class="verdict {diagnosis.verdict}" aria-labelledby="verdict">'
            f'<p class="word">{words.verdict_word(diagnosis)}</p>'
            f'<h1 id="verdict">{prose(words.title(diagnosis))}</h1>'
            f"{f'<dl>{listed}</dl>' if listed else ''}</section>"
        )

    def timeline(self) -> str:
        """The drawing, and the same as a table."""
        lanes = timeline.build(self.diagnosis)
        if not lanes.tells:
            return ""
        rows = "".join(
            f"<tr><th scope='row'>{_line(lane.label)}</th><td>{_line(lane.host)}</td><td>{_line(mark.time)}</td>"
            f"<td>{lanes.says(mark.kind)}</td><td class='log'>{_line(mark.text)}</td></tr>"
            for lane in lanes.lanes
            for mark in lane.marks
        )
        drawing = svg.draw(lanes, {item.id for item in words.in_reading_order(self.diagnosis)})
        hidden = f"<p>and {lanes.hidden:,} more ranks</p>" if lanes.hidden else ""
        head = "".join(f"<th scope='col'>{name}</th>" for name in ("rank", "host", "time", "what", "text"))
        return _section(
            "timeline",
            "Timeline",
            f'<div class="scroll drawn" tabindex="0" role="region" aria-label="Timeline, drawn">{drawing}</div>{hidden}'
            "<details class='lanes'><summary>the same as a table</summary><div class='scroll'><table>"
            f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></details>",
        )

    def candidates(self) -> str:
        """The causes that are still possible where the answer is undetermined."""
        possible = words.possible(self.diagnosis)
        if not possible:
            return ""
        return _section(
            "candidates", words.undecided_between(self.diagnosis).rstrip(":"), "".join(map(self._candidate, possible))
        )

    def missing(self) -> str:
        """The fact that would decide, and the commands that take its answer."""
        if not self.diagnosis.missing:
            return ""
        asked = self.diagnosis.missing[0]
        parts = [self.question(asked)]
        note = words.answer_note(asked)
        then = "\n".join(words.answering(asked, self.inputs))
        parts.append(f"<p>Then{f' ({_line(note)})' if note else ''}:</p>{_command(then)}")
        if later := words.later_questions(self.diagnosis.missing):
            parts.append(f'<p class="quiet">After that: {prose(later)}</p>')
        return _section("missing", "Missing fact", f'<div class="card ask">{"".join(parts)}</div>')

    def question(self, asked: Missing) -> str:
        """The question, what its answer decides, and the command that obtains it."""
        parts = [f'<p class="lead">{prose(words.question(asked))}</p><p>{prose(words.decides(asked))}</p>']
        if asked.command:
            cost = f" (costs: {_line(asked.cost)})" if asked.cost else ""
            parts.append(f"<p>Get it{cost}:</p>{_command(words.steps(asked.command))}")
        return "".join(parts)

    def why(self) -> str:
        """The cause, its mechanism and the reasons, each with its lines."""
        diagnosis = self.diagnosis
        parts = [f'<p class="lead">{prose(diagnosis.cause)}</p>'] if diagnosis.cause else []
        if diagnosis.mechanism:
            parts.append(f"<p>{prose(plain(diagnosis.mechanism))}</p>")
        reasons = [
            f"<li>{'<strong>decisive:</strong> ' if reason.weight >= words.DECISIVE else ''}"
            f"{prose(reason.text.rstrip('.'))}{self._cited(reason.evidence)}</li>"
            for reason in sorted(diagnosis.reasons, key=lambda item: -item.weight)
        ]
        if reasons:
            parts.append(f"<ul>{''.join(reasons)}</ul>")
        title = "What is known" if diagnosis.verdict == "undetermined" else "Why"
        return _section("why", title, "".join(parts)) if parts else ""

    def fixes(self) -> str:
        """All fixes, and the command that applies those that are patches."""
        fixes = self.diagnosis.fix
        if not fixes:
            return ""
        parts = []
        last = max((number for number, fix in enumerate(fixes, 1) if fix.applies), default=0)
        for number, (heading, body) in enumerate(self.fix_parts(), 1):
            lead = f"{number}. " if len(fixes) > 1 else ""
            parts.append(f"<h3>{lead}{heading}</h3>" if heading or lead else "")
            parts.append(body)
            if number == last:
                command = f"firstfault diagnose {self.inputs} --patch | {git_apply(self.diagnosis)}"
                parts.append(f"<p>Apply:</p>{_command(command)}")
        return _section("fix", words.fix_word(self.diagnosis), f'<div class="card">{"".join(parts)}</div>')

    def fix_parts(self) -> list[FixPart]:
        """Each fix on its own."""
        return [FixPart(prose(words.fix_heading(fix)), _fix(fix)) for fix in self.diagnosis.fix]

    def verification(self) -> str:
        """The commands that show whether the fix holds."""
        parts = [
            f"{_command(check.command) if words.is_command(check.command) else f'<p>{words.RUN_AGAIN.capitalize()}.</p>'}"
            f"<p>Must show: {prose(check.expect)}</p>"
            for check in self.diagnosis.verify
        ]
        return _section("verify", "Verify", "".join(parts)) if parts else ""

    def lines(self) -> str:
        """The evidence: every line that a statement stands on, as it was found."""
        shown = words.in_reading_order(self.diagnosis)
        if not shown:
            return ""
        weights = words.weights(self.diagnosis)
        first = set(self.diagnosis.initiating.evidence) if self.diagnosis.initiating else set()
        rows = []
        for item in shown:
            weight = words.weight_word(weights[item.id]) if item.id in weights else ""
            rows.append(
                f'<tr id="{_line(item.id)}"{" class=first" if item.id in first else ""}>'
                f'<th scope="row">{_place(self.places.of(item))}</th>'
                f'<td class="log">{escape(safe.block(item.text).strip())}{self._around(item)}</td>'
                f'<td class="weight{" decisive" if weight == "decisive" else ""}">{weight}</td></tr>'
            )
        head = '<tr><th scope="col">place</th><th scope="col">text</th><th scope="col" class="weight">weighs</th></tr>'
        folder = f'<p class="quiet">in <code>{_line(self.places.folder)}</code></p>' if self.places.folder else ""
        return _section(
            "evidence",
            "Evidence",
            f'{folder}<table class="evidence"><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table>',
        )

    def against(self) -> str:
        """What speaks against the answer, and the causes that were ruled out."""
        diagnosis = self.diagnosis
        counter = words.against_the_answer(diagnosis)
        rows = [("this answer", prose(text)) for text in counter]
        if diagnosis.verdict == "established" and not counter:
            rows.append(("this answer", "nothing found"))
        rows += [("ruled out", self._entry(item.entry, item.against)) for item in words.ruled_out(diagnosis)]
        if diagnosis.verdict != "undetermined":
            rows += [("possible", self._entry(item.entry, item.for_)) for item in words.possible(diagnosis)]
        listed = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in rows)
        return _section("against", "Against", f"<dl>{listed}</dl>") if rows else ""

    def others(self) -> str:
        """Independent further findings."""
        items = []
        for other in self.diagnosis.others:
            first = f", {prose(words.who_was_first(other.initiating))}" if other.initiating else ""
            items.append(f"<li>{self._entry(other.entry)}{first}{_sure(other.verdict)}{self._cited(other.evidence)}</li>")
        return _section("others", "Also found, independent of this", f"<ul>{''.join(items)}</ul>") if items else ""

    def collateral(self) -> str:
        """What only followed."""
        groups = words.collateral_groups(self.diagnosis.collateral, self.titles)
        mostly = words.explained_mostly(groups)
        rows = []
        for group in groups:
            places = self.places.named(group.evidence)
            rows.append(
                f'<tr><th scope="row">{words.ranks_text(group.ranks) if group.ranks else "the job"}</th>'
                f"<td>{prose(group.what)}</td><td>{prose(words.follows_from(group, mostly))}</td>"
                f"<td>{_place(places[0]) if places else ''}</td></tr>"
            )
        body = f'<div class="scroll"><table class="quiet"><tbody>{"".join(rows)}</tbody></table></div>'
        return _section("collateral", f"Collateral: follows from {safe.line(mostly)}, ignore these", body) if groups else ""

    def notes(self) -> str:
        """What was not read and why."""
        items = "".join(f"<li>{prose(text)}</li>" for text in self.diagnosis.notes)
        return _section("notes", "Notes: what was not read", f'<ul class="quiet">{items}</ul>') if items else ""

    def footer(self, *, here: bool = True) -> str:
        """Where it was made, and where to read more."""
        entry = self.diagnosis.entry
        made = "Made by firstfault where the files were read." if here else "Made by a firstfault console."
        if not entry or self.diagnosis.verdict == "no_failure":
            return f"<p>{made}</p>"
        return f"<p>{made} More: <code>firstfault explain {_line(entry)}</code></p>"

    def _entry(self, entry: str, texts: Sequence[str] = ()) -> str:
        title = f"{_line(self.titles[entry])} " if entry in self.titles else ""
        said = f": {prose(' '.join(texts))}" if texts else ""
        return f"{title}{self._id(entry)}{said}"

    def _id(self, entry: str) -> str:
        address = self._link(entry)
        named = f"<code>{_line(entry)}</code>"
        return f'<a href="{escape(address)}">{named}</a>' if address else named

    def _candidate(self, item: Alternative) -> str:
        said = [f"<li>for: {prose(text)}</li>" for text in item.for_]
        said += [f"<li>against: {prose(text)}</li>" for text in item.against]
        return f"<h3>{self._entry(item.entry)}</h3>{f'<ul>{chr(10).join(said)}</ul>' if said else ''}"

    def _cited(self, keys: Iterable[str]) -> str:
        shown = {item.id for item in words.in_reading_order(self.diagnosis)}
        links = []
        for key in dict.fromkeys(keys):
            if key in self.places.evidence:
                place = _line(self.places.of(self.places.evidence[key]))
                links.append(f'<a href="#{_line(key)}">{place}</a>' if key in shown else place)
        return f' <span class="place">({", ".join(links)})</span>' if links else ""


def _sure(word: str) -> str:
    return f' <span class="sure {escape(word)}">{escape(word)}</span>'


def _command(text: str) -> str:
    return f'<pre class="command"><code>{escape(safe.block(text))}</code></pre>'


def _fix(fix: Fix) -> str:
    pattern = (
        '<p class="quiet">The pattern; adapt the names to your file:</p>' if fix.kind == "edit" and not fix.applies else ""
    )
    risk = f'<p class="quiet">Risk: {prose(fix.risk)}</p>' if fix.risk else ""
    return f"{pattern}{_change(fix)}{risk}"


def _change(fix: Fix) -> str:
    if fix.kind != "edit":
        return _command(fix.text)
    spans = []
    for text in safe.block(fix.text.rstrip("\n")).split("\n"):
        quiet = text.startswith(("@@", "--- ", "+++ "))
        role = "at" if quiet else {"+": "plus", "-": "minus"}.get(text[:1], "same")
        spans.append(f'<span class="{role}">{escape(text) or " "}</span>')
    return f'<pre class="diff" tabindex="0"><code>{"".join(spans)}</code></pre>'


def prose(text: str) -> str:
    """A sentence on one line, escaped, its code spans as code."""
    return _CODE_SPAN.sub(r"<code>\1</code>", _line(text))


def _place(text: str) -> str:
    short = " short" if len(text) <= _SHORT_PLACE else ""
    return f'<span class="place{short}">{_line(text).replace("/", "/<wbr>")}</span>'
