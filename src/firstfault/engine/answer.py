"""Answers to missing facts (`--fact NAME=VALUE`), typed by the list of facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.errors import UsageError
from firstfault.model.fact import Fact
from firstfault.units import parse_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from firstfault.knowledge.schema import FactSpec, Pack
    from firstfault.model.fact import FactValue

_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_TEXT_TYPES = frozenset({"str", "path", "text"})


def read_answers(answers: Mapping[str, str], pack: Pack) -> tuple[Fact, ...]:
    """The answers as facts; UsageError names what is wrong and what would be right."""
    return tuple(_fact(name.strip(), text.strip(), pack) for name, text in answers.items())


def _fact(name: str, text: str, pack: Pack) -> Fact:
    spec = pack.facts.get(name)
    where = f"--fact {name}={text}"
    if spec is None:
        near = _near(name, list(pack.facts), 3)
        raise UsageError(f"no fact is called {name}", where=where, hint=f"did you mean {' or '.join(near)}?" if near else "")
    value = _value(text, spec)
    if value is None:
        raise UsageError(f"{text!r} is no value of {name}", where=where, hint=_expected(text, spec))
    return Fact(name=name, value=value, origin="answered with --fact", basis="answered")


def _value(text: str, spec: FactSpec) -> FactValue | None:
    if spec.type == "enum list":
        items = tuple(item.strip() for item in text.split(","))
        return items if all(item in spec.values for item in items) else None
    if spec.type == "enum":
        if text in spec.values:
            return text
        truth = _TRUTHS.get(text.lower())
        return truth if truth is not None and truth in spec.values else None
    if spec.type == "bool":
        return _TRUTHS.get(text.lower())
    if spec.type in _TEXT_TYPES:
        return text or None
    return _number(text, spec.type)


def _number(text: str, kind: str) -> FactValue | None:
    try:
        if kind == "bytes":
            return parse_size(text)
        if kind == "float":
            return float(text)
        if kind == "int list":
            return tuple(int(item) for item in text.split(","))
        return int(text) if len(text) < 20 else None
    except ValueError:
        return None


def _near(text: str, choices: list[str], count: int) -> list[str]:
    # Only a mistake needs it.
    from difflib import get_close_matches

    return get_close_matches(text, choices, n=count, cutoff=0.5)


def _expected(text: str, spec: FactSpec) -> str:
    if spec.values:
        values = [str(value).lower() if isinstance(value, bool) else value for value in spec.values]
        near = _near(text, values, 1)
        return f"did you mean {near[0]}?" if near else f"one of: {', '.join(values)}"
    examples = {
        "bool": "true or false",
        "bytes": "a size, for example 594MiB",
        "int list": "numbers, for example 0,3",
        "float": "a number",
    }
    return examples.get(spec.type, "a whole number" if spec.type in {"int", "rank"} else "a text")
