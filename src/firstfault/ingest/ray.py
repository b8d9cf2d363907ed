"""Which rank the processes of a Ray cluster are, where a line says it: Ray's own prefix names only a process and an address."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from firstfault.ingest.lines import Line
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.event import Place

Processes = Mapping[int, frozenset[tuple[str | None, int]]]
"""Address (if printed) and rank of each process id; two hosts may use one id."""

MAX_PROCESSES = 100_000

_LISTED = lazy_pattern(
    r"\s*- \((?:node_id=\w{1,80}, )?ip=(?P<ip>[\w.:-]{1,60}), pid=(?P<pid>\d{1,8})\) world_rank=(?P<rank>\d{1,6})\b",
    needs="world_rank=",
)
_OWN = lazy_pattern(r"Setting up process group for: \S{1,80} \[rank=(?P<rank>\d{1,6}), world_size=", needs="Setting up process")


def ranks_of_processes(lines: Iterable[Line]) -> Processes:
    """The processes that Ray Train's trainer lists with their ranks, and those that name their own."""
    named: dict[int, set[tuple[str | None, int]]] = defaultdict(set)
    for line in lines:
        if len(named) >= MAX_PROCESSES:
            break
        if listed := _LISTED.match(line.text):
            named[int(listed["pid"])].add((listed["ip"], int(listed["rank"])))
        elif line.place.pid is not None and (own := _OWN.match(line.text)):
            named[line.place.pid].add((line.place.host, int(own["rank"])))
    return {pid: frozenset(found) for pid, found in named.items()}


def with_rank_of_process(place: Place, processes: Processes) -> Place:
    """`place` with the rank of its process. Lines from the trainer's own node carry no address: there the id must be unique."""
    if place.rank is not None or place.pid is None or place.pid not in processes:
        return place
    found = processes[place.pid]
    ranks = {rank for host, rank in found if place.host is None or host in (None, place.host)}
    return replace(place, rank=ranks.pop()) if len(ranks) == 1 else place
