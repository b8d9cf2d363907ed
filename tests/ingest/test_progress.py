"""One record for each series of progress lines."""

from __future__ import annotations

from firstfault.ingest.context import Context
from firstfault.ingest.progress import progress_of
from firstfault.ingest.reading import Reading
from firstfault.knowledge.schema import Signal
from firstfault.model.bundle import Source
from firstfault.model.span import SourceSpan
from firstfault.scan.result import Hit, ProgressSample

BAR = Signal(id="bar", event="train.progress", role="progress", fault_class=None, literal="it/s, ", pattern="x")


def hit(offset: int, text: str, **captures: int) -> Hit:
    return Hit(signal=BAR, offset=offset, line=offset // 10 + 1, text=text, captures=captures)


def sample(first: Hit, last: Hit) -> ProgressSample:
    return ProgressSample(key=3, count=9, first=first, last=last)


def test_each_series_is_a_record_with_its_beginning_and_its_end():
    samples = [
        ProgressSample(
            key=3, count=9, first=hit(10, "x", step=0, total=9600), last=hit(50, "[rank3]: 200", step=200, total=9600)
        ),
        ProgressSample(key=3, count=9, first=hit(30, "x", step=1, total=50), last=hit(90, "[rank3]: 46", step=46, total=50)),
        ProgressSample(key=3, count=9, first=hit(5, "Map"), last=hit(5, "[rank3]: Map")),
    ]
    training, evaluation, data = progress_of(samples, Reading(ctx=Context(source=Source(id="a", path="a.log", kind="log"))))
    assert (training.rank, training.first_step, training.last_step, training.total_steps) == (3, 0, 200, 9600)
    assert (training.first_span, training.last_span) == (SourceSpan("a.log", 2, 10), SourceSpan("a.log", 6, 50))
    assert (evaluation.first_step, evaluation.last_step, evaluation.total_steps) == (1, 46, 50)
    assert (data.rank, data.last_step, data.total_steps, data.last_text) == (3, None, None, "[rank3]: Map")
