"""What a memory snapshot says, as it is printed in JSON (`firstfault.memory/1`). All sizes are bytes."""

from __future__ import annotations

from typing import Literal

import msgspec

from firstfault.model.plan import UnknownFact

MEMORY_SCHEMA = "firstfault.memory/1"

Phase = Literal["", "forward", "backward", "optimizer"]
History = Literal["stacks", "trace", "blocks", "none"]
Reason = Literal["full", "fragmented", "other_pool", "limit", "unknown"]


class CallSite(msgspec.Struct, frozen=True, kw_only=True):
    """Where memory is asked for, each frame as `path:line function`: the innermost frame of your own code (`user`), below
    it that of a package, and the innermost Python frame (`call`). Empty where there is none, or where it is the one before.
    """

    user: str = ""
    package: str = ""
    call: str = ""
    phase: Phase = ""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that one call site holds at a moment."""

    site: CallSite
    size_bytes: int


class MomentReport(msgspec.Struct, frozen=True, kw_only=True):
    """A moment of the trace: the number of its event, seconds after the first one, what was alive, by call site.

    `allocated_bytes` are those that were asked for, without rounding. `awaiting_bytes` were given back but another stream may
    still use them. `held` names the largest call sites; `rest_bytes` is the sum of all others. `part` is where in the snapshot.
    """

    event: int
    after_s: float | None
    allocated_bytes: int
    reserved_bytes: int | None
    awaiting_bytes: int = 0
    held: tuple[Held, ...] = ()
    rest_bytes: int = 0
    part: str = ""


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """The segments of one kind and stream. `private` pools belong to CUDA graphs or to `torch.cuda.MemPool`: nobody else can
    use what is free in them. Free is what is reserved and not in use; `largest_free_bytes` its largest piece.
    """

    kind: Literal["small", "large", "unknown"]
    stream: int
    private: bool
    pool_id: tuple[int, int]
    expandable: bool
    segments: int
    reserved_bytes: int
    allocated_bytes: int
    active_bytes: int
    free_bytes: int
    free_blocks: int
    largest_free_bytes: int


class FailedAllocation(msgspec.Struct, frozen=True, kw_only=True):
    """The last allocation that failed on the device, and why. `count` is how many failed.

    `device_free_bytes` is what the driver had left. `unallocated_bytes` was reserved and not in use, `largest_free_bytes`
    its largest piece that this request could have used; None where the snapshot was taken later and shows another state.
    `frames` is the stack, the innermost first.
    """

    request_bytes: int
    device_free_bytes: int
    reason: Reason
    why: str
    count: int
    moment: MomentReport
    site: CallSite | None = None
    frames: tuple[str, ...] = ()
    unallocated_bytes: int | None = None
    largest_free_bytes: int | None = None
    events_after: int = 0


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """A call site that keeps more and more: the least that it held early and late in the trace."""

    site: CallSite
    first_bytes: int
    last_bytes: int
    per_step_bytes: int | None = None


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """Memory over time, at most 2,000 points. `layers` are bytes a call site by point, the largest site first; the rest is
    `total` less all layers. `high_bytes` is the highest total since the point before.
    """

    events: tuple[int, ...] = ()
    after_s: tuple[float, ...] | None = None
    total_bytes: tuple[int, ...] = ()
    high_bytes: tuple[int, ...] = ()
    reserved_bytes: tuple[int, ...] = ()
    sites: tuple[CallSite, ...] = ()
    layers: tuple[tuple[int, ...], ...] = ()


class DeviceMemory(msgspec.Struct, frozen=True, kw_only=True):
    """One device. The figures without a moment are those of the snapshot itself; `allocated_bytes` are rounded blocks there,
    `requested_bytes` what was asked for, `active_bytes` with blocks that another stream may still use.

    `steps` is how often a torch optimizer ran in the trace, or else how often backward did; 0 if the stacks do not say.
    """

    device: int
    reserved_bytes: int
    allocated_bytes: int
    requested_bytes: int
    active_bytes: int
    free_bytes: int
    largest_free_bytes: int
    pools: tuple[Pool, ...] = ()
    live: tuple[Held, ...] = ()
    live_rest_bytes: int = 0
    events: int = 0
    duration_s: float | None = None
    steps: int = 0
    peak: MomentReport | None = None
    failed: FailedAllocation | None = None
    growth: tuple[Growth, ...] = ()
    curve: Curve = Curve()


class MemoryReport(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer. `history` is how much was recorded: `stacks` (a trace with stacks), `trace` (without), `blocks` (stacks
    of live blocks only), `none`. `complete` is false where the file ended, or could not be read further: `notes` say why.
    """

    schema: str = MEMORY_SCHEMA
    source: str = ""
    size_bytes: int = 0
    complete: bool = True
    history: History = "none"
    settings: dict[str, str] = {}
    devices: tuple[DeviceMemory, ...] = ()
    missing: tuple[UnknownFact, ...] = ()
    notes: tuple[str, ...] = ()
