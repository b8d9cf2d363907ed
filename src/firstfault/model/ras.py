"""One answer of NCCL's RAS service: how many operations the ranks of each communicator launched, and who does not answer."""

from __future__ import annotations

import msgspec

from firstfault.model.event import Clock
from firstfault.model.span import SourceSpan


class RasRank(msgspec.Struct, frozen=True):
    """A rank as RAS names it. `rank` counts in its communicator; host and pid say which process it is, where they are known."""

    rank: int
    host: str | None
    pid: int | None
    span: SourceSpan


class RasLevel(msgspec.Struct, frozen=True, kw_only=True):
    """Ranks that have launched `count` operations of a kind. `size` counts them all, `ranks` are those that are named."""

    count: int
    size: int
    ranks: tuple[RasRank, ...] = ()
    span: SourceSpan


class RasComm(msgspec.Struct, frozen=True, kw_only=True):
    """A communicator: its size in ranks, the levels of each operation whose counts differ, ranks that did not answer."""

    comm: str
    size: int | None = None
    levels: dict[str, tuple[RasLevel, ...]] = {}
    missing: tuple[RasRank, ...] = ()


class RasQuery(msgspec.Struct, frozen=True, kw_only=True):
    """One answer. `dead` are the processes that RAS gave up on."""

    comms: tuple[RasComm, ...]
    dead: tuple[tuple[str, int], ...] = ()
    """Host and pid."""
    time: Clock | None = None
    source_id: str = ""
    span: SourceSpan
