"""Changes a setting in the user's own file and gives the change as a unified diff that `git apply` takes."""

from __future__ import annotations

import re
from os.path import normpath
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from firstfault.engine.edit_key import change_key
from firstfault.engine.edit_launch import change_launch
from firstfault.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.model.bundle import Bundle, SourceReport
    from firstfault.model.fact import Setting

CONFIG_KINDS = {"accelerate": "accelerate_config", "deepspeed": "deepspeed_config"}
_YAML_VALUE = r"(\s*:\s*)(\"[^\"]*\"|'[^']*'|[^#\n]*?)(\s*(?:#.*)?)$"
_JSON_VALUE = r"(\"\s*:\s*)(\"(?:[^\"\\]|\\.)*\"|[^,}\]\s]+)(.*)$"
_PLAIN_YAML = lazy_pattern(r"[A-Za-z0-9_./-]+\Z")
_YAML_WORDS = frozenset({"yes", "no", "on", "off", "y", "n", "~"})
_NO_TEXT = lazy_pattern(r"(?:-?[0-9]+|\[[^\[\]{}#]*\]|yes|no|on|off|true|false)\Z", re.IGNORECASE)
_BARE_JSON = lazy_pattern(r"(?:true|false|null|-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)\Z")


class Change(NamedTuple):
    """A setting to have: the family of files, its dotted key, its value, and whether it may be added to a file without it.

    With `quote` the value of a YAML file becomes text as it stands; where the key is absent there is nothing to do. With
    `remove` the key goes, with what is nested below it; with `rename` it gets another name.
    With `move` the key is words of a launch line that go in front of the script.
    """

    family: str
    key: str
    value: str = ""
    add: bool = False
    quote: bool = False
    remove: bool = False
    rename: str = ""
    move: bool = False


class Patch(NamedTuple):
    """A changed file: its path as handed over, the diff, and whether `git apply` takes it as it is."""

    path: str
    diff: str
    applies: bool


def patch(changes: Sequence[Change], bundle: Bundle) -> Patch | None:
    """The diff of the one file in which all `changes` can be made; None if there is no such file or nothing to change."""
    for report in bundle.reports:
        if report.text is None:
            continue
        lines = _rows(report.text)
        if all(_make(change, lines, report) for change in changes):
            after = "".join(lines)
            if after != report.text:
                return _diff(report, after)
    return None


def _make(change: Change, lines: list[str], report: SourceReport) -> bool:
    if change.family in ("command", "environment"):
        return change_launch(change, lines, report)
    if change.remove or change.rename:
        return report.source.kind == CONFIG_KINDS.get(change.family) and change_key(change.key, change.rename, lines)
    setting = next((s for s in report.settings if (s.family, s.key) == (change.family, change.key)), None)
    if setting is not None:
        return _replace(change, setting, lines, report)
    return change.quote or (change.add and report.source.kind == CONFIG_KINDS.get(change.family) and _append(change, lines))


def _replace(change: Change, setting: Setting, lines: list[str], report: SourceReport) -> bool:
    index = setting.span.line - report.source.first_line
    if not 0 <= index < len(lines):
        return False
    ending = lines[index][len(lines[index].rstrip("\r\n")) :]
    changed = _changed_line(change, lines[index].rstrip("\r\n"))
    if changed is None:
        return False
    lines[index] = changed + ending
    return True


def _changed_line(change: Change, line: str) -> str | None:
    key = re.escape(change.key.rsplit(".", 1)[-1])
    if change.quote:
        return _quoted(rf"^(\s*[\"']?{key}[\"']?)" + _YAML_VALUE, line)
    if change.family == "accelerate":
        return _substitute(rf"^(\s*[\"']?{key}[\"']?)" + _YAML_VALUE, line, _yaml(change.value))
    if change.family == "deepspeed":
        return _substitute(rf"(\"{key})" + _JSON_VALUE, line, _json(change.value))
    return None


def _substitute(pattern: str, line: str, value: str) -> str | None:
    found = re.search(pattern, line)
    if not found:
        return None
    return f"{line[: found.start()]}{found[1]}{found[2]}{value}{found[4]}"


def _quoted(pattern: str, line: str) -> str:
    """The line with its value as text, if YAML reads a number, a truth value or a list there; `[0, 1]` becomes `'0,1'`."""
    found = re.search(pattern, line)
    if not found or not _NO_TEXT.match(found[3]):
        return line
    value = ",".join(word.strip(" \t'\"") for word in found[3].strip("[]").split(","))
    return f"{line[: found.start()]}{found[1]}{found[2]}'{value}'{found[4]}"


def _append(change: Change, lines: list[str]) -> bool:
    """Add a top-level key at the end of a YAML mapping, or behind the opening brace of a JSON object."""
    if "." in change.key:
        return False
    if change.family == "accelerate":
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        lines.append(f"{change.key}: {_yaml(change.value)}\n")
        return True
    if change.family == "deepspeed" and len(lines) > 1 and lines[0].strip() == "{":
        following = lines[1]
        indent = following[: len(following) - len(following.lstrip())] or "  "
        comma = "" if following.strip() == "}" else ","
        lines.insert(1, f'{indent}"{change.key}": {_json(change.value)}{comma}\n')
        return True
    return False


def _yaml(value: str) -> str:
    if _BARE_JSON.match(value):
        return value
    # YAML reads bare `no` and `off` as false: such words need their quotes.
    return value if _PLAIN_YAML.match(value) and value.lower() not in _YAML_WORDS else f"'{value}'"


def _json(value: str) -> str:
    return value if _BARE_JSON.match(value) else f'"{value}"'


def _diff(report: SourceReport, after: str) -> Patch:
    import difflib

    path = _path_for_git(report.source.path)
    produced = difflib.unified_diff(_rows(report.text or ""), _rows(after), f"a/{path}", f"b/{path}")
    text = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in produced)
    # A part of a paste is no file of its own: the diff shows the change, but there is nothing to apply it to.
    # Nor can a file of such a name stand in a diff, or what came through a pipe or out of an archive be changed.
    applies = (
        report.source.first_line == 1
        and report.source.first_offset == 0
        and "#" not in report.source.id
        and report.source.path != "-"
        and "!/" not in report.source.path
        and path.isprintable()
    )
    return Patch(path=report.source.path, diff=text, applies=applies)


def _rows(text: str) -> list[str]:
    r"""The lines as git counts them, each with its end: neither a form feed nor a lone `\r` ends one."""
    rows = [f"{row}\n" for row in text.split("\n")]
    rows[-1] = rows[-1][:-1]
    return rows if rows[-1] else rows[:-1]


def _path_for_git(path: str) -> str:
    """The path as it stands in a diff: from the working directory, or from above it (`../conf/x.yaml` is `conf/x.yaml`)."""
    if Path(path).is_absolute() and Path(path).is_relative_to(Path.cwd()):
        path = str(Path(path).relative_to(Path.cwd()))
    parts = [part for part in PurePosixPath(normpath(path).replace("\\", "/")).parts if part not in ("/", "..")]
    return "/".join(parts)
