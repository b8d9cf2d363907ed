"""A snapshot read once, whatever its size: the state of each device, and its trace replayed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firstfault.ingest.memory_snapshot_frames import Stacks
from firstfault.ingest.memory_snapshot_pickle import DamagedSnapshotError, SnapshotPickle
from firstfault.ingest.memory_snapshot_replay import Replay
from firstfault.ingest.memory_snapshot_state import MAX_DEVICES, MAX_LIVE_BLOCKS, DeviceState, number


class SnapshotReading:
    """Everything that a snapshot said. `stopped` is why the reading ended before the file did, else empty."""

    def __init__(self) -> None:
        self.stacks = Stacks()
        self.states: dict[int, DeviceState] = {}
        self.replays: dict[int, Replay] = {}
        self.segments = 0
        self.entries = 0
        self.size_bytes = 0
        self.stopped = ""
        self.is_snapshot = False
        self.settings: dict[str, Any] = {}
        self.disagreeing: dict[int, int] = {}

    @property
    def devices(self) -> list[int]:
        """Devices with segments or entries, in order."""
        return sorted(self.states.keys() | {device for device, replay in self.replays.items() if replay.events or replay.ooms})

    def segment(self, segment: dict[str, Any]) -> None:
        """See `Consumer`."""
        device = number(segment.get("device"))
        if device not in self.states and len(self.states) >= MAX_DEVICES:
            return
        state = self.states.get(device)
        if state is None:
            state = self.states[device] = DeviceState(MAX_LIVE_BLOCKS // (1 + len(self.states)))
        state.add(segment)
        self.segments += 1

    def trace(self, device: int) -> None:
        """See `Consumer`."""
        if device < MAX_DEVICES:
            self.replays[device] = Replay(self.stacks, MAX_LIVE_BLOCKS // (1 + len(self.replays)))

    def entry(self, device: int, entry: dict[str, Any]) -> None:
        """See `Consumer`."""
        replay = self.replays.get(device)
        if replay is not None:
            replay.entry(entry)
            self.entries += 1


def read_snapshot(read: Callable[[int], bytes]) -> SnapshotReading:
    """The snapshot whose bytes `read(size)` gives, empty at the end. Never raises for what stands in it."""
    reading = SnapshotReading()
    pickle = SnapshotPickle(read, reading, reading.stacks)
    try:
        pickle.run()
    except DamagedSnapshotError as error:
        reading.stopped = str(error)
    reading.size_bytes = pickle.position
    reading.is_snapshot = pickle.is_snapshot
    settings = pickle.settings.get("allocator_settings")
    reading.settings = settings if isinstance(settings, dict) else {}
    for device, replay in reading.replays.items():
        state = reading.states.get(device)
        # Blocks that the rest of a cut trace would have brought are not older than the trace.
        whole = state is not None and not reading.stopped
        disagree = replay.settle(state.live if state is not None and whole else {})
        reading.disagreeing[device] = disagree if whole else 0
    return reading
