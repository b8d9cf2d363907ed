"""Which parts of a terminal's text belong to an earlier run: the same launch typed at a prompt below them began a new one."""

from __future__ import annotations

from collections.abc import Iterable

from firstfault.ingest.linekind import prompt_command
from firstfault.model.bundle import Bundle, SourceReport

Launch = tuple[object, object]
"""Launcher and script. Another launcher for the same script is no repetition: people compare what works with what does not."""


def earlier_runs(bundle: Bundle) -> frozenset[str]:
    """Ids of the sources whose run was started anew, alike, further down in the same file, and showed life there."""
    by_path: dict[str, list[SourceReport]] = {}
    for report in bundle.reports:
        by_path.setdefault(report.source.path, []).append(report)
    return frozenset(source_id for reports in by_path.values() if len(reports) > 1 for source_id in _earlier(reports))


def _earlier(reports: Iterable[SourceReport]) -> set[str]:
    """The parts of one file that stand below a launch and above its repetition."""
    parts_of: dict[Launch, list[str]] = {}
    earlier: set[str] = set()
    launch: Launch | None = None
    fresh = False
    for report in sorted(reports, key=lambda report: report.source.first_offset):
        typed = _launch_at_a_prompt(report)
        if typed is not None:
            launch, fresh = typed, True
        elif launch is not None:
            if fresh and _shows_a_run(report):
                earlier.update(parts_of.pop(launch, ()))
                fresh = False
            parts_of.setdefault(launch, []).append(report.source.id)
    return earlier


def _launch_at_a_prompt(report: SourceReport) -> Launch | None:
    words = {setting.key: setting for setting in report.settings if setting.family == "command"}
    launcher = words.get("launcher")
    if report.source.kind != "command" or launcher is None or prompt_command(launcher.text.strip()) is None:
        return None
    return launcher.value, words["script"].value if "script" in words else None


def _shows_a_run(report: SourceReport) -> bool:
    return bool(report.progress or report.tracebacks or any(event.fault_class for event in report.events))
