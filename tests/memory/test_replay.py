"""What a trace comes to: peaks by phase, what lay there, and where it fails."""

from __future__ import annotations

from firstfault.memory.plan import Allocator
from firstfault.memory.replay import Replay

MIB = 1 << 20
STEP = [
    ["p", "load"],
    ["a", 1, 100 * MIB, "weights", ""],
    ["p", "forward"],
    ["a", 2, 40 * MIB, "activations", "layers.0"],
    ["a", 3, 300, "activations", "layers.0"],
    ["p", "backward"],
    ["a", 4, 100 * MIB, "activations", "layers.0"],
    ["k", 4, "gradients"],
    ["f", 2],
    ["f", 3],
    ["p", "optimizer"],
]


def test_each_phase_has_its_highest_point_by_kind():
    found = Replay(STEP, Allocator()).peaks
    assert found["load"].kinds == {"weights": 100 * MIB}
    assert found["forward"].live == 140 * MIB + 512
    assert found["backward"].live == 240 * MIB + 512
    assert found["optimizer"].kinds["gradients"] == 100 * MIB
    assert found["optimizer"].kinds["activations"] == 0
    assert found["optimizer"].live == 200 * MIB
    assert found["optimizer"].reserved == 242 * MIB


def test_a_device_that_is_too_small_fails_at_the_request():
    run = Replay(STEP, Allocator(), limit=200 * MIB)
    assert run.failed is not None
    assert (run.failed.phase, run.failed.module, run.failed.request) == ("backward", "layers.0", 100 * MIB)
    assert run.failed.allocated == 140 * MIB + 512
    assert "optimizer" not in run.peaks


def test_bytes_that_a_measurement_shows_besides_lie_there_from_forward_on():
    run = Replay(STEP, Allocator(), extra=10 * MIB)
    assert run.peaks["load"].live == 100 * MIB
    assert run.peaks["forward"].kinds["not explained"] == 10 * MIB
    assert run.peaks["optimizer"].live == 210 * MIB


def test_requests_of_a_watched_size_are_told_with_what_was_there_before():
    assert Replay(STEP, Allocator(), watched=(30 * MIB, 50 * MIB)).moments == [("forward", "activations", 40 * MIB, 100 * MIB)]


def test_what_was_taken_before_the_trace_may_go_in_it():
    assert Replay([["f", 99], ["k", 98, "weights"], ["p", "load"]], Allocator()).live == 0
