"""A memory snapshot among the sources of a run: the allocation that failed as an event with its stack, and its figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from firstfault.ingest.memory_snapshot_frames import Stacks
from firstfault.ingest.memory_snapshot_growth import growth_of
from firstfault.ingest.memory_snapshot_reading import SnapshotReading, read_snapshot
from firstfault.ingest.memory_snapshot_replay import Failed, Replay
from firstfault.ingest.memory_snapshot_state import can_serve
from firstfault.model.bundle import Note, Source, SourceReport
from firstfault.model.event import Event, ExceptionBlock, Frame, Place, Traceback
from firstfault.model.fact import Fact
from firstfault.model.span import SourceSpan
from firstfault.units import format_size

if TYPE_CHECKING:
    from firstfault.ingest.handed import Handed
    from firstfault.ingest.memory_snapshot_state import DeviceState
    from firstfault.ingest.open import Opened
    from firstfault.model.event import CaptureValue

PRODUCES = ("oom.reserved_bytes", "oom.largest_free_bytes", "memory.step_slope_bytes")
SIGNAL = "torch.oom.cuda.2_1"
_MIN_STEPS = 8
_MIN_SLOPE_BYTES = 1 << 20


def read_memory_snapshot(handed: Handed, opened: Opened) -> SourceReport:
    """What a snapshot says of the failure. One that cannot be read, or holds no failed allocation, is a note."""
    reading = read_snapshot(lambda size: opened.read(size) or b"")
    source = Source(
        id=handed.path,
        path=handed.path,
        kind="memory_snapshot",
        place=handed.place,
        size_bytes=reading.size_bytes,
        ends=opened.whole and not reading.stopped,
    )
    notes = list(opened.notes)
    if reading.stopped:
        nothing = not reading.segments and not reading.entries
        notes.append(Note(handed.path, f"memory snapshot read in part: it {reading.stopped}", fatal=nothing))
    found = [(device, replay) for device, replay in sorted(reading.replays.items()) if replay.failed is not None]
    if not found:
        notes.append(
            Note(handed.path, f"no failed allocation in it; firstfault memory {handed.path} shows what holds the memory")
        )
        grown = [fact for _, replay in sorted(reading.replays.items()) for fact in _growth(replay, reading.stacks, handed.path)]
        return SourceReport(source=source, facts=tuple(grown[:1]), notes=tuple(notes))
    device, replay = max(found, key=lambda pair: pair[1].failed.moment.time_us if pair[1].failed else 0)
    return _report(source, device, replay, reading, notes)


def _report(source: Source, device: int, replay: Replay, reading: SnapshotReading, notes: list[Note]) -> SourceReport:
    failed = replay.failed
    assert failed is not None
    span = SourceSpan(source.path, 1, 0, f"device_traces[{device}][{failed.moment.event - 1}]")
    captures: dict[str, CaptureValue] = {
        "requested": failed.request_bytes,
        "device": device,
        "free": failed.device_free_bytes,
    }
    facts = list(_growth(replay, reading.stacks, source.path))
    state = reading.states.get(device)
    if state is not None and not reading.stopped and not replay.events_since_failed:
        # Only a snapshot that was taken at the failure shows the pools of that moment.
        captures |= _state(state)
        facts += _facts(state, failed, span)
    text = f"CUDA out of memory. Tried to allocate {format_size(failed.request_bytes)}. (from the trace of the allocator)"
    traceback = _traceback(failed, text, span, source.place, source.id)
    event = Event(
        name="torch.oom",
        signal=SIGNAL,
        role="initiating",
        fault_class="device_oom",
        span=span,
        text=text,
        place=source.place,
        captures=captures,
        source_id=source.id,
        traceback=0 if traceback else None,
    )
    rank = source.place.rank
    return SourceReport(
        source=source,
        events=(event,),
        tracebacks=(traceback,) if traceback else (),
        facts=tuple(facts),
        ranks=() if rank is None else (rank,),
        notes=tuple(notes),
    )


def _state(state: DeviceState) -> dict[str, CaptureValue]:
    """Bytes in use, unused and in private pools, as the message of torch has them."""
    pools = state.pools.items()
    allocated = sum(pool.allocated_bytes for _, pool in pools)
    private = sum(pool.allocated_bytes for (_, _, pool_id), pool in pools if pool_id != (0, 0))
    captures: dict[str, CaptureValue] = {"allocated": allocated, "unallocated": max(0, state.reserved_bytes - allocated)}
    return captures | ({"pools": private} if private else {})


def _facts(state: DeviceState, failed: Failed, span: SourceSpan) -> list[Fact]:
    usable = [
        pool.largest_free_bytes
        for key, pool in state.pools.items()
        if can_serve(failed.request_bytes, failed.stream, failed.pool_id, key)
    ]
    origin = "segments of the memory snapshot"
    return [
        Fact(name="oom.reserved_bytes", value=state.reserved_bytes, origin=origin, spans=(span,)),
        Fact(name="oom.largest_free_bytes", value=max(usable, default=0), origin=origin, spans=(span,)),
    ]


def _growth(replay: Replay, stacks: Stacks, path: str) -> Iterator[Fact]:
    """Bytes a step of the call sites that keep more and more, where enough steps were recorded."""
    grown = growth_of(replay.windows.lows, replay.steps, stacks)
    slope = sum(one.per_step_bytes or 0 for one in grown)
    if replay.steps >= _MIN_STEPS and slope > _MIN_SLOPE_BYTES:
        site = grown[0].site
        origin = f"what {site.user or site.package or site.call} holds, over {replay.steps} steps of the memory snapshot"
        span = SourceSpan(path, 1, 0, f"device_traces, {replay.events:,} events")
        yield Fact(name="memory.step_slope_bytes", value=slope, origin=origin, spans=(span,), rounded=True)


def _traceback(failed: Failed, text: str, span: SourceSpan, place: Place, source_id: str) -> Traceback | None:
    """The Python frames of the failed request, as a traceback would list them; None without any."""
    frames = () if failed.stack is None else failed.stack.frames
    python = [frame for frame in frames if frame.rank >= 0]
    if not python:
        return None
    printed = tuple(Frame(frame.path, frame.line, frame.name, "", span) for frame in reversed(python))
    block = ExceptionBlock(type="torch.OutOfMemoryError", message=text, frames=printed, span=span, end_offset=0)
    return Traceback(blocks=(block,), place=place, source_id=source_id)
