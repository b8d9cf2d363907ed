"""Which parts of a terminal's text belong to an earlier run: a launch typed at a prompt below them began a new one."""

from __future__ import annotations

from collections.abc import Iterable

from firstfault.ingest.linekind import prompt_command
from firstfault.model.bundle import Bundle, SourceReport


def earlier_runs(bundle: Bundle) -> frozenset[str]:
    """Ids of the sources whose run was started anew further down in the same file, and showed life there."""
    by_path: dict[str, list[SourceReport]] = {}
    for report in bundle.reports:
        by_path.setdefault(report.source.path, []).append(report)
    return frozenset(source_id for reports in by_path.values() if len(reports) > 1 for source_id in _earlier(reports))


def _earlier(reports: Iterable[SourceReport]) -> set[str]:
    """The parts of one file above its last launch at a prompt that is followed by a run."""
    earlier: set[str] = set()
    above: list[str] = []
    typed = False
    for report in sorted(reports, key=lambda report: report.source.first_offset):
        if _is_launch_at_a_prompt(report):
            typed = True
        elif typed and _shows_a_run(report):
            earlier.update(above)
            above, typed = [], False
        if not typed:
            above.append(report.source.id)
    return earlier


def _is_launch_at_a_prompt(report: SourceReport) -> bool:
    launches = [setting for setting in report.settings if setting.family == "command" and setting.key == "launcher"]
    return report.source.kind == "command" and any(prompt_command(setting.text.strip()) is not None for setting in launches)


def _shows_a_run(report: SourceReport) -> bool:
    return bool(report.progress or report.tracebacks or any(event.fault_class for event in report.events))
