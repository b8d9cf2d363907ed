"""Finding entries: by a message that was pasted, or by words."""

from __future__ import annotations

import io
import re
from collections import Counter

from firstfault.knowledge.expression import parse
from firstfault.knowledge.schema import Entry, Pack
from firstfault.scan.scanner import Scanner

MAX_QUERY_CHARS = 20_000
_WORD = re.compile(r"[a-z0-9_.]{2,}")
_COMMON = frozenset(
    ["the", "and", "for", "with", "not", "from", "that", "error", "in", "is", "of", "to", "on", "at", "my", "when"]
)
_QUOTED = re.compile(r'"([a-z_]+)"')
_TITLE, _ALIAS, _TAG, _MESSAGE = 3, 2, 1, 8
_SHORT = 5


class Finder:
    """An index of the pack, made once. Safe for threads."""

    def __init__(self, pack: Pack) -> None:
        self._pack = pack
        self._scanner = Scanner(pack.signals)
        self._by_name = _by_name(pack)

    def search(self, text: str) -> list[Entry]:
        """Entries that fit, the best first: those whose conditions name a message in the text, then those with its words."""
        text = text[:MAX_QUERY_CHARS]
        lowered = text.lower()
        points = Counter(entry_id for name in self._names(text) for entry_id in self._by_name.get(name, ()))
        points = Counter({entry_id: _MESSAGE * count for entry_id, count in points.items()})
        words = set(_WORD.findall(lowered)) - _COMMON
        for entry in self._pack.entries.values():
            named = f"{entry.id} {' '.join(entry.tags)}"
            for weight, said in ((_TITLE, entry.title), (_ALIAS, " ".join(entry.aliases)), (_TAG, named)):
                points[entry.id] += weight * len(words & set(_WORD.findall(said.lower().replace("-", " "))))
            if any(alias.lower() in lowered for alias in entry.aliases if len(alias) > _SHORT):
                points[entry.id] += _MESSAGE
        found = [(score, entry_id) for entry_id, score in points.items() if score >= _ALIAS]
        return [self._pack.entries[entry_id] for _, entry_id in sorted(found, key=lambda pair: (-pair[0], pair[1]))]

    def _names(self, text: str) -> set[str]:
        """The events that stand in the text, and the classes of their failures."""
        found = self._scanner.scan(io.BytesIO(text.encode("utf-8", "replace")))
        return {name for hit in found.hits for name in (hit.signal.event, f"class:{hit.signal.fault_class}")}


def _by_name(pack: Pack) -> dict[str, tuple[str, ...]]:
    """Entries by the events that their conditions name, and by the classes of failures that open them."""
    found: dict[str, list[str]] = {}
    for entry in pack.entries.values():
        for condition in (*entry.requires, *entry.evidence):
            for name in parse(condition.if_).names:
                found.setdefault(name, []).append(entry.id)
            for quoted in _QUOTED.findall(condition.if_) if "fault.class" in condition.if_ else ():
                found.setdefault(f"class:{quoted}", []).append(entry.id)
    return {name: tuple(dict.fromkeys(ids)) for name, ids in found.items()}
