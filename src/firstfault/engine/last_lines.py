"""The last lines that a rank printed before it reported a wait or fell silent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.engine.align import Aligned
    from firstfault.model.bundle import RankEnd, SourceReport


def work_of(aligned: Aligned, rank: int, attempt: int | None) -> Iterator[tuple[str, RankEnd]]:
    """The last lines of a rank's work with their source, the oldest first; its own source counts before a combined one."""
    ranks = aligned.rank_map
    found: list[tuple[bool, SourceReport, RankEnd]] = []
    for report in aligned.bundle.reports:
        source = ranks.source_place(report)
        for end in report.ends:
            place = ranks.complete(replace(end.place, rank=source.rank if end.place.rank is None else end.place.rank))
            if place.rank == rank and end.work and (attempt is None or place.attempt in (None, attempt)):
                found.append((source.rank == rank, report, end))
    if found:
        _, report, end = max(found, key=lambda one: one[0])
        path, stacks = report.source.path, list(_lines_of_stacks(report))
        for line in end.work:
            if any(line.line in lines for lines in stacks):
                # A stack is no output of the rank's work.
                continue
            yield path, replace(line, place=ranks.complete(replace(line.place, rank=rank)))


def _lines_of_stacks(report: SourceReport) -> Iterator[range]:
    for stack in report.stacks:
        numbers = [frame.span.line for thread in stack.threads for frame in thread.frames]
        if numbers:
            yield range(min(numbers), max(numbers) + 1)
