"""Fills the holes of a text with facts: `{fact}` by its unit, `{fact.span}` as `file:line`.

A sentence with a hole that nothing is known about is dropped: the rest stays true. Braces that hold no dotted lower-case name
are ordinary text.
"""

from __future__ import annotations

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
_SPAN = ".span"


class TemplateLookup(Protocol):
    """Where a text finds its values: facts, and the first line that shows each of them."""

    def value(self, name: str) -> FactValue | None:
        """The value, or None while it is unknown."""

    def span(self, name: str) -> SourceSpan | None:
        """The line that shows the fact, or None."""


def fill(template: str, lookup: TemplateLookup, specs: Mapping[str, FactSpec], *, keep_unknown: bool = False) -> str:
    """The text with this run's facts; sentences with an unknown hole are dropped.

    With `keep_unknown` (commands, where a reader can fill in) nothing is dropped and an unknown hole becomes `<name>`.
    """
    filled = (_fill_sentence(sentence, lookup, specs, keep_unknown) for sentence in _sentences(template))
    return " ".join(sentence for sentence in filled if sentence is not None)


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


def _fill_sentence(text: str, lookup: TemplateLookup, specs: Mapping[str, FactSpec], keep_unknown: bool) -> str | None:
    values: dict[str, str] = {}
    for name in holes(text):
        value = _value(name, lookup, specs)
        if value is None and not keep_unknown:
            return None
        values[name] = f"<{name}>" if value is None else value
    return _HOLE.sub(lambda found: values[found[1]], text)


def _value(name: str, lookup: TemplateLookup, specs: Mapping[str, FactSpec]) -> str | None:
    if name.endswith(_SPAN):
        span = lookup.span(name.removesuffix(_SPAN))
        return None if span is None else str(span)
    value = lookup.value(name)
    return None if value is None else format_value(name, value, specs.get(name))
