"""Whether anything that was handed over shows a run, and in words what it is if nothing does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.engine.match import OUTPUT_KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.model.bundle import Bundle, SourceReport

MAX_NAMED = 3
_WHAT = {
    "accelerate_config": "a configuration of accelerate",
    "deepspeed_config": "a configuration of DeepSpeed",
    "arguments": "a file of training arguments",
    "command": "a launch command",
    "environment": "an account of the environment",
    "nvidia_smi": "output of nvidia-smi",
    "python": "a script",
    "error_file": "an error file that cannot be read",
    "prose": "a description in words",
    "flight_recorder": "a dump that does not show who waits",
    "vitals": "a record without a step of training",
}


def shows_run(bundle: Bundle) -> bool:
    """True if a source holds what a run printed, or what a machine noted of it, and could be read."""
    shown = [report for report in bundle.reports if _shows(report)]
    return bool(shown) and not _is_part_of_dumps(shown)


def _is_part_of_dumps(shown: Sequence[SourceReport]) -> bool:
    """True if only dumps were read, and not those of all ranks: that nothing is pending on a few says nothing of the run."""
    if any(report.source.kind != "flight_recorder" for report in shown):
        return False
    records = [record for report in shown for record in report.records]
    return not {rank for record in records for rank in record.world} <= {record.rank for record in records}


def _shows(report: SourceReport) -> bool:
    if report.source.kind not in OUTPUT_KINDS or any(note.fatal for note in report.notes):
        return False
    if report.source.kind == "flight_recorder":
        # A dump without calls and counters shows neither that its rank waits nor that it does not.
        return any(record.calls or record.trails or record.groups for record in report.records)
    if report.source.kind == "error_file":
        return bool(report.events or report.tracebacks)
    return report.source.kind != "vitals" or bool(report.facts)


def said_of(bundle: Bundle) -> str:
    """What the sources are, in one sentence, where none of them shows a run."""
    named: dict[str, str] = {}
    for report in bundle.reports:
        if report.source.kind in _WHAT:
            named.setdefault(report.source.path, _what(report))
    listed = [f"{path} is {what}" for path, what in list(named.items())[:MAX_NAMED]]
    rest = len(named) - len(listed)
    also = [f"{rest} more are of that kind"] if rest > 0 else []
    return "; ".join([*listed, *also, "what the run printed is needed to say whether it failed"])


def _what(report: SourceReport) -> str:
    if report.source.kind == "flight_recorder" and any(note.fatal for note in report.notes):
        return "a dump that cannot be read"
    return _WHAT[report.source.kind]
