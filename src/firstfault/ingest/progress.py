"""The forward motion of each rank of a source, from the sampled progress lines."""

from __future__ import annotations

from collections.abc import Iterable

from firstfault.ingest.prefix import join_places, parse_prefix
from firstfault.ingest.reading import MAX_TEXT_CHARS, Reading
from firstfault.model.event import Progress
from firstfault.model.span import SourceSpan
from firstfault.scan.result import ProgressSample


def progress_of(samples: Iterable[ProgressSample], reading: Reading) -> tuple[Progress, ...]:
    """One record for each series of progress lines."""
    return tuple(_progress(sample, reading) for sample in samples)


def _progress(sample: ProgressSample, reading: Reading) -> Progress:
    first, last = sample.first, sample.last
    place = join_places(reading.ctx.place, parse_prefix(last.text, label=reading.label).place)
    return Progress(
        rank=place.rank,
        local_rank=place.local_rank,
        host=place.host,
        lines=sample.count,
        first_step=_whole(first.captures.get("step")),
        last_step=_whole(last.captures.get("step")),
        total_steps=_whole(last.captures.get("total")),
        first_span=SourceSpan(reading.ctx.source.path, first.line, first.offset),
        last_span=SourceSpan(reading.ctx.source.path, last.line, last.offset),
        last_text=last.text[:MAX_TEXT_CHARS],
        last_time=place.time,
        first_time=parse_prefix(first.text, label=reading.label).place.time if first.offset != last.offset else place.time,
        attempt=place.attempt,
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
