"""Which counter is that of training, and what it says about the run."""

from __future__ import annotations

import msgspec
import pytest

from engine.faults import Log, world
from engine.runs import pack_of
from firstfault.engine.align import align
from firstfault.engine.attribute import attribute
from firstfault.engine.chronicle import timeline
from firstfault.engine.derive import derive
from firstfault.engine.evidence import EvidenceBook
from firstfault.engine.recovery import run_finished
from firstfault.engine.series import announced_totals, latest, starts_anew, training_series
from firstfault.model.event import Progress
from firstfault.model.span import SourceSpan


def bar(step, total=None, *, begin=0, end=100, text="", rank=None, path="run.log"):
    first, last = (SourceSpan(path, offset // 10 + 1, offset) for offset in (begin, end))
    return Progress(
        rank=rank,
        lines=9,
        last_step=step,
        total_steps=total,
        first_span=first,
        last_span=last,
        last_text=text or f"{step}/{total}",
    )


TRAINING = bar(200, 9600, begin=10, end=500)
EVALUATION = bar(46, 50, begin=400, end=900)


def with_series(*series, announced=None, fails=True):
    log = Log("run.log")
    log.lines = 200
    if announced:
        log.note("train.total_steps", steps=announced)
        log.events[-1] = msgspec.structs.replace(log.events[-1], signal="trainer.total_steps")
    if fails:
        log.fault("device_oom", "CUDA out of memory")
    log.progress = list(series)
    return align(world(None, log))


def steps_done(*series, announced=None):
    found, pack = with_series(*series, announced=announced), pack_of()
    return derive(found, attribute(found, pack.causal), pack).value("run.steps_done")


def test_a_bar_of_an_evaluation_is_not_that_of_training():
    assert steps_done(TRAINING, EVALUATION) == 200
    assert steps_done(EVALUATION, TRAINING) == 200


def test_the_announced_total_decides():
    long_evaluation = bar(4000, 20_000, begin=400, end=900)
    assert steps_done(TRAINING, long_evaluation, announced="9,600") == 200
    assert steps_done(long_evaluation, announced="9,600") is None
    assert steps_done(long_evaluation, bar(210), announced="9,600") == 210


def test_a_larger_total_inside_a_smaller_one_tells_nothing():
    evaluation = bar(4000, 20_000, begin=100, end=900)
    assert steps_done(bar(200, 960, begin=10, end=500), evaluation) is None
    preparation = bar(4, 4, begin=10, end=50)
    assert steps_done(preparation, evaluation) == 4000


def test_a_counter_without_a_total():
    assert steps_done(bar(30), bar(220)) == 220
    assert steps_done(TRAINING, bar(46)) == 200
    assert steps_done(EVALUATION, bar(220)) == 220


def test_both_halves_of_a_bar_are_one_counter():
    halves = (bar(4799, 9600, begin=0, end=400), bar(5100, 9600, begin=410, end=800))
    assert steps_done(*halves) == 5100


@pytest.mark.parametrize(
    "series",
    [
        (bar(400, 400, begin=10, end=300), bar(3, 400, begin=0, end=500)),
        (bar(207, 5004, text="Epoch 1:   4%| 207/5004 ["),),
    ],
)
def test_a_counter_that_starts_anew_with_each_epoch_is_not_the_number_of_steps(series):
    assert starts_anew(series)
    assert steps_done(*series) is None


def test_the_first_epoch_counts_steps():
    assert steps_done(bar(207, 5004, text="Epoch 0:   4%| 207/5004 [")) == 207


def test_two_announced_totals_tell_nothing():
    assert training_series([TRAINING, EVALUATION], {9600, 50}) == ()
    assert training_series([TRAINING, EVALUATION], {9600}) == (TRAINING,)


def test_announcements_are_read_with_separators():
    found = with_series(announced="2,805", fails=False)
    assert announced_totals(found.events) == {2805}


def test_a_data_bar_never_counts():
    data = msgspec.structs.replace(TRAINING, last_step=None, total_steps=None)
    assert training_series([data]) == ()


def test_a_complete_evaluation_is_not_the_end_of_training():
    complete = bar(50, 50, begin=400, end=900)
    assert not run_finished(with_series(TRAINING, complete, fails=False))
    ended = bar(9600, 9600, begin=500, end=890)
    assert run_finished(with_series(msgspec.structs.replace(TRAINING, last_step=4799), ended, EVALUATION, fails=False))


def test_each_process_shows_its_last_sign_once():
    data = msgspec.structs.replace(bar(0, end=950), last_step=None, total_steps=None)
    other = bar(7, 50, rank=1)
    assert latest([TRAINING, EVALUATION, data, other]) == [EVALUATION, other]
    found, pack = with_series(TRAINING, EVALUATION, data), pack_of()
    attribution = attribute(found, pack.causal)
    marks = timeline(found, attribution, EvidenceBook(found), pack.causal)
    assert [mark.text for mark in marks if mark.kind == "progress"] == ["46/50"]
