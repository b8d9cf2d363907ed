"""Who waited where: what one rank shows of its collectives, whatever showed it, and who is suspected for what."""

from __future__ import annotations

from typing import Literal

import msgspec

from firstfault.model.span import SourceSpan

RecordOrigin = Literal["dump", "watchdog", "ras", "stack", "report"]
"""A flight-recorder dump, watchdog lines, NCCL RAS output, stacks of a live process, a report of torch's debug mode."""
CallState = Literal["scheduled", "started", "completed", "unknown"]
SuspectKind = Literal[
    "no-record",
    "never-entered",
    "gpu-stalled",
    "behind",
    "divergent-call",
    "order-inversion",
    "fabric-or-library",
    "host-blocked",
]
Confidence = Literal["high", "medium", "low"]
"""High: two independent rules agree. Medium: one rule that leaves no other reading. Low: one that does."""


class GroupKey(msgspec.Struct, frozen=True, order=True):
    """A process group. Names are not unique after a split: the members belong to the key. No members: unknown ones."""

    name: str
    members: tuple[int, ...] = ()
    """Global ranks, ascending."""


class GroupStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How far one rank is in one group. Sequence numbers count from 1 in that group; None is unknown, 0 none yet.

    `group` is None where a record numbers its groups and does not say which is which (`local_id` is that number).
    `counts_p2p` marks a group that sends and receives: its counters are not those of its collectives. `completion_known` is
    False where the record cannot tell what was completed (gloo).
    """

    group: GroupKey | None
    description: str = ""
    local_id: str = ""
    last_enqueued: int | None = None
    last_started: int | None = None
    last_completed: int | None = None
    counts_p2p: bool = False
    completion_known: bool = True
    span: SourceSpan | None = None

    @property
    def pending(self) -> bool:
        """True if something was enqueued that is not completed."""
        if not self.completion_known or self.last_enqueued is None or self.last_completed is None:
            return False
        return self.last_enqueued > self.last_completed


class CallFrame(msgspec.Struct, frozen=True):
    """One frame of the stack on which a collective was called; the innermost comes first, as dumps write it."""

    path: str
    line: int
    function: str


class CollectiveCall(msgspec.Struct, frozen=True, kw_only=True):
    """One collective, send or receive of one rank.

    `seq` counts the collectives of the group; of a send or receive it is the point-to-point number. `op` has no backend
    (`all_reduce`, `send`). `peers` are the global ranks (from, to) of a send or receive. Sizes are elements a dimension,
    times nanoseconds since the epoch.
    """

    group: GroupKey | None
    seq: int
    op: str
    is_p2p: bool = False
    peers: tuple[int, int] | None = None
    input_sizes: tuple[tuple[int, ...], ...] = ()
    output_sizes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()
    state: CallState = "unknown"
    created_ns: int | None = None
    completed_ns: int | None = None
    timeout_ms: int | None = None
    frames: tuple[CallFrame, ...] = ()
    span: SourceSpan | None = None


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """What the calls of all members of a group must agree in. Sizes are elements a dimension; none where they may differ."""

    op: str
    input_sizes: tuple[tuple[int, ...], ...] = ()
    output_sizes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()


class Trail(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded collectives of one rank in one group: `signatures[i]` is that of call `first + i`, None if it was lost."""

    group: GroupKey
    first: int
    signatures: tuple[Signature | None, ...]


class RankRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What one source shows of one rank's collectives. A rank may have several, of several origins.

    `world` are the ranks of the default group, if the record says so. `own_watchdog_fired`: its own limit ran out;
    `observed_only`: it wrote only because another rank asked for it. None where that is unknown. `whole` is False for a
    record that was cut or lost its oldest calls.
    """

    rank: int
    origin: RecordOrigin
    host: str | None = None
    backend: str = ""
    version: str = ""
    world: tuple[int, ...] = ()
    groups: tuple[GroupStatus, ...] = ()
    calls: tuple[CollectiveCall, ...] = ()
    trails: tuple[Trail, ...] = ()
    own_watchdog_fired: bool | None = None
    observed_only: bool | None = None
    host_blocked: bool = False
    whole: bool = True
    source_id: str = ""
    attempt: int | None = None
    span: SourceSpan | None = None


class HangSuspect(msgspec.Struct, frozen=True, kw_only=True):
    """A rank for which others wait, or which differs from them: how, where, by how much, and what shows it.

    `lag` counts calls of the group. `others` are the ranks that wait for it. `reached` is the last call it completed,
    `not_reached` the call in which the others wait. `rank` is None where no rank can be named (`fabric-or-library`).
    """

    rank: int | None
    kind: SuspectKind
    confidence: Confidence
    group: GroupKey | None = None
    description: str = ""
    seq: int | None = None
    op: str = ""
    lag: int | None = None
    others: tuple[int, ...] = ()
    evidence: tuple[SourceSpan, ...] = ()
    reached: CollectiveCall | None = None
    not_reached: CollectiveCall | None = None
    says: str = ""
    """One sentence with this run's numbers."""
