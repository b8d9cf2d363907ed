"""A mixture of experts, each token sent to `top_k` of them, with the rows of an expert gathered and added back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.memory import operations as op
from firstfault.memory.tape import Gradients, Tensor

if TYPE_CHECKING:
    from firstfault.memory.layers import LayerCode, Weights
    from firstfault.memory.shapes import Layer


def mixture(code: LayerCode, layer: Layer, weights: Weights, x: Tensor) -> Tensor:
    """The routed experts, and the shared one where there is one; every row of every chosen expert is kept for backward."""
    tape, rows, hidden = code.tape, code.setting.rows, code.shape.hidden
    scores = code.linear(layer, weights, "router", x)
    scores = op.saves_result(tape, scores, 4)
    gathered = op.copy(tape, x, rows * layer.top_k * hidden)
    gate_up, down = layer.matrices["expert_gate_up"], layer.matrices["expert_down"]
    joined = op.linear(tape, gathered, weights.matrices["expert_gate_up"], gate_up.out, gate_up.into)
    del gathered
    gate, up = op.split(tape, joined, [joined.numel // 2] * 2)
    del joined
    product = op.multiply(tape, code.activation(gate), up)
    del gate, up
    out = op.linear(tape, product, weights.matrices["expert_down"], down.out, down.into)
    del product
    routed = _weighed_sum(code, out, scores, rows * hidden)
    del out
    if "gate" in layer.matrices:
        shared = code.feed_forward(layer, weights, x)
        gate = op.saves_result(tape, code.linear(layer, weights, "shared_gate", x))
        routed = op.add(tape, routed, op.multiply(tape, gate, shared))
    return routed


def _weighed_sum(code: LayerCode, rows: Tensor, scores: Tensor, numel: int) -> Tensor:
    """Each row times its score, added up by token."""
    tape, size, width = code.tape, rows.numel, rows.width
    weighed = tape.new(size, width)
    out = tape.new(numel, width)
    del weighed
    count, wide = scores.numel, scores.width

    def backward(g: Tensor, saved: tuple[Tensor, Tensor] = (rows, scores)) -> Gradients:
        spread = tape.new(size, width)
        made = (tape.new(size, width), tape.new(count, wide))
        del spread
        return made

    return tape.record(out, (rows, scores), backward)
