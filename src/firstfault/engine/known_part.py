"""What speaks for a cause that is only possible: the parts of its open conditions that are known and true."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.knowledge.expression import Junction, Name, parse
from firstfault.knowledge.template import format_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.engine.lookup import Known
    from firstfault.knowledge.expression import Node
    from firstfault.knowledge.schema import Entry
    from firstfault.model.fact import Fact

MAX_SHOWN = 3


def known_part(entry: Entry, known: Known) -> tuple[tuple[str, Fact], ...]:
    """Facts with a line, on which a true part of an open `[[plan]]` condition rests, each as a sentence.

    `processes that the command really starts on this machine: 1`; at most `MAX_SHOWN`, in the order of the conditions.
    """
    found: dict[str, Fact] = {}
    for condition in entry.plan:
        root = parse(condition.if_).root
        if root.truth(known) is None:
            for name in _true_names(root, known):
                fact = known.fact(name)
                if fact is not None and fact.spans:
                    found.setdefault(name, fact)
    return tuple((_sentence(fact, known), fact) for fact in list(found.values())[:MAX_SHOWN])


def _true_names(node: Node, known: Known) -> Iterator[str]:
    """The names below parts that are true, where all parts must be."""
    if node.truth(known) is True:
        yield from (part.name for part in node.walk() if isinstance(part, Name))
    elif isinstance(node, Junction) and node.operator == "and":
        for part in node.children():
            yield from _true_names(part, known)


def _sentence(fact: Fact, known: Known) -> str:
    spec = known.pack.facts.get(fact.name)
    said = spec.says if spec else fact.name
    because = f" ({fact.origin})" if fact.origin else ""
    return f"{said}: {format_value(fact.name, fact.value, spec)}{because}"
