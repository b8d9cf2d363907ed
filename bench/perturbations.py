"""Damage that real logs come with, done to the text of labelled cases: wrong clocks, lost ends, lost files, lost order.

Every perturbation takes the files of a case and gives changed ones, or None where there is nothing to change. None of them
touches what happened, so the label of the case stays right; some of them take away what shows it.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from firstfault.ingest.filename import places_of
from firstfault.ingest.label import find_label
from firstfault.ingest.prefix import parse_prefix
from firstfault.model.event import Clock, Place

SHIFT_S = 90
CUT_LINES = 12
WINDOW_S = 1.0
_DAY_S = 86_400

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_TIME_OF_DAY = re.compile(r"(?<![\d:])([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?![\d:])")
_DATED = re.compile(
    r"(?:\d{4}[-/]\d\d[-/]\d\d[T_ ]|\d\d/\d\d(?:/\d{4})? |\b[IWEF]\d{4} |\b[A-Z][a-z]{2} [ \d]\d )"
    r"(?=(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?![\d:]))"
)
_EPOCH = re.compile(r'("timestamp"\s*:\s*"?)(\d{9,11})(?=[".,\s}])')
_RANK_PREFIX = re.compile(
    r"^(?:\[[Rr]ank ?\d+\]:? ?|\[[A-Za-z_][A-Za-z_-]*\d+\]:|\(RANK \d+\) ?|\[\d+,\d+\](?:\[[\w.:-]+\])?<std\w+>: ?"
    r"|[Rr]ank(?: |=)\d+(?::| -| ?\|) ?)+"
)
_TASK_PREFIX = re.compile(r"^ *\d{1,6}: ?")


@dataclass(frozen=True)
class CaseFiles:
    """The files of a case by path; `logs` are those that hold what a run printed."""

    texts: Mapping[str, str]
    logs: frozenset[str]

    @property
    def of_ranks(self) -> dict[str, Place]:
        """Where each file that one process wrote came from (logs and error files)."""
        paths = list(self.texts)
        return {path: p for path, p in zip(paths, places_of(paths), strict=True) if _process_of(p) is not None}

    @property
    def consoles(self) -> frozenset[str]:
        """The logs that no single process wrote."""
        return self.logs - set(self.of_ranks)

    def only(self, paths: Iterable[str]) -> CaseFiles:
        """Without all other files."""
        kept = set(paths)
        return CaseFiles({path: text for path, text in self.texts.items() if path in kept}, self.logs & kept)

    def with_logs(self, change: Callable[[str], str]) -> CaseFiles | None:
        """Every log changed; None if that changed nothing."""
        texts = {path: change(text) if path in self.logs else text for path, text in self.texts.items()}
        return None if texts == self.texts else replace(self, texts=texts)


Perturbation = Callable[[CaseFiles, random.Random], CaseFiles | None]


def skewed_clock(files: CaseFiles, chance: random.Random) -> CaseFiles | None:
    """The clock of one host, else of one process, is 90 s ahead or behind: in its files, or in its lines of a combined log."""
    seconds = chance.choice((SHIFT_S, -SHIFT_S))
    places = dict(zip(files.texts, places_of(list(files.texts)), strict=True))
    for owner in (_host_of, _process_of):
        owned = {path: who for path, place in places.items() if (who := owner(place)) is not None}
        if len(set(owned.values())) > 1:
            chosen = chance.choice(sorted(set(owned.values())))
            mine = {path for path, who in owned.items() if who == chosen}
            return _changed(files, {path: shift_text(files.texts[path], seconds) for path in mine})
    texts: dict[str, str] = {}
    for path in sorted(files.logs):
        lines = files.texts[path].splitlines(keepends=True)
        owners = _owners(lines)
        names = sorted({who for who in owners if who})
        if len(names) > 1:
            chosen = chance.choice(names)
            texts[path] = "".join(
                shift_line(line, seconds) if who == chosen else line for line, who in zip(lines, owners, strict=True)
            )
    return _changed(files, texts)


def cut_end(files: CaseFiles, chance: random.Random) -> CaseFiles | None:
    """The last 12 lines of each log are lost; a log that has no more is lost altogether."""
    cut = files.with_logs(lambda text: "".join(text.splitlines(keepends=True)[:-CUT_LINES]))
    if cut is None:
        return None
    left = cut.only(path for path, text in cut.texts.items() if text.strip() or path not in cut.logs)
    return left if left.logs else None


def no_console(files: CaseFiles, chance: random.Random) -> CaseFiles | None:
    """Only the files of the single processes are at hand (and configurations, commands, reports)."""
    if not files.consoles or not files.logs - files.consoles:
        return None
    return files.only(set(files.texts) - files.consoles)


def no_rank_logs(files: CaseFiles, chance: random.Random) -> CaseFiles | None:
    """Only what the launcher's console showed is at hand."""
    if not files.of_ranks or not files.consoles:
        return None
    return files.only(set(files.texts) - set(files.of_ranks))


def no_prefixes(files: CaseFiles, chance: random.Random) -> CaseFiles | None:
    """Lines do not say any more which rank printed them."""
    return files.with_logs(without_ranks)


def shuffled(files: CaseFiles, chance: random.Random) -> CaseFiles | None:
    """Lines with a time trade places with others of the same second; lines without one move with the line above."""
    return files.with_logs(lambda text: shuffle_text(text, chance))


PERTURBATIONS: dict[str, Perturbation] = {
    "clock off by 90 s": skewed_clock,
    "last 12 lines cut": cut_end,
    "no console log": no_console,
    "no rank logs": no_rank_logs,
    "no rank prefixes": no_prefixes,
    "shuffled in a second": shuffled,
}


def shift_text(text: str, seconds: int) -> str:
    """Every printed point in time of `text` moved; `timestamp` fields of error files too."""
    if text.lstrip().startswith("{") and _is_json(text):
        return _EPOCH.sub(lambda found: f"{found[1]}{int(found[2]) + seconds}", text)
    return "".join(shift_line(line, seconds) for line in text.splitlines(keepends=True))


def shift_line(line: str, seconds: int) -> str:
    """The points in time of one line moved: those with a date, and the one before the text. One near midnight stays."""
    starts = [found.end() for found in _DATED.finditer(line)]
    clock = _clock_of(line)
    if clock is not None and (found := _TIME_OF_DAY.search(line, line.index(clock.text) if clock.text in line else 0)):
        starts.append(found.start())
    for start in set(starts):
        line = line[:start] + _moved(line[start : start + 8], seconds) + line[start + 8 :]
    return line


def without_ranks(text: str) -> str:
    """The text without the prefixes that name a rank at the start of its lines."""
    lines = text.splitlines(keepends=True)
    by_task = find_label([_plain(line) for line in lines]) == "task"
    return "".join(_RANK_PREFIX.sub("", _TASK_PREFIX.sub("", line) if by_task else line) for line in lines)


def shuffle_text(text: str, chance: random.Random) -> str:
    """Blocks (a line with a time and those without one below it) of the same second in another order."""
    windows: list[list[str]] = []
    first: Clock | None = None
    for line in text.splitlines(keepends=True):
        clock = _clock_of(line)
        if clock is None and windows:
            windows[-1][-1] += line
        elif clock is not None and first is not None and _same_second(first, clock):
            windows[-1].append(line)
        else:
            # What stands above the first time of all stays where it is.
            windows.append([line])
            first = clock
    for window in windows:
        chance.shuffle(window)
    return "".join(block for window in windows for block in window)


def _same_second(first: Clock, other: Clock) -> bool:
    return first.kind == other.kind and 0 <= other.seconds - first.seconds < WINDOW_S


def _changed(files: CaseFiles, texts: Mapping[str, str]) -> CaseFiles | None:
    changed = {**files.texts, **texts}
    return None if changed == files.texts else replace(files, texts=changed)


def _owners(lines: Sequence[str]) -> list[str]:
    """Who printed each line: the host where lines name several hosts, else the process."""
    plain = [_plain(line) for line in lines]
    label = find_label(plain)
    places = [parse_prefix(line, label=label).place for line in plain]
    hosts = [_host_of(place) or "" for place in places]
    return hosts if len(set(filter(None, hosts))) > 1 else [_process_of(place) or "" for place in places]


def _host_of(place: Place) -> str | None:
    return place.host


def _process_of(place: Place) -> str | None:
    if place.rank is not None:
        return f"rank {place.rank}"
    return None if place.local_rank is None else f"local rank {place.local_rank} of {place.host}"


def _clock_of(line: str) -> Clock | None:
    return parse_prefix(_plain(line)).place.time


def _plain(line: str) -> str:
    return _ANSI.sub("", line.rstrip("\r\n"))


def _moved(time_of_day: str, seconds: int) -> str:
    hours, minutes, rest = map(int, time_of_day.split(":"))
    total = hours * 3600 + minutes * 60 + rest + seconds
    if not 0 <= total < _DAY_S:
        return time_of_day
    return f"{total // 3600:02}:{total // 60 % 60:02}:{total % 60:02}"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
