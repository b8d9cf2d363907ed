"""Which events a process's end makes: killed, crashed, told to stop by the launcher, or gone before the others."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from firstfault.engine.rank_map import RankMap, exit_place
from firstfault.model.event import CaptureValue, Event, Place, ProcessExit, Role

EXIT_EVENT = "process.exit"
_CLASS_OF_SIGNAL = {9: "exit_sigkill", 15: "exit_sigterm", 1: "exit_sighup", 2: "keyboard_interrupt"}
_NATIVE_SIGNALS = (4, 6, 7, 8, 11)
_ROLES: dict[str, Role] = {
    "native_signal": "initiating",
    "exit_sighup": "initiating",
    "exit_zero_early": "initiating",
    "exit_sigkill": "either",
    "exit_sigterm": "either",
    "keyboard_interrupt": "either",
}
_LAUNCHERS = ("elastic", "spawn", "accelerate")
_WHOLE_HOST = ("kubernetes",)
MAX_TASKS = 4096


def end_events(exits: Sequence[ProcessExit], ranks: RankMap, whole_sources: Collection[str]) -> tuple[Event, ...]:
    """One event for each process that ended or was told to end, and for each rank that must have left with code 0.

    The latter follows only from `whole_sources`: those that are complete at both sides.
    """
    events = [event for found in exits for event in _events_of(found, ranks)]
    return (*events, *_left_early([found for found in exits if found.source_id in whole_sources], events, ranks))


def signal_of(code: int) -> int | None:
    """The signal behind an exit code: negative from Python and torchelastic, 128 + n from shells and containers."""
    if code < 0:
        return -code
    return code - 128 if 128 < code <= 128 + 64 else None


def _events_of(found: ProcessExit, ranks: RankMap) -> list[Event]:
    places = [ranks.complete(exit_place(found))]
    if places[0].rank is None and places[0].pid is None and found.reporter in _WHOLE_HOST:
        # A container's end is the end of its rank where one rank runs in it.
        here = [rank for rank, host in ranks.hosts.items() if host == places[0].host]
        places = [msgspec.structs.replace(places[0], rank=here[0])] if len(here) == 1 else places
    if found.tasks and places[0].rank is None and ranks.tasks_are_ranks:
        places = [msgspec.structs.replace(places[0], rank=task) for task in found.tasks[:MAX_TASKS]]
    fault_class = _class_of(found)
    if fault_class is None:
        return []
    return [_event(found, place, fault_class) for place in places]


def _class_of(found: ProcessExit) -> str | None:
    if found.by_launcher:
        return "launcher_sigterm"
    if found.code is None or found.code == 0:
        return None
    signal = signal_of(found.code)
    if signal in _NATIVE_SIGNALS:
        return "native_signal"
    return _CLASS_OF_SIGNAL.get(signal, "process_exit") if signal else "process_exit"


def _event(found: ProcessExit, place: Place, fault_class: str) -> Event:
    captures: dict[str, CaptureValue] = {"reporter": found.reporter, "first_observed": found.first_observed}
    if found.code is not None:
        captures["code"] = found.code
    return Event(
        name=EXIT_EVENT,
        signal="",
        role=_ROLES.get(fault_class, "collateral"),
        fault_class=fault_class,
        span=found.span,
        text=found.text,
        place=place,
        captures=captures,
        source_id=found.source_id,
    )


def _left_early(exits: Sequence[ProcessExit], events: Sequence[Event], ranks: RankMap) -> list[Event]:
    """The rank that the launcher neither saw fail nor had to stop had left with code 0 while the others still trained.

    Holds only where the launcher's own account is complete: it names most ranks of the world, and its source was not cut.
    """
    told = [event for event in events if event.fault_class == "launcher_sigterm"]
    seen = [event for event in events if event.fault_class != "launcher_sigterm" and event.captures["reporter"] in _LAUNCHERS]
    world = ranks.world_size
    if world is None or not seen or any(event.place.rank is None for event in (*told, *seen)):
        return []
    accounted = {event.place.rank for event in (*told, *seen)}
    if not told or (world - len(accounted)) * 2 > world:
        return []
    # The launchers of other nodes keep accounts of their own.
    here = {event.place.host for event in (*told, *seen)} - {None}
    missing = sorted(
        rank for rank in set(range(world)) - accounted if not here or ranks.hosts.get(rank) in {None, ranks.one_host, *here}
    )
    if not missing or len(missing) * 2 > world:
        return []
    witness = next((found for found in exits if found.reporter in _LAUNCHERS and not found.by_launcher), None)
    return [] if witness is None else [_event_of_absence(witness, rank, ranks, len(missing)) for rank in missing]


def _event_of_absence(witness: ProcessExit, rank: int, ranks: RankMap, missing: int) -> Event:
    place = Place(rank=rank, host=ranks.hosts.get(rank) or ranks.one_host, attempt=witness.place.attempt)
    event = _event(witness, place, "exit_zero_early")
    captures: dict[str, CaptureValue] = {"reporter": witness.reporter, "code": 0, "inferred": True, "of": missing}
    return msgspec.structs.replace(event, captures=captures)
