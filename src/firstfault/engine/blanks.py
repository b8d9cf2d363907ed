"""The blanks of a command: `{log}`, `{script}`, `{launch.command}` and the like, filled with what was handed over."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from firstfault.knowledge.template import fill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.engine.lookup import Known
    from firstfault.model.bundle import Bundle
    from firstfault.model.fact import FactValue
    from firstfault.model.span import SourceSpan

_CONFIGS = frozenset({"accelerate_config", "deepspeed_config"})


class Blanks:
    """Fills commands. What is unknown becomes `<name>`: a reader can put it in."""

    def __init__(self, known: Known, bundle: Bundle, log: str | None) -> None:
        self._known = known
        self._names = dict(_names(bundle, log))

    def value(self, name: str) -> FactValue | None:
        """A fact, or the name of a file of the bundle."""
        return self._known.value(name) if "." in name else self._names.get(name)

    def span(self, name: str) -> SourceSpan | None:
        """The line that shows a fact."""
        return self._known.span(name)

    def fill(self, template: str) -> str:
        """The command with this run's files and facts, one line of the template a line."""
        lines = (
            fill(line, self, self._known.pack.facts, keep_unknown=True) if "{" in line else line
            for line in template.split("\n")
        )
        return "\n".join(lines)

    def fill_prose(self, template: str) -> str:
        """Prose: a sentence with an unknown blank is dropped."""
        return fill(template, self, self._known.pack.facts)


def _names(bundle: Bundle, log: str | None) -> Iterator[tuple[str, str]]:
    logs = [report.source.path for report in bundle.reports if report.source.kind in {"log", "slurm"}]
    first = log or (logs[0] if logs else None)
    if first is not None:
        yield "log", first
        folder = str(PurePath(first).parent)
        yield "log_dir", folder if len(bundle.reports) > 1 and folder != "." else first
    configs = [report.source.path for report in bundle.reports if report.source.kind in _CONFIGS]
    if configs:
        yield "config", configs[0]
    for report in bundle.reports:
        for setting in report.settings:
            if setting.family == "command" and setting.key in {"script", "launcher"} and isinstance(setting.value, str):
                yield setting.key, setting.value
