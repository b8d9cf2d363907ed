"""Norms as transformers writes them, with what autograd keeps of each."""

from __future__ import annotations

from firstfault.memory.operations import cast, needs_gradient, weigh
from firstfault.memory.tape import Gradients, Parameter, Tape, Tensor


def rms_norm(
    tape: Tape, x: Tensor, weight: Parameter | None, dim: int, *, out_width: int = 0, weight_in_fp32: bool = False
) -> Tensor:
    """RMSNorm of Llama: computed in fp32, cast back, then weighed. Gemma weighs before it casts back (`weight_in_fp32`)."""
    width = out_width or x.width
    numel, rows = x.numel, x.numel // dim
    wide = cast(tape, x, 4)
    square = tape.new(numel, 4)
    del square

    def power_back(g: Tensor, saved: Tensor = wide) -> Gradients:
        mean = tape.new(numel, 4)
        power, doubled = tape.new(numel, 4), tape.new(numel, 4)
        made = tape.new(numel, 4)
        del mean, power, doubled
        return (made,)

    root = tape.record(tape.new(rows, 4), (wide,), power_back)

    def norm_back(g: Tensor, saved: tuple[Tensor, Tensor] = (wide, root)) -> Gradients:
        straight, product = tape.new(numel, 4), tape.new(numel, 4)
        del product
        return (straight, tape.new(rows, 4))

    normed = tape.record(tape.new(numel, 4), (wide, root), norm_back)
    del wide, root
    if weight is None:
        return cast(tape, normed, width)
    if weight_in_fp32:
        weighed = weigh(tape, normed, weight, width=4)
        del normed
        return cast(tape, weighed, width)
    narrow = cast(tape, normed, width)
    del normed
    return weigh(tape, narrow, weight)


def layer_norm(tape: Tape, x: Tensor, weight: Parameter, dim: int, *, width: int = 0) -> Tensor:
    """`F.layer_norm`: one kernel that saves its input, mean and deviation; autocast runs it in fp32 (`width` 4)."""
    x = cast(tape, x, width or x.width)
    numel, out_width, rows = x.numel, x.width, x.numel // dim
    out = tape.new(numel, out_width)
    moments = tape.new(rows * 2, 4)
    for_w, size = weight.trained, weight.numel
    back = needs_gradient(x)

    def backward(g: Tensor, saved: tuple[Tensor, Tensor] = (x, moments)) -> Gradients:
        made = tape.new(numel, out_width) if back else None
        return (made, tape.new(size, weight.width, "gradients") if for_w else None)

    return tape.record(out, (x, weight), backward)
