"""What must have happened at one moment on several hosts, and what that says of their clocks.

The start of a collective that several hosts saw time out (log time minus how long it ran) is the best witness; the moment at
which NCCL made a communicator and a training step that all hosts print are witnesses too, since ranks wait for each other
there. Where one host alone shows a failure of its own, what the others say of lost connections follows soon behind its first
process that ended. Hosts that are minutes apart are normal. A kernel that prints seconds since boot is tied to its host's
clock by a process whose end it and the launcher both report.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from firstfault.engine.clocks import Clocks, collective_of, ran_for_s, started
from firstfault.engine.series import training_series
from firstfault.model.event import Event, Place, ProcessExit, Progress
from firstfault.units import format_duration

COLLECTIVE_ERROR_S = 1.0
STEP_ERROR_S = 5.0
PEER_ERROR_S = 60.0
"""A process sees that its peer is gone when it next waits for it: at most about a step later, which may take a minute."""
ZONE_ERROR_S = 120.0
BOOT_ERROR_S = 10.0
_HALF_HOUR_S = 1800.0
_COMMUNICATOR = "nccl.communicator"
_LOST = frozenset({"peer_lost"})
_OWN = frozenset({"initiating", "either"})
_KILLED = {"host_oom_kill": (-9, 137), "kernel_segfault_line": (-11, 139), "native_signal": (-11, 139)}

Moments = dict[tuple[object, ...], dict[str, list[float]]]
"""By what happened: the times that each host prints for it, in seconds."""


def estimate_clocks(
    events: Sequence[Event], progress: Iterable[tuple[str | None, Progress]] = (), exits: Iterable[ProcessExit] = ()
) -> Clocks:
    """How the hosts' clocks stand to each other; `progress` comes with the host that printed it."""
    progress, exits = list(progress), list(exits)
    hosts = {place.host for place in _timed_places(events, progress, exits)} - {None}
    said: list[str] = []
    offsets: dict[str, tuple[float, float]] = {}
    if len(hosts) > 1:
        ways = (
            (_collectives(events), COLLECTIVE_ERROR_S, "collectives that both saw start"),
            (_communicators(events), STEP_ERROR_S, "a communicator that both made"),
            (_steps(progress), STEP_ERROR_S, "a training step that both print"),
            (_peers(events, exits), PEER_ERROR_S, "the end of a process and the connections that its peers lost"),
            (_both_ends(events), ZONE_ERROR_S, "the first and the last line of each"),
        )
        for moments, error_s, what in ways:
            found = _joined(offsets, _offsets(moments, error_s))
            said += _said({host: one for host, one in found.items() if host not in offsets or not offsets}, found, what)
            offsets = found
            if hosts <= offsets.keys():
                break
    boots = _boots(events, exits)
    if not boots and any(event.place.time is not None and event.place.time.kind == "boot" for event in events):
        said.append("the kernel's seconds since boot are tied to no clock: whether its lines came before or after is unknown")
    said += [_said_of_boot(host, found) for host, found in boots.items()]
    return Clocks(offsets, boots, tuple(said))


def _timed_places(
    events: Iterable[Event], progress: Iterable[tuple[str | None, Progress]], exits: Iterable[ProcessExit]
) -> Iterator[Place]:
    yield from (event.place for event in events if event.place.time is not None)
    yield from (found.place for found in exits if found.place.time is not None)
    yield from (Place(host=sample.host or host) for host, sample in progress if sample.last_time is not None)


def _joined(known: dict[str, tuple[float, float]], further: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """`known` with the hosts that a weaker witness ties to one of them."""
    if not known:
        return further
    anchor = min((host for host in further if host in known), key=lambda host: (further[host][1], host), default=None)
    if anchor is None:
        return known
    (shift, error), (at, own_error) = known[anchor], further[anchor]
    tied = {host: (one - at + shift, wide + own_error + error) for host, (one, wide) in further.items()}
    return {**tied, **known}


def _collectives(events: Iterable[Event]) -> Moments:
    moments: Moments = {}
    for event in events:
        key = collective_of(event)
        if key is not None and ran_for_s(event) is not None:
            _note(moments, key, started(event))
    return moments


def _communicators(events: Iterable[Event]) -> Moments:
    """`Init COMPLETE`: no rank comes out of it before all came in."""
    moments: Moments = {}
    for event in events:
        if event.name == _COMMUNICATOR and not event.quoted and (comm := event.captures.get("comm_id")) is not None:
            _note(moments, ("communicator", comm), event.place)
    return moments


def _steps(progress: Sequence[tuple[str | None, Progress]]) -> Moments:
    """The last step of each series, and the first one of those that count the steps of training."""
    moments: Moments = {}
    training = {id(sample) for sample in training_series(sample for _, sample in progress)}
    for host, sample in progress:
        ends = [(sample.last_step, sample.last_time)]
        if id(sample) in training and sample.first_step != sample.last_step:
            ends.append((sample.first_step, sample.first_time))
        for step, time in ends:
            if step is not None and time is not None:
                key = ("step", sample.attempt, step, sample.total_steps)
                _note(moments, key, Place(host=sample.host or host, time=time))
    return moments


def _peers(events: Iterable[Event], exits: Iterable[ProcessExit]) -> Moments:
    """The first end of a process on the one host with a failure of its own, and the first loss that each other one reports."""
    lost: dict[str, list[Place]] = {}
    failed: dict[str, list[Place]] = {}
    for event in events:
        place = event.place
        if place.host is None or event.quoted or event.fault_class is None:
            continue
        if event.fault_class in _LOST:
            lost.setdefault(place.host, []).append(place)
        elif event.role in _OWN:
            failed.setdefault(place.host, []).append(place)
    if len(failed) != 1 or not lost.keys() - failed.keys():
        return {}
    (host,) = failed
    ended = [found.place for found in exits if found.place.host == host and not found.by_launcher and found.code]
    moments: Moments = {}
    for places in ([*failed[host], *ended], *(places for other, places in lost.items() if other != host)):
        timed = [place for place in places if place.time is not None]
        for kind in {place.time.kind for place in timed if place.time is not None}:
            first = min((p for p in timed if p.time and p.time.kind == kind), key=lambda p: p.time.seconds if p.time else 0.0)
            _note(moments, ("peer",), first)
    return moments


def _both_ends(events: Iterable[Event]) -> Moments:
    """First and last times, where both differ by the same whole half hours: another time zone, and no late end."""
    spans: dict[str, dict[str, list[float]]] = {}
    for event in events:
        clock, host = event.place.time, event.place.host
        if clock is not None and host is not None and clock.kind in ("wall", "yearless"):
            spans.setdefault(clock.kind, {}).setdefault(host, []).append(clock.seconds)
    moments: Moments = {}
    for kind, by_host in spans.items():
        if len(by_host) < 2:
            continue
        reference = sorted(by_host, key=lambda host: (-len(by_host[host]), host))[0]
        first, last = min(by_host[reference]), max(by_host[reference])
        moved = {host: (min(times) - first, max(times) - last) for host, times in by_host.items()}
        zones = {host: _half_hours(begins, ends) for host, (begins, ends) in moved.items()}
        if all(zone is not None for zone in zones.values()) and any(zones.values()):
            moments[("ends", kind)] = {host: [zone or 0.0] for host, zone in zones.items()}
    return moments


def _half_hours(begins: float, ends: float) -> float | None:
    """The whole half hours by which both differ; None if they do not."""
    zone = round(begins / _HALF_HOUR_S) * _HALF_HOUR_S
    return zone if max(abs(begins - zone), abs(ends - zone)) <= ZONE_ERROR_S else None


def _note(moments: Moments, key: tuple[object, ...], place: Place) -> None:
    if place.time is not None and place.time.kind != "boot" and place.host is not None:
        moments.setdefault((place.time.kind, *key), {}).setdefault(place.host, []).append(place.time.seconds)


def _offsets(moments: Moments, error_s: float) -> dict[str, tuple[float, float]]:
    """The median of the pairs with the reference counts; its error is their spread and `error_s`."""
    seen: dict[str, int] = {}
    for by_host in moments.values():
        for host in by_host if len(by_host) > 1 else ():
            seen[host] = seen.get(host, 0) + 1
    if len(seen) < 2:
        return {}
    # Loads fractions and decimals, which a run on one host does not need.
    from statistics import median

    reference = max(sorted(seen), key=lambda host: seen[host])
    shifts: dict[str, list[float]] = {}
    for by_host in moments.values():
        if reference not in by_host or len(by_host) < 2:
            continue
        base = median(by_host[reference])
        for host, times in by_host.items():
            shifts.setdefault(host, []).extend(base - time for time in times)
    return {host: (median(found), max(found) - min(found) + error_s) for host, found in shifts.items()}


def _said(new: Mapping[str, tuple[float, float]], offsets: Mapping[str, tuple[float, float]], what: str) -> Iterator[str]:
    """Sentences about the hosts (`new`, of all) whose clock differs by more than the error."""
    reference = next((host for host, (shift, _) in offsets.items() if shift == 0), next(iter(offsets), ""))
    for host, (shift, error) in new.items():
        if host == reference or abs(shift) <= error:
            continue
        zone = round(shift / _HALF_HOUR_S) * _HALF_HOUR_S
        where = "behind" if shift > 0 else "ahead of"
        tail = ", another time zone" if zone and abs(shift - zone) <= ZONE_ERROR_S else ""
        yield (
            f"the clock of {host} is {format_duration(abs(shift))} {where} that of {reference}"
            f" (± {format_duration(error)}, from {what}){tail}"
        )


def _boots(events: Iterable[Event], exits: Iterable[ProcessExit]) -> dict[str | None, tuple[float, float]]:
    """Seconds to add to a kernel's seconds since boot, from processes whose end the kernel and a launcher both report."""
    ends = {
        found.place.pid: found
        for found in exits
        if found.place.pid is not None and not found.by_launcher and found.place.time and found.place.time.kind == "wall"
    }
    found_on: dict[str | None, list[float]] = {}
    for event in events:
        clock, pid = event.place.time, event.captures.get("pid") or event.place.pid
        codes = _KILLED.get(event.fault_class or "")
        end = ends.get(pid) if isinstance(pid, int) else None
        if clock is None or clock.kind != "boot" or codes is None or end is None or end.code not in codes:
            continue
        if end.place.time is not None:
            found_on.setdefault(event.place.host, []).append(end.place.time.seconds - clock.seconds)
    return {host: (min(shifts), max(shifts) - min(shifts) + BOOT_ERROR_S) for host, shifts in found_on.items()}


def _said_of_boot(host: str | None, found: tuple[float, float]) -> str:
    of = f" of {host}" if host else ""
    return (
        f"the kernel's seconds since boot{of} are tied to the clock by a process whose end the launcher saw too"
        f" (± {format_duration(found[1])})"
    )
