"""The report on a memory snapshot that was read: state, peak, the failed allocation, growth, and the curve over time."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nlargest

from msgspec.structs import replace

from firstfault.ingest.memory_snapshot_frames import BEFORE, Stacks
from firstfault.ingest.memory_snapshot_growth import growth_of
from firstfault.ingest.memory_snapshot_reading import SnapshotReading
from firstfault.ingest.memory_snapshot_replay import Moment, Replay
from firstfault.ingest.memory_snapshot_state import DeviceState
from firstfault.memory.snapshot_curve import curve_of
from firstfault.memory.snapshot_why import failed_of
from firstfault.model.memory_report import DeviceMemory, Held, History, MemoryReport, MomentReport, Pool
from firstfault.model.plan import UnknownFact
from firstfault.units import format_size

MAX_HELD_SITES = 40
MAX_SETTINGS = 32

RECORD = "torch.cuda.memory._record_memory_history(max_entries=1_000_000)"
DUMP = 'torch.cuda.memory._dump_snapshot("snapshot.pickle")'
_NO_HISTORY = UnknownFact(
    fact="memory.history",
    why="No history was recorded: without it nobody can say which code holds the memory, nor what was alive at the peak.",
    command=f"before the first tensor: {RECORD}; at the end: {DUMP}",
)
_NO_STACKS = UnknownFact(
    fact="memory.stacks",
    why="The trace has no stacks (context=None, or stacks were off): sizes over time are known, the code that asked is not.",
    command=f"before the first tensor: {RECORD}; at the end: {DUMP}",
)
_NO_TRACE = UnknownFact(
    fact="memory.trace",
    why="The live blocks have stacks, but no trace of events was kept: what was alive at an earlier peak is not known.",
    command=f'before the first tensor, with enabled="all": {RECORD}; at the end: {DUMP}',
)


def report_of(reading: SnapshotReading, source: str) -> MemoryReport:
    """Everything that a person asks about the snapshot `source`."""
    history = _history(reading)
    missing = {"none": (_NO_HISTORY,), "trace": (_NO_STACKS,), "blocks": (_NO_TRACE,)}.get(history, ())
    return MemoryReport(
        source=source,
        size_bytes=reading.size_bytes,
        complete=not reading.stopped,
        history=history,
        settings={str(key)[:80]: str(value)[:200] for key, value in list(reading.settings.items())[:MAX_SETTINGS]},
        devices=tuple(_device(reading, device) for device in reading.devices),
        missing=missing,
        notes=tuple(_notes(reading)),
    )


def _history(reading: SnapshotReading) -> History:
    if any(replay.events or replay.ooms for replay in reading.replays.values()):
        return "stacks" if any(replay.has_frames for replay in reading.replays.values()) else "trace"
    return "blocks" if any(state.has_frames for state in reading.states.values()) else "none"


def _notes(reading: SnapshotReading) -> list[str]:
    notes = []
    if reading.stopped:
        notes.append(
            f"the file {reading.stopped}; {reading.segments:,} segments and {reading.entries:,} entries before that were used"
        )
    if reading.stacks.overflow:
        notes.append("more stacks or call sites than can be kept apart: some are put together")
    for device in reading.devices:
        replay, base = reading.replays.get(device), 0
        if replay is not None:
            base = sum(replay.base.values())
            if replay.odd:
                notes.append(f"device {device}: {replay.odd:,} entries of the trace have no address or size")
        if base > 0 and replay is not None and replay.events:
            notes.append(
                f"device {device}: {format_size(base)} were allocated before the first event of the trace; stacks are known "
                f"for what of it is still alive ({format_size(base - replay.base.get(BEFORE, 0))})"
            )
        state = reading.states.get(device)
        if (replay is not None and replay.crowded) or (state is not None and state.crowded):
            notes.append(f"device {device}: more blocks were alive at once than can be followed: the figures are too low")
        if disagree := reading.disagreeing.get(device):
            notes.append(f"device {device}: {disagree:,} blocks differ between the trace and the state behind it")
    return notes


def held_of(sites: Mapping[int, int], stacks: Stacks) -> tuple[tuple[Held, ...], int]:
    """The largest call sites, and the bytes of all others."""
    largest = nlargest(MAX_HELD_SITES, ((size, site) for site, size in sites.items() if size > 0))
    held = tuple(Held(site=stacks.sites[site], size_bytes=size) for size, site in largest)
    return held, sum(size for size in sites.values() if size > 0) - sum(one.size_bytes for one in held)


def moment_of(moment: Moment, replay: Replay, reserved_before: int | None, stacks: Stacks, device: int) -> MomentReport:
    """A moment of the trace with what was there before the trace."""
    sites = dict(replay.base)
    for site, size in moment.sites.items():
        sites[site] = sites.get(site, 0) + size
    held, rest = held_of(sites, stacks)
    return MomentReport(
        event=moment.event,
        after_s=(moment.time_us - replay.first_us) / 1e6 if moment.time_us and replay.first_us else None,
        allocated_bytes=moment.total + sum(replay.base.values()),
        reserved_bytes=None if reserved_before is None else moment.reserved + reserved_before,
        awaiting_bytes=moment.awaiting,
        held=held,
        rest_bytes=rest,
        part=f"device_traces[{device}][{moment.event - 1}]",
    )


def _pools(state: DeviceState) -> tuple[Pool, ...]:
    pools = [
        Pool(
            kind=kind,
            stream=stream,
            private=pool_id != (0, 0),
            pool_id=pool_id,
            expandable=count.expandable,
            segments=count.segments,
            reserved_bytes=count.reserved_bytes,
            allocated_bytes=count.allocated_bytes,
            active_bytes=count.active_bytes,
            free_bytes=max(0, count.reserved_bytes - count.active_bytes),
            free_blocks=count.free_blocks,
            largest_free_bytes=count.largest_free_bytes,
        )
        for (kind, stream, pool_id), count in state.pools.items()
    ]
    return tuple(sorted(pools, key=lambda pool: -pool.reserved_bytes))


def _device(reading: SnapshotReading, device: int) -> DeviceMemory:
    state = reading.states.get(device) or DeviceState()
    replay = reading.replays.get(device)
    stacks = reading.stacks
    pools = _pools(state)
    live: dict[int, int] = {}
    for size, site in state.live.values():
        live[site] = live.get(site, 0) + size
    held, rest = held_of(live, stacks)
    memory = DeviceMemory(
        device=device,
        reserved_bytes=state.reserved_bytes,
        allocated_bytes=sum(pool.allocated_bytes for pool in pools),
        requested_bytes=sum(count.requested_bytes for count in state.pools.values()),
        active_bytes=sum(pool.active_bytes for pool in pools),
        free_bytes=sum(pool.free_bytes for pool in pools),
        largest_free_bytes=max((pool.largest_free_bytes for pool in pools), default=0),
        pools=pools,
        live=held,
        live_rest_bytes=rest,
    )
    return memory if replay is None or not (replay.events or replay.ooms) else _with_trace(memory, replay, reading)


def _with_trace(memory: DeviceMemory, replay: Replay, reading: SnapshotReading) -> DeviceMemory:
    stacks = reading.stacks
    # What was reserved before a trace that was cut cannot be told from what came after.
    before = memory.reserved_bytes - replay.reserved if memory.pools and not reading.stopped else None
    growth = growth_of(replay.windows.lows, replay.steps, stacks)
    failed = None
    if replay.failed is not None:
        moment = moment_of(replay.failed.moment, replay, before, stacks, memory.device)
        failed = failed_of(memory, replay.failed, moment, growth, replay.ooms, replay.events_since_failed)
        if replay.failed.stack is not None:
            site = stacks.sites[replay.failed.stack.site]
            failed = replace(failed, site=site, frames=tuple(str(frame) for frame in replay.failed.stack.frames))
    return replace(
        memory,
        events=replay.events,
        duration_s=(replay.last_us - replay.first_us) / 1e6 if replay.first_us else None,
        steps=replay.steps,
        peak=moment_of(replay.peak, replay, before, stacks, memory.device),
        failed=failed,
        growth=growth,
        curve=curve_of(replay, before, stacks),
    )
