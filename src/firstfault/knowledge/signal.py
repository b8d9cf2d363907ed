"""Signals: texts that one emitter is known to print, read from `signals/<emitter>.toml`.

Accepted keys of a `[[signal]]` table (unknown keys are errors):

    id        required, dotted lower case                    role      required: initiating either collateral context progress
    text      required, literal with typed holes             then      further texts, searched in order behind the first, also
    event     name that conditions use, default `id`                   in the following lines; each may be absent
    class     class of the causal table (explains.toml)      literal   prefilter literal, default the longest run of `text`
    facts     table: fact -> "{capture}" or a constant       emitter, note   plain words;  status   stable (default) | preview
    sample    required: [{ line = '...', capture = value }]  benign    lines that look alike and must not match

Holes: `{x:kind}` with kind int float size duration rank path host word rest hex time or re(...); `{_:kind}` is matched and not
kept; `{{` and `}}` are braces. Sizes are captured in bytes, durations in seconds. Every sample must match and give the captures
it states; a sample of several lines holds them in one string.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast, get_args

from firstfault.knowledge.pattern import MIN_LITERAL_BYTES, Pattern, PatternError, compile_text
from firstfault.knowledge.problems import Problems
from firstfault.knowledge.schema import HoleKind, Signal, SignalSample
from firstfault.knowledge.signal_match import match_text
from firstfault.knowledge.toml_table import Document, Table
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.event import CaptureValue, Role

NAME = lazy_pattern(r"[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)*\Z")
_REFERENCE = lazy_pattern(r"\{([A-Za-z_][A-Za-z0-9_]*)\}\Z")


def load_signals(path: Path) -> tuple[Signal, ...]:
    """The signals of one file; KnowledgeError lists everything that is wrong with it."""
    problems = Problems()
    signals = read_signals(path.read_text(encoding="utf-8"), f"{path.parent.name}/{path.name}", problems)
    problems.raise_if_any()
    return signals


def read_signals(text: str, file: str, problems: Problems) -> tuple[Signal, ...]:
    """The signals that the TOML text defines; errors go to `problems`, and a faulty signal is left out."""
    document = Document(text, file, problems)
    root = document.root()
    root.items("signal", dict, "tables")
    root.finish()
    signals = [signal for table in document.tables("signal") if (signal := _read_signal(table))]
    return tuple(signals)


def _read_signal(table: Table) -> Signal | None:
    before = len(table.document.problems)
    ident = table.required_text("id")
    main, then = _compile(table, "text", table.required_text("text")), []
    for text in table.texts("then"):
        then.append(_compile(table, "then", text))
    holes: dict[str, HoleKind] = {}
    if not all(pattern.runs for pattern in (main, *then)):
        return None
    for pattern in (main, *then):
        for name in pattern.holes.keys() & holes.keys():
            table.note(f"hole `{name}` stands in two texts", "then")
        holes |= pattern.holes
    signal = Signal(
        id=ident,
        event=table.text("event", ident),
        role=cast(Role, table.choice("role", get_args(Role))),
        fault_class=table.text("class") or None,
        literal=_literal(table, main),
        pattern=main.regex,
        then=tuple(pattern.regex for pattern in then),
        holes=holes,
        facts=_facts(table, holes),
        emitter=table.text("emitter"),
        status=cast(Any, table.choice("status", ("stable", "preview"), "stable")),
        samples=_samples(table, holes),
        benign=table.texts("benign"),
        source=table.where(),
    )
    table.text("note")
    table.finish()
    for key, name in (("id", signal.id), ("event", signal.event)):
        if name and not NAME.match(name):
            table.note(f"`{key}` must be dotted lower case, not {name!r}", key)
    if len(table.document.problems) == before:
        _check_samples(table, signal)
    return signal if len(table.document.problems) == before else None


def _compile(table: Table, key: str, text: str) -> Pattern:
    try:
        return compile_text(text)
    except PatternError as error:
        if text:
            table.note(f"`{key}`: {error}", key)
        return Pattern("", {}, ())


def _literal(table: Table, pattern: Pattern) -> str:
    literal = table.text("literal") or pattern.literal
    key = "literal" if "literal" in table.values else "text"
    if pattern.runs and not any(literal in run for run in pattern.runs):
        table.note(f"the literal {literal!r} does not stand in every match of `text`", key)
    elif pattern.runs and len(literal.encode()) < MIN_LITERAL_BYTES:
        table.note(f"the longest literal {literal!r} has fewer than {MIN_LITERAL_BYTES} bytes: the prefilter needs more", key)
    return literal


def _facts(table: Table, holes: dict[str, HoleKind]) -> dict[str, CaptureValue]:
    facts: dict[str, CaptureValue] = {}
    for fact, value in _flat(table.mapping("facts"), ""):
        if not isinstance(value, bool | int | float | str):
            table.note(f"`facts`: {fact} must be a capture or a constant", "facts")
            continue
        reference = _REFERENCE.match(value) if isinstance(value, str) else None
        if reference and reference[1] not in holes:
            table.note(f"`facts`: {fact} names `{reference[1]}`, which is no hole", "facts")
        facts[fact] = value
    return facts


def _flat(values: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Dotted names and values: `oom.device = 1` may be written quoted or as a nested table."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _samples(table: Table, holes: dict[str, HoleKind]) -> tuple[SignalSample, ...]:
    samples: list[SignalSample] = []
    for item in table.items("sample", dict, "tables { line = '...' }"):
        captures = {name: value for name, value in item.items() if name != "line"}
        if not isinstance(item.get("line"), str):
            table.note("a sample lacks `line`", "sample")
            continue
        for name in sorted(captures.keys() - holes.keys()):
            table.note(f"a sample states `{name}`, which is no hole", "sample")
        samples.append(SignalSample(line=item["line"], captures=captures))
    if not samples:
        table.note("a signal needs at least one sample", "sample" if "sample" in table.values else "id")
    return tuple(samples)


def _check_samples(table: Table, signal: Signal) -> None:
    for sample in signal.samples:
        captures = _match_lines(signal, sample.line)
        if captures is None:
            table.note(f"does not match its sample {sample.line!r}", "sample")
            continue
        for name, value in sample.captures.items():
            if captures.get(name) != value:
                table.note(f"sample gives {name} = {captures.get(name)!r}, not {value!r}", "sample")
    for text in signal.benign:
        if _match_lines(signal, text) is not None:
            table.note(f"matches the benign line {text!r}", "benign")


def _match_lines(signal: Signal, text: str) -> dict[str, CaptureValue] | None:
    lines = text.split("\n")
    matches = (match_text(signal, line, "\n".join(lines[number + 1 :])) for number, line in enumerate(lines))
    return next((captures for captures in matches if captures is not None), None)
