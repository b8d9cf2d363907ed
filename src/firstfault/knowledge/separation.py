"""Finds siblings that no condition separates: whatever is known, one of them never leads the other.

Facts are drawn at random (seeded by the entry's id) from the values that its conditions mention, until the entry is alive
in some of them. A sibling that is alive as well and at most one point behind in all of these cannot be told apart.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence

from firstfault.knowledge.expression import Constant, parse
from firstfault.knowledge.lint_conditions import Vocabulary, conditions
from firstfault.knowledge.lint_issue import LintIssue
from firstfault.knowledge.schema import DECISIVE_WEIGHT, Condition, Entry, Pack
from firstfault.model.fact import FactValue

DRAWS = 1500
KEPT = 24
LEAD = 2
REQUIRED_SCORE = 3
_NUMBERS = (0, 1, 2, 3, 10, 1 << 20, 1 << 30, 1 << 31, 1 << 33)


class _Drawn:
    """A lookup over one drawn set of facts; everything else is unknown."""

    def __init__(self, values: dict[str, FactValue]) -> None:
        self._values = values

    def value(self, name: str) -> FactValue | None:
        return self._values.get(name)

    def rounded(self, name: str) -> bool:
        return False


def lint_siblings(pack: Pack) -> Iterator[LintIssue]:
    """Siblings below one parent (`refines` and `also_under`) of which one never leads the other."""
    vocabulary = Vocabulary(pack)
    worlds = {entry.id: _worlds(entry, vocabulary) for entry in pack.entries.values()}
    for entry in pack.entries.values():
        if entry.requires and not worlds[entry.id]:
            yield LintIssue(entry.requires[0].where, f"no set of facts was found in which `{entry.id}` holds", "warning")
    reported: set[tuple[str, str]] = set()
    for parent, siblings in _families(pack):
        for entry in siblings:
            for other in siblings:
                # A fallback is considered only when nobody else is alive: it competes with fallbacks alone.
                rivals = entry.id != other.id and entry.fallback == other.fallback and bool(worlds[entry.id])
                if rivals and (entry.id, other.id) not in reported and not _leads_somewhere(entry, other, worlds[entry.id]):
                    reported.add((entry.id, other.id))
                    below = f"below `{parent}`" if parent else "among the roots"
                    yield LintIssue(
                        f"{entry.source}:1",
                        f"no condition separates `{entry.id}` from `{other.id}` {below}: it never leads the other",
                        "error" if entry.status == other.status == "stable" else "warning",
                    )


def _families(pack: Pack) -> Iterator[tuple[str | None, list[Entry]]]:
    families: dict[str | None, list[Entry]] = {}
    for entry in pack.entries.values():
        if not entry.requires:
            continue  # found in plans only: no walk meets it
        for parent in (entry.refines, *entry.also_under):
            families.setdefault(parent, []).append(entry)
    yield from families.items()


def _leads_somewhere(entry: Entry, other: Entry, worlds: list[_Drawn]) -> bool:
    for world in worlds:
        score, rival = _score(entry, world), _score(other, world)
        if score is not None and (rival is None or score - rival >= LEAD):
            return True
    return False


def _score(entry: Entry, world: _Drawn) -> int | None:
    """The score of the entry in this world, or None if it is not alive."""
    if not all(_true(condition, world) for condition in entry.requires):
        return None
    if any(condition.veto and _true(condition, world) for condition in entry.against):
        return None
    found = sum(DECISIVE_WEIGHT if item.decisive else item.weight for item in entry.evidence if _true(item, world))
    return REQUIRED_SCORE + found - sum(item.weight for item in entry.against if _true(item, world))


def _true(condition: Condition, world: _Drawn) -> bool:
    return parse(condition.if_).evaluate(world) is True


def _worlds(entry: Entry, vocabulary: Vocabulary) -> list[_Drawn]:
    """Sets of facts in which the entry is alive, the clearest first."""
    draw = random.Random(entry.id)
    texts = [text for _, text in conditions(entry)]
    names = sorted(set().union(*(parse(text).names for text in texts))) if texts else []
    mentioned = _mentioned(texts)
    pools = {name: _pool(name, vocabulary, mentioned) for name in names}
    alive: list[tuple[int, int, _Drawn]] = []
    for number in range(DRAWS):
        world = _Drawn({name: draw.choice(pool) for name, pool in pools.items() if pool})
        score = _score(entry, world)
        if score is not None:
            alive.append((-score, number, world))
        if len(alive) >= 4 * KEPT:
            break
    return [world for _, _, world in sorted(alive, key=lambda item: item[:2])[:KEPT]]


def _mentioned(texts: Iterable[str]) -> list[bool | int | float | str]:
    found: list[bool | int | float | str] = []
    for text in texts:
        for node in parse(text).root.walk():
            if isinstance(node, Constant):
                found += node.value if isinstance(node.value, tuple) else [node.value]
    return list(dict.fromkeys(found))


def _pool(name: str, vocabulary: Vocabulary, mentioned: list[bool | int | float | str]) -> Sequence[FactValue]:
    kind = vocabulary.type_of(name)
    if kind == "bool":
        return [True, False]
    if kind in ("enum", "enum list"):
        values = vocabulary.facts[name].values
        likely = [value for value in values if value in mentioned]
        drawn = [*values, *likely * 3]
        return [(str(value),) for value in drawn] if kind == "enum list" else [*drawn]
    numbers = [value for value in mentioned if isinstance(value, int | float) and not isinstance(value, bool)]
    if kind == "int list":
        return [(int(value),) for value in (*numbers, 0, 1, 2)]
    if kind in ("int", "float", "bytes", "rank"):
        return [near for value in numbers for near in (value - 1, value, value + 1)] + [*_NUMBERS]
    return [value for value in mentioned if isinstance(value, str)] + ["another"]
