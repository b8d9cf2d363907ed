"""Who did what when, as lanes: ranks that went the same way share one, so that a thousand fit a screen."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

import msgspec

from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.diagnosis import Certainty, Diagnosis, Initiating, TimelineEntry
from firstfault.render.words import rank_list

Kind = Literal["progress", "initiating", "collateral", "stopped", "silent", "kernel", "scheduler"]

MAX_SINGLE_LANES = 8
MAX_LANES = 12
_FIRST = {"established": "failed first", "likely": "probably failed first", "undetermined": "first failure seen"}
LEGEND: dict[Kind, str] = {
    "initiating": "first failure seen",
    "collateral": "followed",
    "stopped": "ended",
    "silent": "nothing more from here",
    "kernel": "kernel",
    "scheduler": "scheduler",
    "progress": "progressing",
}
_LABEL_CELLS = 14
_CLOCK = lazy_pattern(r"(?:(\d{4})-(\d\d)-(\d\d)[T ])?(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?")
_EXCEPTION = lazy_pattern(r"(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit|Warning|Failure))(?=:|\s|$)")
_SIGNAL = lazy_pattern(r"\b(SIG[A-Z]{2,6})\b")
_EXIT_CODE = lazy_pattern(r"\bexit ?code[\s:=(]{1,4}(-?\d{1,3})\b", re.IGNORECASE)
_STEP = lazy_pattern(r"\b((?:global )?(?:step|iteration|epoch)\W{1,3}\d+(?:/\d+)?)", re.IGNORECASE)
_BAR = lazy_pattern(r"(\d+/\d+) \[")
_OUTSIDE = frozenset({"kernel", "scheduler"})
_DIGITS = lazy_pattern(r"\d+")
_PREFIX = lazy_pattern(r"\A(?:\[[^\]]{1,80}\]:?\s*)+")
_BEFORE = 0.72
_UNSEEN = 0.4
_PHASE: dict[Kind, float] = {
    "progress": 0.62,
    "kernel": 0.66,
    "scheduler": 0.66,
    "initiating": 0.68,
    "silent": 0.68,
    "collateral": 0.82,
    "stopped": 1.0,
}


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """One sign on a lane; `at` runs from 0 (begin) to 1 (end)."""

    kind: Kind
    at: float
    text: str
    time: str
    evidence: str | None
    what: str = ""


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """One rank, or several that went the same way; no ranks for the kernel, the scheduler and a run without rank."""

    label: str
    marks: tuple[Mark, ...]
    ranks: tuple[int, ...] = ()
    host: str = ""
    first: bool = False

    @property
    def ended_by(self) -> str:
        """How the lane ends, in a word or two."""
        for kinds in (("initiating",), ("stopped",), ("collateral", "silent", "kernel", "scheduler")):
            found = [mark for mark in self.marks if mark.kind in kinds and (mark.text or mark.what)]
            if found:
                last = found[0 if found[0].kind in _OUTSIDE else -1]
                return short(last.text, last.what)
        return ""

    @property
    def last_progress(self) -> str:
        """The last sign of progress: its step if it names one."""
        steps = [mark.text for mark in self.marks if mark.kind == "progress"]
        if not steps:
            return ""
        found = _STEP.search(steps[-1]) or _BAR.search(steps[-1])
        return found[1] if found else steps[-1]


class Tick(msgspec.Struct, frozen=True):
    """A label of the time axis."""

    at: float
    text: str


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """Lanes from top to bottom, the labels of the axis (empty if the times are unknown), and how many ranks are not shown."""

    lanes: tuple[Lane, ...]
    ticks: tuple[Tick, ...]
    timed: bool
    hidden: int = 0
    certainty: Certainty = "undetermined"

    def says(self, kind: Kind) -> str:
        """What a mark of that kind means in this answer."""
        return _FIRST[self.certainty] if kind == "initiating" else LEGEND[kind]

    @property
    def tells(self) -> bool:
        """False if a drawing would say nothing: no lane, or a single one without times."""
        return len(self.lanes) > 1 or self.hidden > 0 or (self.timed and bool(self.lanes))

    @property
    def kinds(self) -> list[Kind]:
        """The kinds of marks in use, in the order of the legend."""
        used = {mark.kind for lane in self.lanes for mark in lane.marks}
        return [kind for kind in LEGEND if kind in used]


def build(diagnosis: Diagnosis) -> Timeline:
    """The timeline of an answer; no lanes if the answer has none."""
    entries = diagnosis.timeline
    scale = _Scale(entries)
    certainty = diagnosis.initiating.certainty if diagnosis.initiating else "undetermined"
    named = _named(diagnosis.initiating)
    marked = [-1 if entry.rank is None else entry.rank for entry in entries if entry.kind == "initiating"]
    pointed = not named.isdisjoint(marked)
    if marked and not pointed:
        # The answer suspects somebody else than the one whose line was seen first.
        certainty = "undetermined"
    hosts = {entry.host for entry in entries if entry.rank is None and entry.kind not in _OUTSIDE and entry.host}
    by_lane: dict[tuple[int, str], list[TimelineEntry]] = {}
    for entry in entries:
        by_lane.setdefault(_lane_key(entry, hosts), []).append(entry)
    lanes = [_lane(key, by_lane[key], scale, named, pointed) for key in sorted(by_lane)]
    singles = [lane for lane in lanes if not lane.ranks]
    ranks = [lane for lane in lanes if lane.ranks]
    if len(ranks) > MAX_SINGLE_LANES:
        ranks = _fold(ranks, texts=True)
    if len(ranks) > MAX_LANES:
        ranks = _fold(ranks, texts=False)
    kept = _first_lanes(singles, MAX_LANES // 2) + _first_lanes(ranks, MAX_LANES)
    hidden = sum(len(lane.ranks) for lane in ranks) - sum(len(lane.ranks) for lane in kept)
    return Timeline(lanes=tuple(kept), ticks=scale.ticks, timed=scale.timed, hidden=hidden, certainty=certainty)


def short(text: str, what: str = "") -> str:
    """The exception with which the text begins, the signal or exit code it names, else `what`, else the text itself."""
    text = _PREFIX.sub("", text, count=1)
    found = _EXCEPTION.match(text) or _SIGNAL.search(text)
    if found:
        return found[1]
    code = _EXIT_CODE.search(text)
    return f"exit code {code[1]}" if code else what or text


class _Scale:
    """Puts a mark between 0 and 1: by its time, the failure in the same column for all; by order where times are unknown."""

    def __init__(self, entries: Sequence[TimelineEntry]) -> None:
        self.dated = all(_date(entry.time) for entry in entries if _seconds(entry.time, dated=False) is not None)
        times = [(self._time(entry), entry) for entry in entries]
        known = sorted((time, entry.time or "") for time, entry in times if time is not None)
        fault = min((time for time, entry in times if time is not None and entry.kind == "initiating"), default=None)
        faulty = any(entry.kind == "initiating" for entry in entries)
        self.timed = len(known) > 1 and known[0][0] < known[-1][0] and (fault is not None or not faulty)
        self.begin, self.end = (known[0][0], known[-1][0]) if known else (0.0, 0.0)
        self.fault = self.end if fault is None else fault
        steps = Counter(entry.rank for entry in entries if entry.kind == "progress")
        # One sign of progress a rank is its last one: it ran before the first time that is known.
        self.left = _UNSEEN if steps and max(steps.values()) == 1 and self.begin < self.fault else 0.0
        self.ticks = self._ticks(known) if self.timed else ()

    def at(self, entry: TimelineEntry) -> float:
        time = self._time(entry)
        if not self.timed or time is None:
            return _PHASE[entry.kind]
        return self._place(time)

    def _place(self, time: float) -> float:
        middle = 0.0 if self.fault == self.begin else 1.0 if self.fault == self.end else _BEFORE
        if time <= self.fault:
            return self.left + (middle - self.left) * (time - self.begin) / max(self.fault - self.begin, 1e-9)
        return middle + (1 - middle) * (time - self.fault) / max(self.end - self.fault, 1e-9)

    def _time(self, entry: TimelineEntry) -> float | None:
        return _seconds(entry.time, dated=self.dated)

    def _ticks(self, known: Sequence[tuple[float, str]]) -> tuple[Tick, ...]:
        labels = {time: _daytime(text) for time, text in reversed(known)}
        after = self.end - self.fault
        ticks = [Tick(self._place(time), labels[time]) for time in sorted({self.begin, self.fault}) if time in labels]
        if len(ticks) > 1 and ticks[0].text == ticks[1].text:
            # Within one second the second label says how much later it was.
            ticks[1] = Tick(ticks[1].at, f"+{self.fault - self.begin:.1f} s")
            after = 0
        if after >= 0.05:
            ticks.append(Tick(1.0, f"+{after:.1f} s" if after < 600 else f"+{after / 60:.0f} min"))
        return tuple(ticks)


def _lane_key(entry: TimelineEntry, hosts: Collection[str]) -> tuple[int, str]:
    """The rank, or -1 for what no rank said (apart by host if there are several), or -2 for the kernel and the scheduler."""
    if entry.rank is not None:
        return entry.rank, ""
    if entry.kind in _OUTSIDE:
        return -2, f"{entry.kind} {entry.host or ''}".strip()
    return -1, f"run {entry.host}" if entry.host and len(hosts) > 1 else "run"


def _named(initiating: Initiating | None) -> frozenset[int]:
    """The lanes at which the answer points: its ranks; a run without ranks is lane -1."""
    if initiating is None or initiating.certainty == "undetermined":
        return frozenset()
    ranks = {*initiating.ranks, *(() if initiating.rank is None else (initiating.rank,))}
    return frozenset(ranks or {-1})


def _lane(key: tuple[int, str], entries: Iterable[TimelineEntry], scale: _Scale, named: frozenset[int], pointed: bool) -> Lane:
    entries = list(entries)
    marks = sorted(
        (
            Mark(
                kind=entry.kind,
                at=scale.at(entry),
                text=entry.text,
                time=entry.time or "",
                evidence=entry.evidence,
                what=entry.what,
            )
            for entry in entries
        ),
        key=lambda mark: mark.at,
    )
    return Lane(
        label=key[1] or f"rank {key[0]}",
        marks=tuple(marks),
        ranks=(key[0],) if key[0] >= 0 else (),
        host=next((entry.host for entry in entries if entry.host), ""),
        first=key[0] in named and (not pointed or any(mark.kind == "initiating" for mark in marks)),
    )


def _fold(lanes: Sequence[Lane], *, texts: bool) -> list[Lane]:
    """Lanes with the same marks together; with `texts` they must also say the same, numbers aside."""
    groups: dict[object, list[Lane]] = {}
    for lane in lanes:
        groups.setdefault(tuple(_shape(mark, texts) for mark in lane.marks), []).append(lane)
    return [_joined(group) for group in groups.values()]


def _shape(mark: Mark, texts: bool) -> tuple[str, str]:
    return mark.kind, _DIGITS.sub("#", short(mark.text, mark.what)) if texts else ""


def _joined(group: Sequence[Lane]) -> Lane:
    if len(group) == 1:
        return group[0]
    ranks = tuple(sorted(rank for lane in group for rank in lane.ranks))
    earliest = min(group, key=lambda lane: [mark.at for mark in lane.marks if mark.kind != "progress"])
    hosts = {lane.host for lane in group if lane.host}
    return Lane(
        label=_label(ranks),
        marks=earliest.marks,
        ranks=ranks,
        host=next(iter(hosts)) if len(hosts) == 1 else f"{len(hosts)} hosts" if hosts else "",
        first=group[0].first,
    )


def _label(ranks: tuple[int, ...]) -> str:
    text = f"ranks {rank_list(ranks)}"
    return text if len(text) <= _LABEL_CELLS else f"{len(ranks):,} ranks"


def _first_lanes(lanes: Sequence[Lane], most: int) -> list[Lane]:
    """At most `most` lanes in their order; a lane with a first failure is never left out for others."""
    failed = [any(mark.kind == "initiating" for mark in lane.marks) for lane in lanes]
    chosen = sorted(range(len(lanes)), key=lambda index: (not failed[index], index))[:most]
    return [lanes[index] for index in sorted(chosen)]


def _date(time: str | None) -> bool:
    found = _CLOCK.search(time or "")
    return bool(found and found[1])


def _seconds(time: str | None, *, dated: bool) -> float | None:
    """Seconds of a printed time: since year one if all times carry a date, otherwise since midnight."""
    found = _CLOCK.search(time or "")
    if not found:
        return None
    hour, minute, second = int(found[4]), int(found[5]), int(found[6])
    days = 0
    if dated and found[1]:
        from datetime import date

        try:
            days = date(int(found[1]), int(found[2]), int(found[3])).toordinal()
        except ValueError:
            return None
    return days * 86400.0 + hour * 3600 + minute * 60 + second + float(f"0.{found[7] or 0}")


def _daytime(time: str) -> str:
    found = _CLOCK.search(time)
    return ":".join(found.group(4, 5, 6)) if found else ""
