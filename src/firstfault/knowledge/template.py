"""Fills the holes of a text with facts: `{fact}` by its unit, `{fact.span}` as `file:line`.

A sentence with a hole that nothing is known about is dropped: the rest stays true. Braces that hold no dotted lower-case name
are ordinary text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Protocol

from firstfault.knowledge.schema import FactSpec
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import FactValue
from firstfault.model.span import SourceSpan
from firstfault.units import format_duration, format_size

_HOLE = lazy_pattern(r"\{([a-z][a-z0-9_]*(?:\.[a-z0-9_]+)*)\}")
_SENTENCE_END = lazy_pattern(r"(?<=[.!?])\s+(?=[A-Z{\"'`(0-9])")
_ONE_OF_MANY = lazy_pattern(
    r"\{([a-z][a-z0-9_.]*)\} ((?:(?!of |for |in |on |is |was )[a-z]+ )?[A-Za-z-]{2,}s)\b"
    r"( were| are| have| do| start| take| ask)?\b"
)
_NO_PLURAL = frozenset({"this", "is", "has", "was", "its", "times", "process", "less", "across", "does"})
_SINGULAR = {
    " were": " was",
    " are": " is",
    " have": " has",
    " do": " does",
    " start": " starts",
    " take": " takes",
    " ask": " asks",
}
_SPAN = ".span"


class TemplateLookup(Protocol):
    """Where a text finds its values: facts, and the first line that shows each of them."""

    def value(self, name: str) -> FactValue | None:
        """The value, or None while it is unknown."""

    def span(self, name: str) -> SourceSpan | None:
        """The line that shows the fact, or None."""


def fill(template: str, lookup: TemplateLookup, specs: Mapping[str, FactSpec]) -> str:
    """The text with this run's facts; sentences with an unknown hole are dropped."""
    filled = (_fill_sentence(sentence, lookup, specs) for sentence in _sentences(template))
    return " ".join(sentence for sentence in filled if sentence is not None)


def fill_blanks(template: str, lookup: TemplateLookup, specs: Mapping[str, FactSpec], placeholders: Mapping[str, str]) -> str:
    """A command or a piece of code with this run's facts and names; an unknown one becomes `<your script>`.

    Only facts and the names in `placeholders` are blanks: other braces belong to the code.
    """

    def filled(found: re.Match[str]) -> str:
        name = found[1]
        if name not in placeholders and name.removesuffix(_SPAN) not in specs:
            return found[0]
        value = _value(name, lookup, specs)
        return f"<{placeholders.get(name, name)}>" if value is None else value

    return _HOLE.sub(filled, template)


def holes(template: str) -> tuple[str, ...]:
    """The names that the text asks for, `.span` included, in order and each once."""
    return tuple(dict.fromkeys(_HOLE.findall(template)))


def format_value(name: str, value: FactValue, spec: FactSpec | None = None) -> str:
    """A fact as a reader sees it: bytes and seconds with their unit, lists joined, truth as yes or no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(str(item) for item in value)
    if isinstance(value, str):
        return value
    kind, unit = (spec.type, spec.unit) if spec else ("", "")
    if kind == "bytes" or name.endswith("_bytes") or unit == "bytes":
        return format_size(value)
    if name.endswith("_s") or unit in ("s", "seconds"):
        return format_duration(value)
    return str(value) if isinstance(value, int) else f"{value:.4g}"


@lru_cache(maxsize=4096)
def _sentences(template: str) -> tuple[str, ...]:
    return tuple(_SENTENCE_END.split(template))


def _fill_sentence(text: str, lookup: TemplateLookup, specs: Mapping[str, FactSpec]) -> str | None:
    values: dict[str, str] = {}
    for name in holes(text):
        value = _value(name, lookup, specs)
        if value is None:
            return None
        values[name] = value
    if "1" in values.values():
        text = _ONE_OF_MANY.sub(lambda found: _one(found, values), text)
    return _HOLE.sub(lambda found: values.get(found[1], found[0]), text)


def _one(found: re.Match[str], values: Mapping[str, str]) -> str:
    """`1 GPU`, where the text says `{number} GPUs`, with its verb."""
    noun, verb = found[2], found[3] or ""
    if values.get(found[1]) != "1" or noun in _NO_PLURAL:
        return found[0]
    noun = noun[:-2] if noun.endswith(("ches", "sses", "xes")) else noun[:-1]
    return f"{{{found[1]}}} {noun}{_SINGULAR.get(verb, verb)}"


def _value(name: str, lookup: TemplateLookup, specs: Mapping[str, FactSpec]) -> str | None:
    if name.endswith(_SPAN):
        span = lookup.span(name.removesuffix(_SPAN))
        return None if span is None else str(span)
    value = lookup.value(name)
    return None if value is None else format_value(name, value, specs.get(name))
