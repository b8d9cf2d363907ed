"""Whom NCCL's RAS service shows behind: ranks that launched fewer operations than the others, in two answers, and did not move.

RAS prints outliers, and an outlier may be the rank that is ahead: the lower count is the one to explain. Launches race with the
query, so one answer shows nothing, and a difference that is gone in the next answer never was one.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from firstfault.engine.rank_map import RankMap
from firstfault.model.bundle import Bundle
from firstfault.model.event import Event, Place
from firstfault.model.ras import RasComm, RasQuery, RasRank
from firstfault.model.span import SourceSpan

BEHIND_EVENT = "hang.waits_for_ranks_behind"


class RasVote(msgspec.Struct, frozen=True, kw_only=True):
    """`ranks` are global, as far as they are known. `dead` is true if they no longer answer, false if they are only behind.

    `count` operations of the kind `op` were launched by them, `others` by the `ahead` ranks that lead. `mismatch` is true if
    the last answer finds any difference, be it one that the next would not find.
    """

    ranks: tuple[int, ...] = ()
    op: str = ""
    count: int = 0
    others: int = 0
    ahead: int = 0
    dead: bool = False
    queries: int = 0
    mismatch: bool = False
    spans: tuple[SourceSpan, ...] = ()
    source_id: str = ""

    @property
    def settled(self) -> bool:
        """True if there was something to compare."""
        return self.queries > 1

    @property
    def says(self) -> str:
        """One sentence with the numbers of the last answer."""
        who = "rank " + ", ".join(map(str, self.ranks[:8])) if self.ranks else "a process"
        if self.dead:
            return f"NCCL's RAS service no longer reaches {who}"
        launched = f"{who} had launched {self.count} {self.op} operations in both answers of RAS"
        return f"{launched}, the {self.ahead} that lead {self.others}"


def vote_of_ras(bundle: Bundle, ranks: RankMap) -> RasVote | None:
    """What the answers of RAS say together; None if there is none in the bundle."""
    queries = [query for report in bundle.reports for query in report.ras]
    if not queries:
        return None
    last = queries[-1]
    if last.dead:
        return _dead(last, len(queries), ranks)
    if len(queries) > 1:
        for comm in last.comms:
            before = next((one for one in queries[-2].comms if one.comm == comm.comm), None)
            found = _behind(comm, before, ranks, last) if before is not None else None
            if found is not None:
                return msgspec.structs.replace(found, queries=len(queries))
    differs = any(comm.levels or comm.missing for comm in last.comms)
    return RasVote(queries=len(queries), mismatch=differs, spans=(last.span,), source_id=last.source_id)


def _behind(comm: RasComm, before: RasComm, ranks: RankMap, query: RasQuery) -> RasVote | None:
    for op, levels in comm.levels.items():
        low, high = min(levels, key=lambda level: level.count), max(levels, key=lambda level: level.count)
        whole = comm.size or sum(level.size for level in levels)
        if not low.ranks or 2 * low.size > whole or (2 * low.size == whole and whole > 2):
            continue
        stood = {rank.rank for level in before.levels.get(op, ()) if level.count == low.count for rank in level.ranks}
        still = [rank for rank in low.ranks if rank.rank in stood]
        if still:
            return RasVote(
                ranks=tuple(sorted(known for rank in still if (known := _global(rank, comm, ranks)) is not None)),
                op=op,
                count=low.count,
                others=high.count,
                ahead=whole - low.size,
                spans=tuple(rank.span for rank in still[:4]),
                source_id=query.source_id,
            )
    return None


def _dead(query: RasQuery, queries: int, ranks: RankMap) -> RasVote:
    found: dict[int, None] = {}
    spans: list[SourceSpan] = []
    for comm in query.comms:
        for rank in comm.missing:
            if (rank.host, rank.pid) in query.dead:
                known = _global(rank, comm, ranks)
                spans.append(rank.span)
                if known is not None:
                    found[known] = None
    for host, pid in query.dead:
        known = ranks.rank_of_pid(pid, host)
        if known is not None:
            found[known] = None
    return RasVote(
        ranks=tuple(sorted(found)),
        dead=True,
        queries=queries,
        spans=tuple(spans[:4]) or (query.span,),
        source_id=query.source_id,
    )


def _global(rank: RasRank, comm: RasComm, ranks: RankMap) -> int | None:
    """The global rank: by the process, else the number in a communicator of the whole world."""
    known = ranks.rank_of_pid(rank.pid, rank.host)
    if known is not None:
        return known
    return rank.rank if ranks.world_size in (None, comm.size) else None


def behind_events(bundle: Bundle, ranks: RankMap) -> Iterator[Event]:
    """A wait for each difference that lasts: the ranks ahead wait for those behind."""
    vote = vote_of_ras(bundle, ranks)
    if vote is not None and (vote.op or vote.dead):
        yield Event(
            name=BEHIND_EVENT,
            signal="",
            role="collateral",
            fault_class="collective_timeout",
            span=vote.spans[0],
            text=vote.says,
            place=Place(),
            source_id=vote.source_id,
        )
