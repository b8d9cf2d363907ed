"""What somebody only tells of a run, taken at his word where nothing that the run printed was handed over.

Only the line of a Python exception counts: people copy it as it was printed, and do not use it in speech.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.engine.handed_over import shows_run
from firstfault.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from firstfault.engine.attribute import Attribution
    from firstfault.engine.match import Walk
    from firstfault.model.bundle import Bundle
    from firstfault.model.event import Event

_SILENT_ROLES = ("context", "progress")
_EXCEPTION = lazy_pattern(r"\b[A-Z]\w{1,80}(?:Error|Exception): ")


def taken_at_word(bundle: Bundle) -> Bundle | None:
    """The bundle with its quoted messages as if they had been printed; None if a run shows, or if none is quoted."""
    if shows_run(bundle) or not any(_accuses(event) for report in bundle.reports for event in report.events):
        return None
    reports = (
        replace(report, events=tuple(replace(event, quoted=False) for event in report.events)) for report in bundle.reports
    )
    return replace(bundle, reports=tuple(reports))


def doubted(attribution: Attribution) -> Attribution:
    """The same, with a rank that is never more than likely."""
    return replace(attribution, certainty="likely") if attribution.certainty == "established" else attribution


def as_hearsay(walked: Walk) -> Walk:
    """The same, never more than likely: nobody saw the line where it was printed."""
    return replace(walked, verdict="likely") if walked.verdict == "established" else walked


def _accuses(event: Event) -> bool:
    return (
        event.quoted
        and event.fault_class is not None
        and event.role not in _SILENT_ROLES
        and _EXCEPTION.search(event.text) is not None
    )
