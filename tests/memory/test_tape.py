from __future__ import annotations

from firstfault.memory.operations import add, linear, multiply, pointwise
from firstfault.memory.tape import Parameter, Storage, Tape, Tensor

MB = 1 << 20


def test_a_storage_lives_until_its_last_reference_goes_and_is_rounded_to_512_bytes():
    tape = Tape()
    first = tape.new(1, 4)
    second = Tensor(first.storage, 1, 4)
    assert tape.live == 512
    del first
    assert tape.live == 512
    del second
    assert tape.live == 0


def test_each_phase_has_its_own_peak_with_what_lay_there():
    tape = Tape()
    held = Storage(tape, 4 * MB, "weights")
    tape.enter("forward")
    passing = Storage(tape, MB, "activations")
    del passing
    tape.enter("backward")
    assert tape.peaks["forward"] == (5 * MB, {"weights": 4 * MB, "activations": MB})
    assert tape.peaks["backward"][0] == held.size


def test_backward_keeps_the_input_of_a_matrix_until_its_gradient_is_made():
    tape = Tape()
    weight = Parameter(MB, 4)
    x = tape.new(MB, 4)
    out = linear(tape, x, weight, 1024, 1024)
    del x
    assert tape.live == 8 * MB
    node = out.node
    del out
    tape.backward(node, tape.new(MB, 4))
    del node
    assert weight.grad is not None
    assert (tape.live, weight.grad.kind) == (4 * MB, "gradients")


def test_a_frozen_matrix_keeps_nothing_but_its_output():
    tape = Tape()
    x = tape.record(tape.new(MB, 4), (Parameter(1, 4),), lambda g: (None,))
    out = linear(tape, x, Parameter(MB, 4, trained=False), 1024, 1024)
    del x
    assert tape.live == out.numel * 4


def test_a_weight_that_is_used_twice_waits_for_both_gradients_and_their_sum_is_a_third_tensor():
    tape = Tape()
    weight = Parameter(MB, 4)
    parts = [tape.record(tape.new(1, 4), (weight,), lambda g: (tape.new(MB, 4),)) for _ in range(2)]
    out = add(tape, *parts)
    parts.clear()
    tape.enter("backward")
    tape.backward(out.node, tape.new(1, 4))
    assert tape.peaks["backward"][0] >= 12 * MB
    assert weight.grad is not None and weight.grad.size == 4 * MB


def test_a_kept_graph_keeps_what_it_saved():
    tape = Tape()
    x = tape.record(tape.new(MB, 4), (Parameter(1, 4),), lambda g: (None,))
    out = multiply(tape, pointwise(tape, x), x)
    del x
    before = tape.live
    tape.backward(out.node, tape.new(MB, 4), keeps_graph=True)
    assert tape.live == before


def test_the_first_request_beyond_the_limit_is_remembered():
    tape = Tape()
    tape.limit = 2 * MB
    tape.enter("forward")
    held = [
        Storage(tape, MB, "weights"),
        Storage(tape, MB, "activations"),
        Storage(tape, MB, "logits"),
        Storage(tape, MB, "late"),
    ]
    assert tape.over == ("forward", MB, "logits", 2 * MB)
    assert len(held) == 4
