"""A capsule that somebody sent, masked once more: that it is redacted is only his word. What is redacted stays as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from msgspec.structs import replace

from firstfault.errors import UnreadableInputError
from firstfault.ingest.capsule import SCHEMA, Capsule, CapsuleLine, CapsuleSource
from firstfault.ingest.redact import Masked, Redactor
from firstfault.knowledge.redaction import KINDS, RedactionRule

_PSEUDONYM = re.compile(rf"({'|'.join(KINDS)})-(\d{{1,9}})", re.ASCII)
_RULE = re.compile(r"[a-z0-9][a-z0-9 -]{0,79}\Z", re.ASCII)
_MAX_NUMBER = 20_000
"""Numbers beyond it are nobody's: a text must not make us count to a billion."""


def masked_again(capsule: Capsule, facts: Mapping[str, str], rules: Iterable[RedactionRule]) -> tuple[Capsule, dict[str, str]]:
    """The capsule and the facts without what the rules find in them. Of another schema: UnreadableInputError."""
    if capsule.schema != SCHEMA:
        raise UnreadableInputError("the capsule is of another schema", where="schema", hint=f"send {SCHEMA}")
    texts = list(_texts(capsule, facts))
    redactor = Redactor(_needed(rules, texts), names=_taken(capsule, texts), again=True)
    redactor.learn(line.text for source in capsule.sources for stretch in source.stretches for line in stretch)
    sources = tuple(_masked(source, redactor) for source in capsule.sources)
    notes = tuple(map(redactor.mask, capsule.notes))
    told = {name: redactor.mask(value) for name, value in facts.items()}
    manifest = (*(item for item in capsule.masked if _is_manifest(item)), *redactor.manifest())
    return replace(capsule, sources=sources, notes=notes, masked=manifest), told


def _texts(capsule: Capsule, facts: Mapping[str, str]) -> Iterator[str]:
    for source in capsule.sources:
        yield source.path
        yield from (line.text for stretch in source.stretches for line in stretch)
    yield from capsule.notes
    yield from facts.values()


def _needed(rules: Iterable[RedactionRule], texts: list[str]) -> list[RedactionRule]:
    """The rules that may find something: looking for their words once is cheaper than in every line."""
    whole = "\n".join(texts).lower()
    return [rule for rule in rules if not rule.literals or any(literal in whole for literal in rule.literals)]


def _taken(capsule: Capsule, texts: list[str]) -> dict[tuple[str, str], str]:
    """Pseudonyms that stand for something already, as names of values that no text has."""
    marked = (found for text in texts if "‹" in text for found in re.findall(rf"‹({_PSEUDONYM.pattern})›", text, re.ASCII))
    said = (found.groups() for item in capsule.masked if (found := _PSEUDONYM.fullmatch(item.pseudonym)))
    highest: dict[str, int] = {}
    for kind, number in chain(((one[1], one[2]) for one in marked), said):
        if int(number) <= _MAX_NUMBER:
            highest[kind] = max(highest.get(kind, 0), int(number))
    return {(kind, f"\0{number}"): f"{kind}-{number}" for kind, last in highest.items() for number in range(1, last + 1)}


def _masked(source: CapsuleSource, redactor: Redactor) -> CapsuleSource:
    stretches = tuple(
        tuple(CapsuleLine(line.number, line.offset, redactor.mask(line.text)) for line in stretch)
        for stretch in source.stretches
    )
    return replace(source, path=redactor.mask_path(source.path), stretches=stretches)


def _is_manifest(item: Masked) -> bool:
    """True for a line of a manifest as we write them: anything else may hold anything."""
    found = _PSEUDONYM.fullmatch(item.pseudonym)
    return found is not None and found[1] == item.kind and _RULE.match(item.rule) is not None
