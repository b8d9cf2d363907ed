"""Resident memory in tables of `ps` that were taken again and again: whether main processes grew, or their workers."""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.ingest.context import Context
from firstfault.ingest.lines import Line
from firstfault.ingest.memory_series import Point, growth_fact
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Fact

PRODUCES = ("host.rss_growth",)

MAX_ROWS = 50_000
MAX_PROCESSES = 4_096

_HEADER = lazy_pattern(r"^\s*(?:\S+\s+){0,6}PID\s.*\bRSS\b")
_COMMANDS = frozenset({"COMMAND", "CMD", "ARGS"})


class _Process:
    __slots__ = ("command", "parent", "points")

    def __init__(self, parent: int, command: str) -> None:
        self.parent = parent
        self.command = command
        self.points: list[Point] = []


def read_process_tables(lines: Sequence[Line], ctx: Context) -> tuple[Fact, ...]:
    """host.rss_growth of repeated `ps -eo pid,ppid,rss,args`: a process with its parent's command line is a worker of it."""
    processes: dict[int, _Process] = {}
    columns: list[str] | None = None
    rows = 0
    for line in lines:
        if _HEADER.match(line.text):
            columns = _columns(line.text)
        elif columns is not None and rows < MAX_ROWS:
            rows += _row(line, columns, processes, ctx)
    series = [(_side(process, processes), process.points) for process in processes.values()]
    return tuple(growth_fact(series, "resident memory in tables of ps"))


def _columns(text: str) -> list[str] | None:
    names = text.split()
    complete = {"PID", "PPID", "RSS"} <= set(names) and names[-1] in _COMMANDS
    return names if complete else None


def _row(line: Line, columns: list[str], processes: dict[int, _Process], ctx: Context) -> int:
    fields = line.text.split(None, len(columns) - 1)
    if len(fields) < len(columns):
        return 0
    values = dict(zip(columns, fields, strict=True))
    if not all(values[name].isascii() and values[name].isdigit() and len(values[name]) < 13 for name in ("PID", "PPID", "RSS")):
        return 0
    pid = int(values["PID"])
    if pid not in processes:
        if len(processes) >= MAX_PROCESSES:
            return 0
        processes[pid] = _Process(int(values["PPID"]), fields[-1].strip())
    processes[pid].points.append(Point(None, int(values["RSS"]) * 1024, ctx.span(line)))
    return 1


def _side(process: _Process, processes: dict[int, _Process]) -> str:
    parent = processes.get(process.parent)
    return "workers" if parent is not None and parent.command == process.command else "main"
