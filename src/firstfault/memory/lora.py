"""Low-rank adapters as PEFT computes them beside a frozen matrix."""

from __future__ import annotations

from firstfault.memory import operations as op
from firstfault.memory.plan import Lora
from firstfault.memory.shapes import Matrix
from firstfault.memory.tape import Parameter, Tape, Tensor


def adapted_linear(
    tape: Tape,
    x: Tensor,
    weight: Parameter,
    bias: Parameter | None,
    pair: tuple[Parameter, Parameter],
    matrix: Matrix,
    lora: Lora,
) -> Tensor:
    """`base(x) + lora_B(lora_A(dropout(x))) * scaling`, the adapter in its own type."""
    base = op.linear(tape, x, weight, matrix.out, matrix.into, bias=bias)
    inner = op.dropout(tape, op.cast(tape, x, pair[0].width), lora.dropout)
    low = op.linear(tape, inner, pair[0], lora.rank, matrix.into)
    del inner
    high = op.linear(tape, low, pair[1], matrix.out, lora.rank)
    del low
    summed = op.add(tape, base, op.scale(tape, high))
    del high
    return op.cast(tape, summed, base.width)
