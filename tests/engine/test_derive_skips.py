"""Steps that were skipped in a row."""

from __future__ import annotations

import msgspec
import pytest

from engine.faults import LINE_BYTES, Log
from engine.runs import facts_of
from firstfault.model.span import SourceSpan


def skipping(skips, steps, rank=None, of=None):
    """A log with a progress line, `skips` skipped steps, and a progress line `steps` later."""
    log = Log("run.log", rank=of).steps(1)
    for _ in range(skips):
        log.note("num.step_skipped", rank=rank)
    last = log.lines + 1
    first_span, last_span = (SourceSpan(log.path, line, line * LINE_BYTES) for line in (1, last))
    log.progress = [
        msgspec.structs.replace(log.progress[0], first_step=5, last_step=5 + steps, first_span=first_span, last_span=last_span)
    ]
    log.lines += 1
    return facts_of(log)


@pytest.mark.parametrize(("skips", "steps", "expected"), [(30, 30, 30), (30, 40, None), (0, 30, None), (30, 0, None)])
def test_every_step_between_two_progress_lines_was_skipped(skips, steps, expected):
    facts = skipping(skips, steps)
    assert facts.value("num.consecutive_skips") == expected
    assert expected is None or [span.line for span in facts["num.consecutive_skips"].spans] == [2, 31]


def test_skips_of_another_rank_do_not_count():
    assert skipping(30, 30, rank=3, of=0).value("num.consecutive_skips") is None
