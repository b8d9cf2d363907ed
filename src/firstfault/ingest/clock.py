"""The points in time that logs print, as clocks that say how far they can be trusted."""

from __future__ import annotations

import re
from functools import lru_cache

from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.event import Clock

_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: number for number, name in enumerate(_NAMES, start=1)}
_MONTH = "(?P<mon>" + "|".join(_MONTHS) + ")"
_HMS = r"(?P<h>[0-2]\d):(?P<mi>[0-5]\d):(?P<s>[0-6]\d)(?:[.,](?P<f>\d{1,9}))?"
_DAYS_BEFORE = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
_DAY_S = 86_400

# Years before 1990 and after 2099 are numbers of something else.
_WALL = lazy_pattern(
    r"(?P<y>19[9]\d|20\d\d)[-/](?P<mo>[01]?\d)[-/](?P<d>[0-3]?\d)(?:[T_ ]|  )" + _HMS + r"(?P<z>Z\b| ?[+-]\d\d:?\d\d\b| UTC\b)?"
)
_CTIME = lazy_pattern(
    r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) )" + _MONTH + r" +(?P<d>\d{1,2}) " + _HMS + r"(?: [A-Z]{3,4})? (?P<y>20\d\d)\b",
    needs=("Mon ", "Tue ", "Wed ", "Thu ", "Fri ", "Sat ", "Sun "),
)
_SYSLOG = lazy_pattern(_MONTH + r" +(?P<d>\d{1,2}) " + _HMS + r"\b", needs=tuple(f"{name} " for name in _NAMES))
_MONTH_DAY = lazy_pattern(r"(?P<mo>[01]\d)[/-](?P<d>[0-3]\d)(?:/(?P<y>20\d\d))? " + _HMS + r"\b")
_GLOG = lazy_pattern(r"(?P<mo>1[0-2]|0?[1-9])(?P<d>[0-3]\d) " + _HMS + r"\b")
_DAYTIME = lazy_pattern(_HMS + r"\b")
_BOOT = lazy_pattern(r"\[ *(?P<secs>\d{1,10})\.(?P<f>\d{3,9})\]")
_DATED = {"0": (_MONTH_DAY, _DAYTIME), "1": (_WALL, _MONTH_DAY, _DAYTIME), "2": (_WALL, _DAYTIME)}
_DATED |= dict.fromkeys("JFMASONDTW", (_CTIME, _SYSLOG))
"""By the first character, the forms that can start with it."""


def read_clock(text: str, start: int = 0) -> tuple[Clock, int] | None:
    """The point in time printed at `start` of `text`, and where it ends; None if there is none.

    Understands ISO and its relatives, `Tue Jan 14 09:12:40 2025`, syslog, `MM/DD hh:mm:ss` and a bare time of day.
    """
    for pattern in _DATED.get(text[start : start + 1], ()):
        if found := pattern.match(text, start):
            clock = _clock_of(found)
            if clock is not None:
                return clock, found.end()
    return None


def read_glog_clock(text: str, start: int = 0) -> tuple[Clock, int] | None:
    """The clock of a glog or c10 header after its level letter: `1104 08:41:17.402000`, `603 17:48:01.005538748`."""
    found = _GLOG.match(text, start)
    clock = _clock_of(found) if found else None
    return (clock, found.end()) if found and clock else None


def read_boot_clock(text: str, start: int = 0) -> tuple[Clock, int] | None:
    """Seconds since boot as the kernel prints them: `[ 7010.100000]`."""
    found = _BOOT.match(text, start)
    if not found:
        return None
    fraction = found["f"]
    return Clock(float(f"{found['secs']}.{fraction}"), "boot", 10.0 ** -len(fraction), found[0]), found.end()


def parse_clock(text: str) -> Clock | None:
    """The clock that `text` is: any of the printed forms, or seconds since 1970 as `error.json` holds them."""
    text = text.strip()
    if re.fullmatch(r"\d{9,11}(?:\.\d{1,9})?", text):
        digits = len(text.partition(".")[2])
        return Clock(float(text), "wall", 10.0**-digits, text)
    found = read_clock(text)
    return found[0] if found else None


def _clock_of(found: re.Match[str]) -> Clock | None:
    parts = found.groupdict()
    fraction = parts["f"] or ""
    seconds = int(parts["h"]) * 3600 + int(parts["mi"]) * 60 + int(parts["s"])
    seconds_of_day = float(f"{seconds}.{fraction}") if fraction else float(seconds)
    resolution_s = 10.0 ** -len(fraction)
    if int(parts["h"]) > 23:
        return None
    if parts.get("d") is None:
        return Clock(seconds_of_day, "daytime", resolution_s, found[0])
    month = int(parts["mo"]) if parts.get("mo") else _MONTHS[parts["mon"]]
    day = int(parts["d"])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    if parts.get("y") is None:
        # Without a year the days are counted as in a common year.
        days = _DAYS_BEFORE[month - 1] + day - 1
        return Clock(days * _DAY_S + seconds_of_day, "yearless", resolution_s, found[0])
    midnight_s = _midnight_s(int(parts["y"]), month, day)
    if midnight_s is None:
        return None
    return Clock(midnight_s + seconds_of_day - _zone_s(parts.get("z")), "wall", resolution_s, found[0])


@lru_cache(maxsize=64)
def _midnight_s(year: int, month: int, day: int) -> int | None:
    """Seconds from 1970 to the beginning of a day; None if the month is shorter."""
    import calendar

    return calendar.timegm((year, month, day, 0, 0, 0)) if day <= calendar.monthrange(year, month)[1] else None


def _zone_s(zone: str | None) -> int:
    """The offset of a printed zone in seconds; a clock without a zone counts as UTC."""
    if not zone:
        return 0
    digits = re.sub(r"\D", "", zone)
    if len(digits) != 4:
        return 0
    offset_s = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return -offset_s if "-" in zone else offset_s
