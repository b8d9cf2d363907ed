"""A forecast corrected by the numbers of an out-of-memory message or by a snapshot."""

from __future__ import annotations

import pytest

from firstfault.errors import UnreadableInputError
from firstfault.memory import closed_form, tiers
from firstfault.memory.calibrate import Moment, calibrate
from firstfault.memory.measurement import Measurement, of_facts, of_report
from firstfault.memory.models import bundled
from firstfault.memory.plan import Device, MemoryPlan, Optimizer, Parallel
from firstfault.model.memory_report import CallSite, DeviceMemory, FailedAllocation, MemoryReport, MomentReport

GIB = 1 << 30
MIB = 1 << 20
PLAN = MemoryPlan(
    config=bundled()["Qwen/Qwen3-0.6B"],
    micro_batch=8,
    seq_len=300,
    optimizer=Optimizer(implementation="fused"),
    parallel=Parallel(strategy="dp", world=4),
)
FACTS = {
    "oom.requested_bytes": round(5.44 * GIB),
    "oom.allocated_bytes": round(19.4 * GIB),
    "oom.total_bytes": round(22.49 * GIB),
    "oom.outside_bytes": 500 * MIB,
    "oom.other_process_bytes": 1 * GIB,
    "oom.phase": "gather",
}


def peaks(made) -> dict[str, int]:
    return {phase.name: phase.allocated.mid for phase in made.phases}


def test_the_difference_at_the_same_request_is_carried_to_every_phase():
    plain = closed_form.forecast(PLAN)
    made, plan = tiers.forecast(PLAN, measured=of_facts(FACTS, "run.log"))
    before = next(live for phase, _, _, live in closed_form.moments(PLAN, (5 * GIB, 6 * GIB)) if phase == "gather")
    difference = FACTS["oom.allocated_bytes"] - before
    assert plan.difference_bytes == difference
    for name, size in peaks(plain).items():
        expected = size if name == "load" else size + difference
        assert peaks(made)[name] == pytest.approx(expected, abs=1024)
    assert (made.tier, made.verdict) == ("measured", "does not fit")
    assert made.first_oom is not None
    assert made.first_oom.phase == "gather"
    assert all(sum(part.bytes for part in phase.components) == phase.allocated.mid for phase in made.phases)


def test_device_and_context_are_taken_over_less_other_processes():
    made, plan = tiers.forecast(PLAN, measured=of_facts(FACTS, "run.log"))
    assert plan.device == Device(memory_bytes=round(22.49 * GIB) - GIB, context_bytes=500 * MIB)
    assert made.limit == round(22.49 * GIB) - GIB
    sources = {one.fact: one.source for one in made.assumptions}
    assert sources["device memory"] == "run.log less 1 GiB of other processes"
    assert "device memory" not in [one.fact for one in made.missing]


def test_less_than_computed_is_a_negative_part():
    less = FACTS | {"oom.allocated_bytes": round(18.0 * GIB)}
    made, plan = tiers.forecast(PLAN, measured=of_facts(less, "run.log"))
    assert plan.difference_bytes < 0
    peak = made.phases[made.peak]
    assert next(part.bytes for part in peak.components if part.name == "not explained") < 0
    assert sum(part.bytes for part in peak.components) == peak.allocated.mid


def test_a_request_that_the_plan_has_nowhere_corrects_no_bytes_and_says_so():
    other = FACTS | {"oom.requested_bytes": round(3.33 * GIB)}
    made, plan = tiers.forecast(PLAN, measured=of_facts(other, "run.log"))
    assert plan.difference_bytes == 0
    assert plan.device.memory_bytes is not None
    assert "has nowhere" in made.notes[0]


def test_a_small_request_tells_no_moment():
    made, plan = tiers.forecast(PLAN, measured=of_facts(FACTS | {"oom.requested_bytes": 20 * MIB}, "run.log"))
    assert plan.difference_bytes == 0
    assert "too small to tell" in made.notes[0]


def test_a_run_that_is_far_from_its_plan_is_said_to_be_another():
    far = FACTS | {"oom.allocated_bytes": round(12 * GIB)}
    made, _ = tiers.forecast(PLAN, measured=of_facts(far, "run.log"))
    assert any("another" in note for note in made.notes)


def test_what_failed_is_never_said_to_fit():
    less = FACTS | {"oom.allocated_bytes": round(12 * GIB), "oom.total_bytes": 80 * GIB}
    made, _ = tiers.forecast(PLAN, measured=of_facts(less, "run.log"))
    assert made.verdict == "tight"
    assert "it failed" in made.notes[-1]


@pytest.mark.parametrize("name", ["oom.requested_bytes", "oom.allocated_bytes"])
def test_a_log_without_the_numbers_is_refused(name):
    with pytest.raises(UnreadableInputError):
        of_facts({key: value for key, value in FACTS.items() if key != name}, "run.log")


def test_of_several_requests_of_that_size_the_one_in_the_same_phase_and_nearest_is_taken():
    measured = Measurement(source="run.log", allocated=100, request=(5, 10), phase="backward")
    moments = [Moment("forward", "logits", 8, 100), Moment("backward", "logits", 8, 90), Moment("backward", "logits", 8, 50)]
    assert calibrate(PLAN, measured, moments, 0).plan.difference_bytes == 10


def report(*, failed: FailedAllocation | None = None, steps: int = 1, peak: int = 20 * GIB) -> MemoryReport:
    moment = MomentReport(event=9, after_s=1.0, allocated_bytes=peak, reserved_bytes=None)
    device = DeviceMemory(
        device=0,
        reserved_bytes=0,
        allocated_bytes=0,
        requested_bytes=0,
        active_bytes=0,
        free_bytes=0,
        largest_free_bytes=0,
        steps=steps,
        peak=moment,
        failed=failed,
    )
    return MemoryReport(devices=(device,))


def test_the_peak_of_a_snapshot_with_whole_steps_is_that_of_the_forecast():
    made, _ = tiers.forecast(PLAN, measured=of_report(report(peak=25 * GIB), "step.pickle"))
    assert made.phases[made.peak].allocated.mid == pytest.approx(25 * GIB, abs=1024)
    assert made.tier == "measured"


def test_a_failed_request_of_a_snapshot_is_compared_to_the_byte():
    moment = MomentReport(event=9, after_s=1.0, allocated_bytes=19 * GIB, reserved_bytes=None)
    failed = FailedAllocation(
        request_bytes=4 * 8 * 300 * 151936 * 4,
        device_free_bytes=0,
        reason="full",
        why="",
        count=1,
        moment=moment,
        site=CallSite(phase="forward"),
    )
    measured = of_report(report(failed=failed), "oom.pickle")
    made, plan = tiers.forecast(PLAN, measured=measured)
    assert abs(plan.difference_bytes) < GIB
    assert "gather" in made.notes[0]


@pytest.mark.parametrize("made", [MemoryReport(), report(steps=0)])
def test_a_snapshot_without_a_whole_step_is_refused(made):
    with pytest.raises(UnreadableInputError):
        of_report(made, "step.pickle")
