"""Process groups over all ranks: who is how far in which group, from the records of the ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from firstfault.model.collective import CollectiveCall, GroupKey, GroupStatus, RankRecord, Trail


class GroupView(msgspec.Struct, frozen=True, kw_only=True):
    """One group: its members (those seen, where it is not written who belongs to it) and what each rank shows of it."""

    key: GroupKey
    members: tuple[int, ...]
    description: str = ""
    counts_p2p: bool = False
    completion_known: bool = True
    status: dict[int, GroupStatus] = {}
    calls: dict[int, tuple[CollectiveCall, ...]] = {}
    trails: dict[int, Trail] = {}

    @property
    def title(self) -> str:
        """What the group is called where it was made, else its number."""
        said = self.description
        return said if said and said != "undefined" else f"group {self.key.name or '0'}"

    def enqueued(self, rank: int) -> int | None:
        """The last collective that the rank entered; None if unknown, 0 if it entered none."""
        status = self.status.get(rank)
        if status is not None and not self.counts_p2p:
            return status.last_enqueued
        trail = self.trails.get(rank)
        return trail.first + len(trail.signatures) - 1 if trail else None

    def completed(self, rank: int) -> int | None:
        """The last collective that was completed on the rank; None if that is not known."""
        status = self.status.get(rank)
        if not self.completion_known or self.counts_p2p or status is None:
            return None
        return status.last_completed

    def op(self, rank: int, seq: int) -> str:
        """The operation of a call of the rank; empty if it was not recorded."""
        trail = self.trails.get(rank)
        if trail is None or not 0 <= seq - trail.first < len(trail.signatures):
            return ""
        found = trail.signatures[seq - trail.first]
        return found.op if found else ""

    def any_op(self, seq: int) -> str:
        """The operation of a call on the first rank that recorded it."""
        return next((op for rank in self.trails if (op := self.op(rank, seq))), "")

    def call(self, rank: int, seq: int) -> CollectiveCall | None:
        """A collective of the rank, if it was kept."""
        return next((c for c in self.calls.get(rank, ()) if c.seq == seq and not c.is_p2p), None)


def one_record_a_rank(records: Iterable[RankRecord]) -> tuple[dict[int, RankRecord], tuple[int, ...]]:
    """The newest dump of each rank of the last run, and the ranks that had several.

    Dumps in one folder are of one run. Where two folders hold a dump of the same rank, the later one is taken whole: ranks of
    two runs do not wait for each other.
    """
    runs: dict[tuple[int, str], list[RankRecord]] = {}
    for record in records:
        attempt = -1 if record.attempt is None else record.attempt
        runs.setdefault((attempt, record.source_id.rpartition("/")[0]), []).append(record)
    chosen: dict[int, RankRecord] = {}
    several: set[int] = set()
    for _, run in sorted(runs.items(), key=lambda item: (item[0][0], max(map(_newest_ns, item[1]))), reverse=True):
        of_run: dict[int, RankRecord] = {}
        for record in run:
            before = of_run.get(record.rank)
            several.update([record.rank] if before is not None else [])
            if before is None or _newest_ns(record) > _newest_ns(before):
                of_run[record.rank] = record
        again = of_run.keys() & chosen.keys()
        several |= again
        chosen |= {} if again else of_run
    return dict(sorted(chosen.items())), tuple(sorted(several))


def group_views(records: dict[int, RankRecord]) -> tuple[GroupView, ...]:
    """All groups that any record names, in the order of their names."""
    named = _with_names(records)
    status: dict[GroupKey, dict[int, GroupStatus]] = {}
    calls: dict[GroupKey, dict[int, list[CollectiveCall]]] = {}
    trails: dict[GroupKey, dict[int, Trail]] = {}
    for rank, record in records.items():
        for one in named[rank]:
            if one.group is not None:
                status.setdefault(one.group, {})[rank] = one
        for call in record.calls:
            if call.group is not None:
                calls.setdefault(call.group, {}).setdefault(rank, []).append(call)
        for trail in record.trails:
            trails.setdefault(trail.group, {})[rank] = trail
    world = tuple(sorted({*records, *(rank for record in records.values() for rank in record.world)}))
    views = []
    for key in sorted({*status, *calls, *trails}):
        of_ranks = status.get(key, {})
        texts = [one.description for one in of_ranks.values() if one.description]
        seen = tuple(sorted({*of_ranks, *calls.get(key, ()), *trails.get(key, ())}))
        is_default = key.name in ("", "0") or "default_pg" in texts
        views.append(
            GroupView(
                key=key,
                members=key.members or (world if is_default else seen),
                description=texts[0] if texts else "",
                counts_p2p=any(one.counts_p2p for one in of_ranks.values()) or _pairs_only(calls.get(key, {})),
                completion_known=all(one.completion_known for one in of_ranks.values()),
                status=of_ranks,
                calls={rank: tuple(found) for rank, found in calls.get(key, {}).items()},
                trails=trails.get(key, {}),
            )
        )
    return _without_p2p_counters(views)


def _pairs_only(calls: dict[int, list[CollectiveCall]]) -> bool:
    return any(call.is_p2p for found in calls.values() for call in found)


def _without_p2p_counters(views: Sequence[GroupView]) -> tuple[GroupView, ...]:
    """Groups of one description are used alike: where one sends and receives, the counters of none are those of collectives."""
    paired = {view.description for view in views if view.counts_p2p and view.description and len(view.members) == 2}
    return tuple(
        replace(view, counts_p2p=True) if view.description in paired and len(view.members) == 2 else view for view in views
    )


def with_members(records: dict[int, RankRecord]) -> dict[int, RankRecord]:
    """The records, those that lack the members of a group with those that siblings list, if they leave no choice."""
    listed: dict[str, set[GroupKey]] = {}
    bare: dict[int, set[GroupKey]] = {}
    for rank, record in records.items():
        for key in {one.group for one in record.groups} | {one.group for one in record.trails}:
            if key is not None:
                (listed.setdefault(key.name, set()) if key.members else bare.setdefault(rank, set())).add(key)
    completed = dict(records)
    for rank, keys in bare.items():
        whole = {key: [full for full in listed.get(key.name, ()) if rank in full.members] for key in keys}
        names: dict[GroupKey | None, GroupKey] = {key: found[0] for key, found in whole.items() if len(found) == 1}
        record = records[rank]
        completed[rank] = replace(
            record,
            groups=tuple(replace(one, group=names.get(one.group, one.group)) for one in record.groups),
            calls=tuple(replace(one, group=names.get(one.group, one.group)) for one in record.calls),
            trails=tuple(replace(one, group=names.get(one.group, one.group)) for one in record.trails),
        )
    return completed


def _with_names(records: dict[int, RankRecord]) -> dict[int, tuple[GroupStatus, ...]]:
    """Each rank's counters; those of an unnamed group under the name that siblings give its number, if they leave no choice."""
    by_number: dict[str, list[GroupStatus]] = {}
    for record in records.values():
        for one in record.groups:
            if one.group is not None and one.group.members and one.local_id:
                by_number.setdefault(one.local_id, []).append(one)
    named = {}
    for rank, record in records.items():
        own = {one.group for one in record.groups}
        found = []
        for one in record.groups:
            if one.group is None:
                like = [other for other in by_number.get(one.local_id, ()) if other.group and rank in other.group.members]
                keys = {other.group for other in like}
                alike = any(other.last_enqueued == one.last_enqueued for other in like)
                if len(keys) == 1 and alike and not keys & own:
                    one = replace(one, group=like[0].group, description=like[0].description)
            found.append(one)
        named[rank] = tuple(found)
    return named


def _newest_ns(record: RankRecord) -> int:
    return max((call.created_ns or 0 for call in record.calls), default=0)
