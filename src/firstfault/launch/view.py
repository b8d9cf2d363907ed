"""The launch commands among the settings, each with what applies to it: options, variables, arguments, configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Setting
from firstfault.model.span import SourceSpan

_WHOLE = lazy_pattern(r"-?[0-9]{1,9}")

Scalar = bool | int | float | str | None


class Value(msgspec.Struct, frozen=True):
    """A number that is certain, why, and the settings it rests on."""

    value: int
    rule: str
    settings: tuple[Setting, ...] = ()


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """One command: its launcher, the options by name, the variables it sees and the arguments of the script.

    `elided` says that the user left words out (`...`): what the command lacks is then not known.
    """

    launcher: Setting
    options: Mapping[str, Setting]
    environment: Mapping[str, Setting]
    arguments: Mapping[str, Setting]
    batch: Mapping[str, Setting]
    elided: bool = False

    @property
    def name(self) -> str:
        """accelerate, torchrun, deepspeed, python, srun or mpirun."""
        return str(self.launcher.value)


def launches(settings: Sequence[Setting], at: SourceSpan | None) -> tuple[Launch, ...]:
    """The commands that may have started the run: the last one before `at` in its file, else all that were handed over."""
    commands: dict[SourceSpan, list[Setting]] = {}
    for setting in settings:
        if setting.family == "command":
            commands.setdefault(setting.span, []).append(setting)
    starting = {span: group for span, group in commands.items() if any(setting.key == "launcher" for setting in group)}
    if at is not None:
        before = [span for span in starting if span.source == at.source and span.offset <= at.offset]
        if before:
            starting = {max(before): starting[max(before)]}
    return tuple(_launch(span, group, settings, set(commands)) for span, group in starting.items())


def _launch(span: SourceSpan, group: list[Setting], settings: Sequence[Setting], commands: set[SourceSpan]) -> Launch:
    own = [setting for setting in settings if setting.span == span]
    shared = [setting for setting in settings if setting.span not in commands]
    variables = _agreed(setting for setting in shared if setting.family == "environment")
    variables.update({setting.key: setting for setting in own if setting.family == "environment"})
    batch = {
        setting.key.removeprefix("#SBATCH "): setting
        for setting in settings
        if setting.family == "command" and setting.key.startswith("#SBATCH ") and setting.span.source == span.source
    }
    return Launch(
        launcher=next(setting for setting in group if setting.key == "launcher"),
        options={setting.key: setting for setting in group},
        environment=variables,
        arguments={setting.key: setting for setting in own if setting.family == "arguments"},
        batch=batch,
        elided=any(setting.key == "..." for setting in group),
    )


def _agreed(settings: Iterable[Setting]) -> dict[str, Setting]:
    """Settings by key; a key with several values is left out: which of them the run saw is not known."""
    found: dict[str, Setting] = {}
    doubtful: set[str] = set()
    for setting in settings:
        known = found.setdefault(setting.key, setting)
        if known.value != setting.value:
            doubtful.add(setting.key)
    return {key: setting for key, setting in found.items() if key not in doubtful}


def number(setting: Setting | None) -> int | None:
    """The whole number that a setting holds, also as text; None for anything else."""
    value = setting.value if setting is not None else None
    if isinstance(value, bool) or value is None:
        return None
    text = str(value).strip()
    return int(text) if _WHOLE.fullmatch(text) else None


def basename(path: object) -> str:
    """The last part of a path, whatever its separators."""
    return str(path).replace("\\", "/").rpartition("/")[2]
