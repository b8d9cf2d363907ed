"""The entries of one dump: each group's calls, the few that an analysis looks at closely, and the signatures of all."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.collective import CallFrame, CallState, CollectiveCall, GroupKey, Signature, Trail

if TYPE_CHECKING:
    from firstfault.model.span import SourceSpan

KEPT_BEFORE = 128
"""Completed calls whose signatures are kept too: on another rank they may be open."""
KEPT_FIRST = 8
KEPT_LAST = 8
"""Of a group's calls that are not completed: the first and the last ones."""
MAX_TRAIL = 1 << 16
MAX_FRAMES = 12
MAX_SEQ = 1 << 40
"""What is beyond was never counted: a million calls a second would take twelve days."""
_PAIR = lazy_pattern(r"(send|recv) (\d{1,7})(->|<-)(\d{1,7})")
_STATES: dict[object, CallState] = {"scheduled": "scheduled", "started": "started", "completed": "completed"}
# Every rank may bring another size to these.
_ANY_SIZE = frozenset({"all_to_all", "alltoall", "all_to_all_single", "alltoall_base"})
_ANY_INPUT = frozenset({"scatter", "scatter_"})
_ANY_OUTPUT = frozenset({"gather"})


class Calls:
    """What the entries of a dump of `rank` hold. `keys` are the groups by name, `names` their names by local number."""

    def __init__(self, rank: int, keys: dict[str, GroupKey], span: SourceSpan, entries: Sequence[Any]) -> None:
        self.keys = keys
        self.names: dict[object, str] = {}
        self.descriptions: dict[str, str] = {}
        self.p2p_groups: set[str] = set()
        self.backend = ""
        self.unusable = 0
        self.starts_at_first = True
        self._rank = rank
        self._span = span
        self._entries = entries
        self._collectives: dict[str, list[tuple[int, int]]] = {}
        self._pairs: dict[str, list[tuple[int, int]]] = {}
        self._read()

    def _read(self) -> None:
        first = self._entries[0] if self._entries else None
        if isinstance(first, dict) and isinstance(first.get("process_group"), str):
            # Before version 2.1 a group is its name alone: taken apart like a pair, a name of two letters would pass for one.
            for index, entry in enumerate(self._entries):
                self._first_of_group(entry if isinstance(entry, dict) else {}, index)
        else:
            self._read_pairs()
        self.p2p_groups = set(self._pairs)
        for found in (*self._collectives.values(), *self._pairs.values()):
            found[:] = [one for one in found if type(one[0]) is int and 0 <= one[0] <= MAX_SEQ]
        if isinstance(first, dict):
            self.backend = str(first.get("profiling_name", "")).partition(":")[0][:20]
            self.starts_at_first = first.get("record_id") in (0, None)

    def _read_pairs(self) -> None:
        collectives, pairs, names = self._collectives, self._pairs, self.names
        for index, entry in enumerate(self._entries):
            try:
                name, _ = entry["process_group"]
                number = entry["pg_id"]
                paired = entry["is_p2p"]
                seq = entry["p2p_seq_id"] if paired else entry["collective_seq_id"]
                (pairs if paired else collectives)[name].append((seq, index))
                if names.get(number) != name:
                    names[number] = name
            except KeyError:
                self._first_of_group(entry, index)
            except (TypeError, ValueError):
                self.unusable += 1

    def _first_of_group(self, entry: Any, index: int) -> None:
        """The first call of a group, or an entry of an older version that lacks a field."""
        group = entry.get("process_group", entry.get("pg_name"))
        if isinstance(group, str):
            group = (group, "")
        paired = bool(entry.get("is_p2p", False))
        seq = entry.get("p2p_seq_id" if paired else "collective_seq_id", entry.get("seq_id"))
        if not isinstance(group, (tuple, list)) or len(group) != 2 or not isinstance(group[0], str) or type(seq) is not int:
            self.unusable += 1
            return
        name = group[0]
        (self._pairs if paired else self._collectives).setdefault(name, []).append((seq, index))
        self.descriptions.setdefault(name, "" if group[1] in ("undefined", None) else str(group[1])[:200])
        if isinstance(entry.get("pg_id"), int):
            self.names.setdefault(entry["pg_id"], name)

    def key(self, name: str) -> GroupKey:
        """The group of that name; without members if the dump does not list them."""
        return self.keys.get(name) or _bare(name)

    def counters(self, told: Collection[str | None]) -> Iterator[tuple[str, int, int]]:
        """For each group not in `told` the last collective enqueued and the last completed, as the entries show them."""
        for name, found in self._collectives.items():
            if found and name not in told:
                done = [seq for seq, index in found if _is_done(self._entries[index])]
                yield name, max(found)[0], max(done, default=min(found)[0] - 1)

    def trails(self) -> tuple[Trail, ...]:
        """The signatures of the collectives that may still be open on some rank, group by group."""
        return tuple(trail for name, found in self._collectives.items() if (trail := self._trail(name, found)) is not None)

    def _trail(self, name: str, found: list[tuple[int, int]]) -> Trail | None:
        if not found:
            return None
        first, last = min(found)[0], max(found)[0]
        done = next((seq for seq, index in reversed(found) if _is_done(self._entries[index])), first)
        first = max(first, done - KEPT_BEFORE, last - MAX_TRAIL + 1)
        signatures: list[Signature | None] = [None] * (last - first + 1)
        entries = self._entries
        for seq, index in found:
            if seq >= first:
                signatures[seq - first] = _signature(entries[index])
        return Trail(group=self.key(name), first=first, signatures=tuple(signatures))

    def kept(self) -> tuple[CollectiveCall, ...]:
        """The last completed call of each group, and the first and last of those that are not."""
        made = []
        for calls, paired in ((self._collectives, False), (self._pairs, True)):
            for name, found in calls.items():
                for seq, index in self._chosen(found):
                    made.append(self._call(name, seq, index, paired=paired))
        return tuple(made)

    def _chosen(self, found: list[tuple[int, int]]) -> list[tuple[int, int]]:
        entries = self._entries
        # Calls complete in order: the search goes back from the end to the last completed one.
        pending: list[tuple[int, int]] = []
        done: list[tuple[int, int]] = []
        for one in reversed(found):
            if _is_done(entries[one[1]]):
                done.append(one)
                break
            pending.append(one)
        pending.reverse()
        return [*done, *(pending if len(pending) <= KEPT_FIRST + KEPT_LAST else pending[:KEPT_FIRST] + pending[-KEPT_LAST:])]

    def _call(self, name: str, seq: int, index: int, *, paired: bool) -> CollectiveCall:
        entry = self._entries[index]
        key, text = self.key(name), str(entry.get("profiling_name", ""))
        peers = _peers(text, key) if paired else None
        return CollectiveCall(
            group=key,
            seq=seq,
            op=_operation(text)[:80],
            is_p2p=paired,
            peers=peers,
            input_sizes=_sizes(entry.get("input_sizes")),
            output_sizes=_sizes(entry.get("output_sizes")),
            dtypes=_words(entry.get("input_dtypes")),
            state="completed" if _is_done(entry) else _STATES.get(_hashable(entry.get("state")), "unknown"),
            created_ns=_number(entry.get("time_created_ns")),
            completed_ns=_number(entry.get("time_discovered_completed_ns")),
            timeout_ms=_number(entry.get("timeout_ms")),
            frames=_frames(entry.get("frames")),
            span=replace(self._span, part=f"entries[{index}]"),
        )


@lru_cache(maxsize=256)
def _bare(name: str) -> GroupKey:
    return GroupKey(name[:200])


def _is_done(entry: Mapping[str, Any]) -> bool:
    return entry.get("state") == "completed" or bool(entry.get("time_discovered_completed_ns"))


def _operation(profiling_name: str) -> str:
    """`nccl:all_reduce` -> `all_reduce`, `nccl:send 0->3` -> `send`."""
    return profiling_name.rpartition(":")[2].partition(" ")[0]


def _peers(text: str, key: GroupKey) -> tuple[int, int] | None:
    """Global ranks (from, to). The text counts in the group; without its members only the group of all is sure."""
    found = _PAIR.search(text)
    if found is None:
        return None
    left, right = int(found[2]), int(found[4])
    source, target = (left, right) if found[3] == "->" else (right, left)
    if not key.members:
        return source, target
    if max(source, target) >= len(key.members):
        return None
    return key.members[source], key.members[target]


def _signature(entry: Mapping[str, Any]) -> Signature | None:
    try:
        return _made(
            entry["profiling_name"],
            tuple(map(tuple, entry["input_sizes"])),
            tuple(map(tuple, entry["output_sizes"])),
            tuple(entry["input_dtypes"]),
        )
    except (KeyError, TypeError):
        return None


@lru_cache(maxsize=1 << 14)
def _made(name: str, inputs: tuple[Any, ...], outputs: tuple[Any, ...], dtypes: tuple[Any, ...]) -> Signature:
    op = _operation(str(name))
    return Signature(
        op=op,
        input_sizes=() if op in _ANY_SIZE or op in _ANY_INPUT else inputs,
        output_sizes=() if op in _ANY_SIZE or op in _ANY_OUTPUT else outputs,
        dtypes=dtypes,
    )


def _hashable(value: object) -> object:
    return value if isinstance(value, str) else None


def _number(value: object) -> int | None:
    # The JSON form writes 0 for a time that was not seen.
    return value if type(value) is int and value > 0 else None


def _sizes(value: object) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, (list, tuple)):
        return ()
    rows = (row for row in value[:64] if isinstance(row, (list, tuple)))
    return tuple(tuple(size for size in row[:16] if type(size) is int) for row in rows)


def _words(value: object) -> tuple[str, ...]:
    return tuple(str(one)[:40] for one in value[:64]) if isinstance(value, (list, tuple)) else ()


def _frames(value: object) -> tuple[CallFrame, ...]:
    if not isinstance(value, (list, tuple)):
        return ()
    frames = (one for one in value[:MAX_FRAMES] if isinstance(one, dict))
    return tuple(
        CallFrame(str(one.get("filename", ""))[:400], _number(one.get("line")) or 0, str(one.get("name", ""))[:200])
        for one in frames
    )
