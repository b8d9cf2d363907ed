"""One decoded dump as a record of its rank: groups, how far it is in each, the calls that matter, the signatures of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from firstfault.ingest.dump_head import MAX_RANK
from firstfault.ingest.flight_calls import MAX_SEQ, Calls
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.collective import GroupKey, GroupStatus, RankRecord

if TYPE_CHECKING:
    from firstfault.model.event import Place
    from firstfault.model.span import SourceSpan

MAX_GROUPS = 4096
MAX_MEMBERS = 1 << 17
_MEMBERS = lazy_pattern(r"\s*\[\s*(?:\d{1,7}(?:\s*,\s*\d{1,7})*)?\s*\]\s*")
# No collective: -1, the same in 32 bits without a sign, what old versions print for an unset counter.
_UNSET = frozenset({-1, 2**32 - 1, 2**64 - 1, 3452013982})
_COUNTERS = ("last_enqueued_collective", "last_started_collective", "last_completed_collective")
_DEFAULT = "0"
_WITHOUT_COMPLETION = frozenset({"gloo"})


def members_of(group: object) -> tuple[int, ...]:
    """The global ranks of an item of `pg_config`, ascending; none if they are not written as a list of numbers."""
    ranks = group.get("ranks") if isinstance(group, dict) else None
    if isinstance(ranks, str):
        return _listed(ranks)
    if (
        isinstance(ranks, (list, tuple))
        and len(ranks) <= MAX_MEMBERS
        and all(type(rank) is int and 0 <= rank <= MAX_RANK for rank in ranks)
    ):
        return tuple(sorted(set(ranks)))
    return ()


@lru_cache(maxsize=4096)
def _listed(text: str) -> tuple[int, ...]:
    if text.count(",") >= MAX_MEMBERS or not _MEMBERS.fullmatch(text):
        return ()
    return tuple(sorted({int(part) for part in text.strip(" []").split(",") if part.strip()}))


@lru_cache(maxsize=4096)
def _key(name: str, members: tuple[int, ...]) -> GroupKey:
    """Members of 1,024 ranks are kept once, not once a rank."""
    return GroupKey(name, members)


def record_of(dump: Mapping[str, Any], rank: int, span: SourceSpan, place: Place) -> tuple[RankRecord, tuple[str, ...]]:
    """The record of a dump of `rank`, and what of it could not be used, in words."""
    config = dump.get("pg_config")
    keys: dict[str, GroupKey] = {}
    descriptions: dict[str, str] = {}
    for number, (name, group) in enumerate(config.items() if isinstance(config, dict) else ()):
        if number < MAX_GROUPS and isinstance(group, dict) and name != "":
            keys[str(name)] = _key(str(name), members_of(group))
            descriptions[str(name)] = str(group.get("desc", ""))[:200]
    if isinstance(config, dict) and _DEFAULT not in keys and (members := members_of(config.get(""))):
        # gloo's default group has no name of its own there; its calls say 0.
        keys[_DEFAULT] = _key(_DEFAULT, members)
    entries = dump.get("entries")
    calls = Calls(rank, keys, span, entries if isinstance(entries, list) else ())
    descriptions = {**calls.descriptions, **{name: text for name, text in descriptions.items() if text}}
    groups = tuple(_statuses(dump, calls, descriptions, span))
    default = next((key for name, key in keys.items() if name == _DEFAULT or descriptions.get(name) == "default_pg"), None)
    notes = []
    if calls.unusable:
        notes.append(f"{calls.unusable} entries of the dump are damaged: left out")
    if not isinstance(entries, list):
        notes.append("the dump holds no entries: collectives were left out when it was written")
    record = RankRecord(
        rank=rank,
        origin="dump",
        host=place.host,
        attempt=place.attempt,
        backend=calls.backend,
        version=str(dump.get("version", ""))[:20],
        world=default.members if default else (),
        groups=groups,
        calls=calls.kept(),
        trails=calls.trails(),
        whole=calls.starts_at_first,
        source_id=span.source,
        span=span,
    )
    return record, tuple(notes)


def _statuses(
    dump: Mapping[str, Any], calls: Calls, descriptions: Mapping[str, str], span: SourceSpan
) -> Iterator[GroupStatus]:
    """How far the rank is in each group: by the counters of the dump, else by its entries."""
    known = calls.backend not in _WITHOUT_COMPLETION
    status = dump.get("pg_status")
    counted = [(str(k), v) for k, v in status.items() if isinstance(v, dict)][:MAX_GROUPS] if isinstance(status, dict) else []
    names = _names_by_number([number for number, _ in counted], calls)
    told = set()
    for number, counters in counted:
        enqueued, started, completed = (_counter(counters.get(name)) for name in _COUNTERS)
        name = names.get(number)
        told.add(name)
        yield GroupStatus(
            group=calls.key(name) if name is not None else None,
            description=descriptions.get(name, "") if name is not None else "",
            local_id=number,
            last_enqueued=enqueued,
            last_started=started or None,
            last_completed=completed,
            counts_p2p=name in calls.p2p_groups,
            completion_known=known,
            span=replace(span, part=f"pg_status[{number}]"),
        )
    for name, enqueued, completed in calls.counters(told):
        yield GroupStatus(
            group=calls.key(name),
            description=descriptions.get(name, ""),
            last_enqueued=enqueued,
            last_completed=completed,
            counts_p2p=name in calls.p2p_groups,
            completion_known=known,
            span=span,
        )


def _counter(value: object) -> int | None:
    """A counter of `pg_status`; 0 for none yet, None if it is no number."""
    if isinstance(value, str) and value.lstrip("-").isdecimal() and len(value) < 21:
        value = int(value)
    if type(value) is not int:
        return None
    return 0 if value in _UNSET or value < 0 else value if value <= MAX_SEQ else None


def _names_by_number(numbers: Sequence[str], calls: Calls) -> dict[str, str]:
    """The group behind each local number: as the rank's own entries say, else by the order in which groups were made.

    Both names and local numbers grow as groups are made. The order counts only if it agrees with every entry.
    """
    own = {str(number): name for number, name in calls.names.items()}
    named = [name for name in calls.keys if name.isdecimal() and len(name) < 10]
    if len(named) != len(numbers) or len(named) != len(calls.keys) or not all(n.isdecimal() and len(n) < 10 for n in numbers):
        return own
    ordered = dict(zip(sorted(numbers, key=int), sorted(named, key=int), strict=True))
    if any(ordered.get(number, name) != name for number, name in own.items()):
        return own
    return {**ordered, **own}
