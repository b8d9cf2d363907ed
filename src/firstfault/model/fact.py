"""Typed statements with their origin; what is not in the set is unknown, which is neither true nor false."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from firstfault.model.span import SourceSpan

FactValue = bool | int | float | str | tuple[str, ...] | tuple[int, ...]


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A value read or derived. `origin` says how in a few words; `spans` are the lines that show it.

    `basis` is `read` (stands in a source), `derived` (follows from others), `answered` (`--fact`) or `told` (prose): what was
    merely told never establishes anything. `rounded` marks a number printed with two decimals (+-0.5 %).
    """

    name: str
    value: FactValue
    origin: str
    spans: tuple[SourceSpan, ...] = ()
    basis: Literal["read", "derived", "answered", "told"] = "read"
    rounded: bool = False


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One value of a configuration file, command line, environment or argument dump, at its place.

    `family`: accelerate, deepspeed, command, environment, arguments, package. `key` is dotted for nested files and carries its
    dashes for options (`--num_processes`); a positional word of a command has the key `script` or `launcher`.
    """

    family: str
    key: str
    value: bool | int | float | str | None
    span: SourceSpan
    text: str
    source_id: str = ""


class FactSet(Mapping[str, Fact]):
    """Facts of one investigation by name. Later `add` calls do not overwrite: the first producer wins."""

    def __init__(self, facts: Mapping[str, Fact] | None = None) -> None:
        self._facts: dict[str, Fact] = dict(facts or {})

    def add(self, fact: Fact) -> None:
        """Keep `fact` unless the name is known already."""
        self._facts.setdefault(fact.name, fact)

    def value(self, name: str) -> FactValue | None:
        """The value, or None while it is unknown."""
        fact = self._facts.get(name)
        return None if fact is None else fact.value

    def __getitem__(self, name: str) -> Fact:
        return self._facts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)
