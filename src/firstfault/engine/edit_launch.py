"""Changes of a launch line in a shell script: an option or a variable is set, added or taken out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from firstfault.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from firstfault.engine.edit import Change
    from firstfault.model.bundle import SourceReport
    from firstfault.model.fact import Setting

_MAX_CONTINUED = 200
_VALUE = r"\"[^\"\n]*\"|'[^'\n]*'|[^\s\\;|&<>]+"
_BEFORE_A_COMMAND = lazy_pattern(r"(?:^|[;&|(]|\b(?:then|do|else|time))\s*(?:[A-Za-z_]\w*=\S*\s+)*\Z")
_LAUNCHERS = lazy_pattern(
    r"(?<![\w./-])(?P<path>(?:[\w.~$/{}-]*/)?)(?P<words>accelerate\s+launch|torchrun|deepspeed"
    r"|python[\d.]*(?:\s+-[uOBEsI])*\s+-m\s+(?:torch\.distributed\.(?:run|launch)|accelerate\.commands\.launch))(?=\s)"
)
_PLAIN = lazy_pattern(r"(?<![\w./-])(?P<path>(?:[\w.~$/{}-]*/)?)(?P<words>python[\d.]*|srun|mpirun|mpiexec)(?=\s)")


class _Line(NamedTuple):
    """A logical line: the rows that it spans."""

    first: int
    behind: int


def change_launch(change: Change, lines: list[str], report: SourceReport) -> bool:
    """True if the change was made in `lines`; only where one launch alone stands in the file, in words that are plain."""
    if report.source.kind == "log":
        return False
    if change.move:
        return _move(change, lines, report)
    setting = _only(change, report)
    if setting is not None:
        line = _logical(lines, setting.span.line - report.source.first_line)
        return line is not None and _change_given(change, lines, line, switch=setting.value is True)
    return change.add and _add(change, lines, report)


def _only(change: Change, report: SourceReport) -> Setting | None:
    """The setting, if it is given once."""
    found = [one for one in report.settings if (one.family, one.key) == (change.family, change.key)]
    return found[0] if len({one.span for one in found}) == 1 else None


def _logical(lines: list[str], first: int) -> _Line | None:
    if not 0 <= first < len(lines):
        return None
    behind = first + 1
    while behind < len(lines) and behind - first < _MAX_CONTINUED and lines[behind - 1].rstrip().endswith("\\"):
        behind += 1
    return _Line(first, behind)


def _change_given(change: Change, lines: list[str], line: _Line, *, switch: bool) -> bool:
    name = re.escape(change.key).replace("_", "[-_]") if change.family == "command" else re.escape(change.key)
    for index in range(line.first, line.behind):
        row = lines[index]
        if change.family == "environment":
            found = re.search(rf"((?<!\S)(?:export\s+)?{name}=)({_VALUE}|)", row)
        elif switch:
            found = re.search(rf"((?<!\S){name})()(?=\s|$)", row) if change.remove else None
        else:
            found = re.search(rf"((?<!\S){name}(?:[= ]\s*))({_VALUE})", row)
        if found is None:
            continue
        if change.remove:
            return _take_out(found, lines, index)
        lines[index] = f"{row[: found.start()]}{found[1]}{change.value}{row[found.end() :]}"
        return True
    return False


def _take_out(found: re.Match[str], lines: list[str], index: int) -> bool:
    """The row without the words; one that holds nothing else is emptied, so that the others keep their numbers."""
    row = lines[index]
    exported = "export " if found[1].startswith("export") else ""
    behind = row[found.end() :].strip()
    rest = " ".join(filter(None, (row[: found.start()].strip(), behind)))
    if rest in ("", "\\"):
        lines[index] = ""
        return True
    lead = row[: len(row) - len(row.lstrip())]
    lines[index] = (
        lead + (exported if behind and not behind.startswith(("#", ";", "&")) else "") + rest + row[len(row.rstrip("\r\n")) :]
    )
    return True


def _move(change: Change, lines: list[str], report: SourceReport) -> bool:
    """Take words out of the arguments of the script and put them behind the launcher's words."""
    launch = _launch(report)
    line = _logical(lines, launch.span.line - report.source.first_line) if launch is not None else None
    if line is None:
        return False
    told = r"\s+".join(map(re.escape, change.key.split()))
    words = re.compile(rf"\s+{told}(?=\s|$)")
    for index in range(line.behind - 1, line.first - 1, -1):
        found = next(reversed([*words.finditer(lines[index])]), None)
        if found is not None:
            lines[index] = lines[index][: found.start()] + lines[index][found.end() :]
            return _add(change._replace(value=""), lines, report)
    return False


def _launch(report: SourceReport) -> Setting | None:
    """The launcher of the one launch line."""
    launches = [one for one in report.settings if (one.family, one.key) == ("command", "launcher")]
    return launches[0] if len({one.span for one in launches}) == 1 else None


def _add(change: Change, lines: list[str], report: SourceReport) -> bool:
    """Put an option behind the launcher's words, or a variable in front of them."""
    launch = _launch(report)
    line = _logical(lines, launch.span.line - report.source.first_line) if launch is not None else None
    if launch is None or line is None:
        return False
    pattern = _PLAIN if launch.value in ("python", "srun", "mpirun") else _LAUNCHERS
    places = [(index, found) for index in range(line.first, line.behind) for found in pattern.finditer(lines[index])]
    if launch.value == "python":
        # `srun` is what starts a plain script there, and it is the setting's own value then.
        places = [place for place in places if place[1]["words"].startswith("python")]
    if not places or (len(places) > 1 and launch.value == "python"):
        return False
    index, found = places[0]
    row = lines[index]
    if change.family == "command":
        value = f" {change.value}" if change.value else ""
        lines[index] = f"{row[: found.end()]} {change.key}{value}{row[found.end() :]}"
        return True
    before = row[: found.start()]
    # A variable in front of a word that another program runs would be taken for its command.
    prefix = "" if _BEFORE_A_COMMAND.search(before) and index == line.first else "env "
    lines[index] = f"{before}{prefix}{change.key}={change.value} {row[found.start() :]}"
    return True
