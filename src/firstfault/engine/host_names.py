"""One name for each host: a console that was named after its node, and the name that the launcher's report prints there."""

from __future__ import annotations

import msgspec

from firstfault.model.bundle import Bundle, SourceReport


def with_one_name_per_host(bundle: Bundle) -> Bundle:
    """`bundle` with the ends of processes at the host that their source is named after, where that can only be the same one.

    A launcher prints its own host's full name, or `localhost`, in the console of the node that the file's name calls otherwise.
    """
    if not any(_printed_names(report) for report in bundle.reports):
        return bundle
    return msgspec.structs.replace(bundle, reports=tuple(map(_with_one_name, bundle.reports)))


def _printed_names(report: SourceReport) -> set[str]:
    own = report.source.place.host
    return {found.place.host for found in report.exits if own and found.place.host and found.place.host != own}


def _with_one_name(report: SourceReport) -> SourceReport:
    if len(_printed_names(report)) != 1:
        return report
    own = report.source.place.host
    exits = tuple(
        msgspec.structs.replace(found, place=msgspec.structs.replace(found.place, host=own)) if found.place.host else found
        for found in report.exits
    )
    return msgspec.structs.replace(report, exits=exits)
