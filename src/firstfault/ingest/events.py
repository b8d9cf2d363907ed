"""What the hits of the scan mean once their lines and tracebacks are known: events, and the facts that signals give."""

from __future__ import annotations

from collections.abc import Iterable

from firstfault.ingest.exceptions import Blocks, exceptions_of, last_word, without_copies
from firstfault.ingest.lines import Line
from firstfault.ingest.prefix import join_places, parse_prefix
from firstfault.ingest.reading import MAX_TEXT_CHARS, Reading
from firstfault.ingest.stretch import line_at
from firstfault.knowledge.schema import CausalTable
from firstfault.model.event import Event, Traceback
from firstfault.model.fact import Fact, FactValue
from firstfault.model.span import SourceSpan
from firstfault.scan.result import Hit

MAX_FACTS = 2_000
FATAL_ROLES = frozenset({"initiating", "either", "collateral"})


def events_of(hits: Iterable[Hit], reading: Reading, causal: CausalTable) -> tuple[tuple[Event, ...], tuple[Fact, ...]]:
    """The events of a source by offset, hits and exceptions alike, and the facts that the hits give."""
    offsets = [line.offset for line in reading.lines]
    blocks = Blocks(reading.tracebacks)
    events: list[Event] = []
    facts: list[Fact] = []
    for hit in hits:
        line = line_at(reading.lines, offsets, hit.offset, hit.line)
        if (line.offset if line else hit.offset) in reading.echoes:
            continue
        event = _event_of(hit, line, reading, blocks)
        events.append(event)
        if reading.told or not event.quoted:
            facts.extend(_facts_of(hit, event, told=reading.told or event.alone))
    events.extend(exceptions_of(events, reading, causal))
    events.extend(last_word(events, reading))
    events.sort(key=lambda event: event.span.offset)
    return tuple(without_copies(events, reading.tracebacks)), tuple(_distinct(facts))


def _event_of(hit: Hit, line: Line | None, reading: Reading, blocks: Blocks) -> Event:
    place = line.place if line else join_places(reading.ctx.place, parse_prefix(hit.text, label=reading.label).place)
    inside = blocks.at(hit.offset, place)
    if inside is not None:
        # Lines of a message lack the prefix that the traceback's other lines have.
        place = join_places(reading.tracebacks[inside].place, place)
    signal = hit.signal
    return Event(
        name=signal.event,
        signal=signal.id,
        role=signal.role,
        fault_class=signal.fault_class,
        span=SourceSpan(reading.ctx.source.path, hit.line, hit.offset),
        text=hit.text[:MAX_TEXT_CHARS],
        place=place,
        captures=hit.captures,
        source_id=reading.ctx.source_id,
        traceback=inside if signal.role in FATAL_ROLES else None,
        quoted=reading.told or (inside is not None and reading.tracebacks[inside].ignored),
        alone=hit.offset in reading.alone and not (inside is not None and _ends(reading.tracebacks[inside], hit)),
    )


def _ends(traceback: Traceback, hit: Hit) -> bool:
    """True if the line of `hit` is the exception below frames."""
    return any(block.frames and block.span.line == hit.line for block in traceback.blocks)


def _facts_of(hit: Hit, event: Event, *, told: bool) -> list[Fact]:
    facts = []
    for name, given in hit.signal.facts.items():
        value, rounded = _value_of(given, hit)
        if value is not None:
            facts.append(
                Fact(
                    name=name,
                    value=value,
                    origin=f"signal {hit.signal.id}",
                    spans=(event.span,),
                    basis="told" if told else "read",
                    rounded=rounded,
                )
            )
    return facts


def _value_of(given: FactValue, hit: Hit) -> tuple[FactValue | None, bool]:
    """The constant, or the capture that `{name}` stands for, and whether that was printed rounded."""
    if isinstance(given, str) and given.startswith("{") and given.endswith("}"):
        name = given[1:-1]
        return hit.captures.get(name), hit.signal.holes.get(name) == "size"
    return given, False


def _distinct(facts: Iterable[Fact]) -> list[Fact]:
    """The first fact of each name and value."""
    first: dict[tuple[str, str], Fact] = {}
    for fact in facts:
        if len(first) < MAX_FACTS:
            first.setdefault((fact.name, repr(fact.value)), fact)
    return list(first.values())
