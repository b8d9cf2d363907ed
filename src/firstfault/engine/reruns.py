"""Which parts of a text belong to an earlier run.

At a prompt, the same launch typed below them began a new one; a job that appends to its file goes on below its last end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from firstfault.ingest.linekind import prompt_command
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.bundle import Bundle, SourceReport
from firstfault.model.event import Event

Launch = tuple[object, object]
"""Launcher and script. Another launcher for the same script is no repetition: people compare what works with what does not."""

_JOB = lazy_pattern(r"\*\*\* (?:JOB|STEP) (\d+)")
MIN_LATER_LINES = 2


def last_ends(bundle: Bundle) -> Mapping[str, int]:
    """By source id: the offset of the last end of a job that a later run follows in the same file.

    The counter of steps falls back behind it, or a job with another number ends further down; in a file where that is so,
    progress behind an end shows a later run too.
    """
    found = {report.source.id: _last_end(report) for report in bundle.reports}
    return {source_id: offset for source_id, offset in found.items() if offset is not None}


def _last_end(report: SourceReport) -> int | None:
    ends = sorted(
        (event for event in report.events if event.fault_class == "scheduler_stop" and not event.quoted),
        key=lambda event: event.span.offset,
    )
    if not ends:
        return None
    other_jobs = [one.span.offset for one, other in pairwise(ends) if _is_other_job(one, other)]
    proven = max((*report.appended_after, *other_jobs), default=None)
    last = ends[-1].span
    goes_on = any(
        sample.last_span is not None
        and sample.last_span.offset > last.offset
        and sample.last_span.line - last.line > MIN_LATER_LINES
        for sample in report.progress
    )
    return last.offset if proven is not None and goes_on else proven


def _is_other_job(one: Event, other: Event) -> bool:
    numbers = [found[1] for event in (one, other) if (found := _JOB.search(event.text))]
    return len(numbers) == 2 and numbers[0] != numbers[1]


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
