"""The forward motion of each rank of a source, from the sampled progress lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from firstfault.ingest.prefix import join_places, parse_prefix
from firstfault.ingest.reading import MAX_TEXT_CHARS, Reading
from firstfault.model.event import Progress
from firstfault.model.span import SourceSpan
from firstfault.scan.result import Hit, ProgressSample


def progress_of(samples: Iterable[ProgressSample], reading: Reading) -> tuple[Progress, ...]:
    """One record for each sample of which a line was read. Where lines with a step were read, they speak for the sample."""
    return tuple(_progress(sample, hits, reading) for sample in samples if (hits := _telling(sample)))


def _telling(sample: ProgressSample) -> list[Hit]:
    """First and last line, without bars of downloads and data sets if one of them counts steps."""
    hits = [hit for hit in (sample.first, sample.last) if hit is not None]
    return [hit for hit in hits if "step" in hit.captures] or hits


def _progress(sample: ProgressSample, hits: Sequence[Hit], reading: Reading) -> Progress:
    last = hits[-1]
    place = join_places(reading.ctx.place, parse_prefix(last.text, label=reading.label).place)
    return Progress(
        rank=place.rank,
        local_rank=place.local_rank,
        host=place.host,
        lines=sample.count,
        first_step=_whole(hits[0].captures.get("step")),
        last_step=_whole(last.captures.get("step")),
        total_steps=_whole(last.captures.get("total")),
        last_span=SourceSpan(reading.ctx.source.path, last.line, last.offset),
        last_text=last.text[:MAX_TEXT_CHARS],
        last_time=place.time,
        attempt=place.attempt,
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
