"""How far apart two places are in time, and how sure that is.

Times are compared only inside one host, unless the offset between two hosts is known (`simultaneous.py` estimates it).
"""

from __future__ import annotations

import msgspec

from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.event import Clock, Event, Place

SAME_HOST_ERROR_S = 0.1
_DAY_S = 86400.0
_COMMON_YEAR = 2001
_ZONE_STEP_S = 900.0
_ZONE_SLACK_S = 120.0
_RAN_FOR = ("ran_for",)
_RAN_FOR_TEXT = lazy_pattern(
    r"ran for (\d{1,12}) ?ms|ran for (\d{1,12}) milliseconds|waiting (\d{1,12})ms|in (\d{1,12}) ms|after (\d{1,12})ms"
)
_SEQUENCE = ("seq",)
_OPERATION = ("op",)


class Delay(msgspec.Struct, frozen=True):
    """time(b) - time(a) and the error of that difference, both in seconds."""

    seconds: float
    error_s: float


class Clocks(msgspec.Struct, frozen=True):
    """Offsets between hosts: seconds to add to a host's times to reach the reference, and their error.

    `boots` are the same for a kernel that prints seconds since boot: what to add to reach that host's own clock. `said` are
    sentences about what was found, with its uncertainty.
    """

    offsets: dict[str, tuple[float, float]] = {}
    boots: dict[str | None, tuple[float, float]] = {}
    said: tuple[str, ...] = ()

    def delay(self, a: Place, b: Place) -> Delay | None:
        """The time from `a` to `b`, or None where the two clocks cannot be compared."""
        if a.time is None or b.time is None:
            return None
        anchored = 0.0
        if (a.time.kind == "boot") != (b.time.kind == "boot"):
            place = a if a.time.kind == "boot" else b
            found = self.boots.get(place.host, self.boots.get(None))
            if found is None:
                return None
            anchored = found[1]
            a, b = (_off_boot(one, found[0]) if one is place else one for one in (a, b))
        if a.time is None or b.time is None:
            return None
        difference = _difference_s(a.time, b.time)
        if difference is None:
            return None
        error = max(a.time.resolution_s, b.time.resolution_s) + anchored
        if a.host == b.host or a.host is None or b.host is None:
            same_rank = a.rank is not None and a.rank == b.rank
            return Delay(difference, error if same_rank else error + SAME_HOST_ERROR_S)
        if "boot" in (a.time.kind, b.time.kind) or a.host not in self.offsets or b.host not in self.offsets:
            return None
        (shift_a, error_a), (shift_b, error_b) = self.offsets[a.host], self.offsets[b.host]
        return Delay(difference + shift_b - shift_a, error + error_a + error_b)


def _off_boot(place: Place, offset: float) -> Place:
    if place.time is None:
        return place
    return msgspec.structs.replace(
        place, time=msgspec.structs.replace(place.time, seconds=place.time.seconds + offset, kind="wall")
    )


def ran_for_s(event: Event) -> float | None:
    """How long a time-out had been waiting when it was printed."""
    for key in _RAN_FOR:
        value = event.captures.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    found = _RAN_FOR_TEXT.search(event.text)
    return int(next(filter(None, found.groups()))) / 1000 if found else None


def started(event: Event) -> Place:
    """The place of a time-out with the time at which the wait began: log time minus ran-for."""
    waited = ran_for_s(event)
    clock = event.place.time
    if waited is None or clock is None:
        return event.place
    return msgspec.structs.replace(event.place, time=msgspec.structs.replace(clock, seconds=clock.seconds - waited))


def collective_of(event: Event) -> tuple[object, object] | None:
    """Sequence number and operation of the collective that a line is about; None without a number."""
    sequence = next((event.captures[key] for key in _SEQUENCE if key in event.captures), None)
    operation = next((event.captures[key] for key in _OPERATION if key in event.captures), None)
    return None if sequence is None else (sequence, operation)


def _difference_s(a: Clock, b: Clock) -> float | None:
    if "boot" in (a.kind, b.kind):
        return b.seconds - a.seconds if a.kind == b.kind else None
    if "daytime" in (a.kind, b.kind):
        return (b.seconds - a.seconds + _DAY_S / 2) % _DAY_S - _DAY_S / 2
    if a.kind == b.kind == "yearless":
        return _within_year(b.seconds - a.seconds)
    if a.kind == b.kind:
        difference = b.seconds - a.seconds
        return difference if _is_epoch(a) == _is_epoch(b) else _without_zone(difference)
    return _without_zone(_within_year(in_year_s(b) - in_year_s(a)))


def _within_year(difference: float) -> float:
    """The new year lies between two clocks without a year that are more than half a year apart."""
    year_s = 365 * _DAY_S
    return (difference + year_s / 2) % year_s - year_s / 2


def _is_epoch(clock: Clock) -> bool:
    return clock.text.replace(".", "").isdigit()


def _without_zone(difference: float) -> float | None:
    """Epoch seconds against local time: whole quarters of an hour are the zone, as long as what remains is small."""
    if abs(difference) <= _ZONE_STEP_S - _ZONE_SLACK_S:
        return difference
    rest = (difference + _ZONE_STEP_S / 2) % _ZONE_STEP_S - _ZONE_STEP_S / 2
    return rest if abs(rest) <= _ZONE_SLACK_S and abs(difference) <= _DAY_S else None


def in_year_s(clock: Clock) -> float:
    """Seconds from the beginning of the year, as clocks without a year count them."""
    if clock.kind == "yearless":
        return clock.seconds
    from datetime import UTC, date, datetime

    moment = datetime.fromtimestamp(clock.seconds, UTC)
    # Clocks without a year count their days as in a common year.
    days = date(_COMMON_YEAR, moment.month, 1).toordinal() - date(_COMMON_YEAR, 1, 1).toordinal() + moment.day - 1
    return days * _DAY_S + clock.seconds % _DAY_S
