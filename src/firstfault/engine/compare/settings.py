"""What two sides were given: versions, configuration, arguments, variables, and the machine, by the files of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from firstfault.engine.compare.rows import ABSENT, UNKNOWN, Rows
from firstfault.engine.compare.secret import is_secret
from firstfault.engine.compare.side import Side
from firstfault.launch.values import Given
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.comparison import SideValue, Topic
from firstfault.model.fact import Setting
from firstfault.units import format_size

MAX_VALUES = 4
NOT_SHOWN = "set, not shown"
_TOPICS: dict[str, Topic] = {
    "package": "version",
    "accelerate": "configuration",
    "deepspeed": "configuration",
    "arguments": "configuration",
    "script": "configuration",
    "command": "argument",
    "environment": "environment",
    "printed": "plan",
}
_PRINTED = frozenset({"mixed_precision", "device_count", "CUDA_VISIBLE_DEVICES"})
_WHOLE_LIST = 8
"""From so many packages or variables on a listing is taken to be whole: what it lacks is not there."""
# Different in every run and of no consequence, or each process's own.
_OF_EVERY_RUN = frozenset(
    {
        *(
            "_",
            "PWD",
            "OLDPWD",
            "SHLVL",
            "HOSTNAME",
            "TERM",
            "COLUMNS",
            "LINES",
            "LS_COLORS",
            "DISPLAY",
            "TMPDIR",
            "INVOCATION_ID",
        ),
        *("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "NODE_RANK", "MASTER_PORT", "TORCHELASTIC_RUN_ID"),
        *("TORCHELASTIC_ERROR_FILE", "PPID", "STY", "TMUX", "TMUX_PANE", "WINDOWID", "PS1"),
    }
)
_OF_A_JOB = lazy_pattern(
    r"(?:SSH_|XDG_|DBUS_|VSCODE_|SLURM_(?:JOB_?ID|STEP|TASK|PROCID|LOCALID|SRUN|LAUNCH|SUBMIT|TOPOLOGY|GTIDS))"
)
_MACHINE = ("gpu.", "host.")
_PROCESS = lazy_pattern(r"gpu\.\d+\.(?:process|memory_used)|gpu\.(?:slowdown|count\.)")


def setting_rows(a: Side, b: Side, rows: Rows) -> None:
    """Adds a row for each setting that both sides could show."""
    left, right = _by_row(a.settings), _by_row(b.settings)
    for family in _FILES:
        _whole_file(family, a, b, rows, left, right)
    for key in sorted({*left, *right}, key=_order):
        topic, family, name = key
        sides = [
            _value(found[key], name) if key in found else _not_there(side, family, name)
            for side, found in ((a, left), (b, right))
        ]
        if is_secret(name) and key in left and key in right:
            sides[1] = _masked(left[key][0].value, right[key][0].value, sides[1])
        rows.add(topic, f"{family}.{name}", _shown_name(family, name), sides)
    if a.environment is not None and b.environment is not None:
        _variables(a.environment, b.environment, rows)


_Row = tuple[Topic, str, str]
_FILES = ("accelerate", "deepspeed")


def _whole_file(
    family: str, a: Side, b: Side, rows: Rows, left: dict[_Row, list[Setting]], right: dict[_Row, list[Setting]]
) -> None:
    """One row for a configuration that only one side has, in place of one for each of its keys."""
    sides = []
    for side, found in ((a, left), (b, right)):
        keys = [key for key in found if key[1] == family]
        first = found[keys[0]][0] if keys else None
        sides.append(SideValue(value=f"{len(keys)} keys", where=first.span.source) if first else _not_there(side, family, ""))
    if {side.state for side in sides} == {"known"} or all(side.state != "known" for side in sides):
        return
    rows.add("configuration", family, f"{family} configuration", sides)
    for found in (left, right):
        for key in [key for key in found if key[1] == family]:
            del found[key]


def _order(row: _Row) -> tuple[str, str, str]:
    return row


def _by_row(settings: Sequence[Setting]) -> dict[_Row, list[Setting]]:
    commands = {setting.span for setting in settings if setting.family == "command"}
    found: dict[_Row, list[Setting]] = {}
    for setting in settings:
        family, name = setting.family, setting.key
        topic = _TOPICS.get(family)
        if topic is None or (family == "printed" and name not in _PRINTED) or name in ("launcher", "..."):
            continue
        if family == "arguments" and setting.span in commands:
            topic = "argument"
        if family == "environment":
            if name.startswith(_MACHINE):
                topic = "machine"
                if _PROCESS.match(name):
                    continue
            elif _is_of_every_run(name):
                continue
        found.setdefault((topic, family, name), []).append(setting)
    return found


def _is_of_every_run(name: str) -> bool:
    return name in _OF_EVERY_RUN or bool(_OF_A_JOB.match(name))


def _value(settings: Sequence[Setting], name: str) -> SideValue:
    values = list(dict.fromkeys(_text(setting, name) for setting in settings))
    span = settings[0].span
    where = str(span) if span.source else ""
    if len(values) == 1:
        value = settings[0].value
        plain = values[0] if isinstance(value, str) or value is None or name.endswith("_bytes") else value
        return SideValue(value=plain, where=where)
    shown = " | ".join(sorted(values)[:MAX_VALUES]) + (
        f" and {len(values) - MAX_VALUES} more" if len(values) > MAX_VALUES else ""
    )
    return SideValue(value=shown, where=where)


def _text(setting: Setting, name: str) -> str:
    if is_secret(name) and isinstance(setting.value, str):
        return NOT_SHOWN
    if name.endswith("_bytes") and isinstance(setting.value, int):
        return format_size(setting.value)
    return "null" if setting.value is None else str(setting.value)


def _not_there(side: Side, family: str, name: str) -> SideValue:
    """Absent where what would hold the setting was read whole."""
    own = [setting for setting in side.settings if setting.family == family]
    if family in ("accelerate", "deepspeed", "arguments", "command"):
        return ABSENT if own or (side.plan is not None and side.subject.kind == "command") else UNKNOWN
    if family in ("package", "environment"):
        listed = {setting.key for setting in own if not setting.key.startswith(_MACHINE)}
        whole = "environment" in side.kinds and len(listed) >= _WHOLE_LIST and not name.startswith(_MACHINE)
        return ABSENT if whole else UNKNOWN
    return UNKNOWN


def _shown_name(family: str, name: str) -> str:
    if family in ("accelerate", "deepspeed", "script"):
        return f"{name} ({family})"
    return name


def _variables(a: Mapping[str, Given], b: Mapping[str, Given], rows: Rows) -> None:
    """The variables that two commands find; those of the same shell are alike and not counted."""
    for name in sorted({*a, *b}):
        left, right = a.get(name), b.get(name)
        if _is_of_every_run(name) or (left is not None and right is not None and left.value == right.value):
            continue
        sides = [_given(name, left), _given(name, right)]
        if is_secret(name) and left is not None and right is not None:
            sides[1] = _masked(left.value, right.value, sides[1])
        rows.add("environment", f"environment.{name}", name, sides)


def _masked(a: object, b: object, side: SideValue) -> SideValue:
    """The hidden value of B: the same one as that of A, or another."""
    return side if a == b else SideValue(value="set, another one, not shown", where=side.where)


def _given(name: str, given: Given | None) -> SideValue:
    if given is None:
        return ABSENT
    value = NOT_SHOWN if is_secret(name) else str(given.value)
    return SideValue(value=value, where="" if given.where == name else given.where)
