"""The blanks of a command: `{log}`, `{script}`, `{launch.command}` and the like, filled with what was handed over."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Protocol

from firstfault.knowledge.template import fill, fill_blanks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from firstfault.knowledge.schema import Pack
    from firstfault.model.bundle import Bundle
    from firstfault.model.fact import FactValue
    from firstfault.model.span import SourceSpan

# The blanks that are no facts, and what stands where one is unknown.
_PLACEHOLDERS = {
    "config": "your configuration file",
    "launch.command": "your launch command",
    "launcher": "your launcher",
    "log": "the log",
    "log_dir": "the folder of the logs",
    "script": "your script",
}
_RANK = "fault.rank"
_MAX_SUSPECTS = 4
_CONFIGS = frozenset({"accelerate_config", "deepspeed_config"})


class FactSource(Protocol):
    """What is known, as conditions and texts ask for it: of an investigation or of a plan."""

    pack: Pack

    def value(self, name: str) -> FactValue | None:
        """The value of a fact, the truth of an event, or None while it is unknown."""

    def rounded(self, name: str) -> bool:
        """True if the number was printed with two decimals."""

    def span(self, name: str) -> SourceSpan | None:
        """The first line that shows it."""


class Blanks:
    """Fills commands. What is unknown becomes `<your script>`: a reader can put it in. Other braces are the command's own."""

    def __init__(self, known: FactSource, bundle: Bundle, log: str | None, suspects: Sequence[int] = ()) -> None:
        self._known = known
        self._names = dict(_names(bundle, log))
        if 1 < len(suspects) <= _MAX_SUSPECTS:
            self._names[_RANK] = " and of rank ".join(map(str, suspects))

    def value(self, name: str) -> FactValue | None:
        """A fact, or the name of a file of the bundle."""
        known = self._known.value(name) if "." in name else None
        return self._names.get(name) if known is None else known

    def span(self, name: str) -> SourceSpan | None:
        """The line that shows a fact."""
        return self._known.span(name)

    def fill(self, template: str) -> str:
        """The command with this run's files and facts."""
        return fill_blanks(template, self, self._known.pack.facts, _PLACEHOLDERS)

    def fill_prose(self, template: str) -> str:
        """Prose: a sentence with an unknown blank is dropped."""
        return fill(template, self, self._known.pack.facts)


def _names(bundle: Bundle, log: str | None) -> Iterator[tuple[str, str]]:
    logs = [report.source.path for report in bundle.reports if report.source.kind in {"log", "slurm"}]
    first = log or (logs[0] if logs else None)
    if first is not None:
        yield "log", first
        folder = str(PurePath(first).parent)
        if folder != "." or len(bundle.reports) > 1:
            yield "log_dir", folder
    configs = [report.source.path for report in bundle.reports if report.source.kind in _CONFIGS]
    if configs:
        yield "config", configs[0]
    for report in bundle.reports:
        for setting in report.settings:
            if setting.family == "command" and setting.key in {"script", "launcher"} and isinstance(setting.value, str):
                yield setting.key, setting.value
