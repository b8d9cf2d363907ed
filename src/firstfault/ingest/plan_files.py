"""The files that a plan read, as sources that a fix can change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firstfault.model.bundle import SourceKind, SourceReport
    from firstfault.model.plan import Plan

_CONFIG_OPTIONS = ("--config_file", "--config-file")
_PATH_ROWS = ("config_file", "deepspeed_config_file")


def files_of(plan: Plan, read: Callable[[str], str | None]) -> tuple[SourceReport, ...]:
    """A report for each configuration that the plan names and that can be read, with its settings and its text."""
    return tuple(file for path in dict.fromkeys(_paths(plan)) if (file := report_of(path, read(path))) is not None)


def _paths(plan: Plan) -> Iterator[str]:
    yield from (str(row.value) for row in plan.origins if row.name in _PATH_ROWS and isinstance(row.value, str))
    if plan.error is not None and plan.tool == "accelerate":
        # A launch that stops has no origins: its own option comes before any of the script's.
        named = (following for word, following in pairwise(plan.command) if word in _CONFIG_OPTIONS)
        yield from islice(named, 1)
    words = plan.spawn.argv if plan.spawn else ()
    yield from (following for word, following in pairwise(words) if word == "--deepspeed")


def script_report(path: str, text: str | None) -> SourceReport | None:
    """The report of the shell script that holds the launch, with its commands and variables; None without a text."""
    if not path or text is None:
        return None
    from firstfault.ingest.command import read_command
    from firstfault.ingest.context import Context
    from firstfault.ingest.lines import Line
    from firstfault.model.bundle import Source, SourceReport

    rows = text.splitlines()
    source = Source(id=path, path=path, kind="command", size_bytes=len(text.encode()), lines=len(rows))
    lines = [Line(text=row, raw=row, offset=0, number=number) for number, row in enumerate(rows, 1)]
    return SourceReport(source=source, settings=read_command(lines, Context(source=source)), text=text)


def report_of(path: str, text: str | None) -> SourceReport | None:
    """The report of one configuration: JSON that names no `distributed_type` is DeepSpeed's."""
    if text is None:
        return None
    # A plan without a file, which most are, needs none of the readers.
    from firstfault.ingest.configs import read_accelerate, read_deepspeed
    from firstfault.ingest.context import Context
    from firstfault.model.bundle import Source, SourceReport

    deepspeed = text.lstrip().startswith("{") and "distributed_type" not in text
    kind: SourceKind = "deepspeed_config" if deepspeed else "accelerate_config"
    source = Source(id=path, path=path, kind=kind, size_bytes=len(text.encode()), lines=text.count("\n"))
    settings, notes = (read_deepspeed if deepspeed else read_accelerate)(text, Context(source=source))
    return SourceReport(source=source, settings=settings, notes=notes, text=text)
