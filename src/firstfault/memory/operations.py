"""The operations of transformer code: what each allocates, what autograd saves for it, and what its backward allocates."""

from __future__ import annotations

from firstfault.memory.tape import Gradients, Parameter, Tape, Tensor


def needs_gradient(value: Tensor | Parameter) -> bool:
    """Whether a gradient flows into `value`."""
    return value.trained if isinstance(value, Parameter) else value.node is not None


def cast(tape: Tape, x: Tensor, width: int) -> Tensor:
    """`x.to(dtype)`: nothing where the width is right already."""
    if x.width == width:
        return x
    numel, back = x.numel, x.width
    return tape.record(tape.new(numel, width), (x,), lambda g: (tape.new(numel, back),))


def cast_weight(tape: Tape, weight: Parameter, width: int) -> Tensor | Parameter:
    """The weight in the type of autocast, cached until autocast ends; the gradient comes back in the weight's own type."""
    if weight.width == width:
        return weight
    if weight.casts is None or not tape.recording:
        made = tape.new(weight.numel, width, "weights in low precision")
        numel, back = weight.numel, weight.width
        tape.record(made, (weight,), lambda g: (tape.new(numel, back),))
        if not weight.trained:
            return made
        weight.casts = made
    return weight.casts


def linear(
    tape: Tape, x: Tensor, weight: Parameter, out_features: int, in_features: int, *, bias: Parameter | None = None
) -> Tensor:
    """`F.linear`: saves its input for the weight's gradient."""
    rows = x.numel // in_features
    width = x.width
    out = tape.new(rows * out_features, width)
    wide = cast_weight(tape, weight, width)
    for_x, for_w = needs_gradient(x), needs_gradient(wide)
    saved = x if for_w else None
    weight_copy = wide if isinstance(wide, Tensor) and for_x else None
    size = weight.numel
    inputs: tuple[Tensor | Parameter, ...] = (x, wide) if bias is None else (x, wide, bias)

    def backward(g: Tensor, saved: Tensor | None = saved, weight_copy: Tensor | None = weight_copy) -> Gradients:
        made: list[Tensor | None] = [tape.new(rows * in_features, width) if for_x else None]
        made.append(tape.new(size, width, "gradients") if for_w else None)
        if bias is not None:
            made.append(tape.new(bias.numel, bias.width, "gradients") if bias.trained else None)
        return made

    return tape.record(out, inputs, backward)


def add(tape: Tape, a: Tensor, b: Tensor) -> Tensor:
    """`a + b` of equal shapes: nothing is saved, the gradient goes to both."""
    width = max(a.width, b.width)
    wa, wb = a.width, b.width
    out = tape.new(max(a.numel, b.numel), width)
    na, nb = a.numel, b.numel

    def backward(g: Tensor) -> Gradients:
        return (g if wa == g.width else tape.new(na, wa), g if wb == g.width else tape.new(nb, wb))

    return tape.record(out, (a, b), backward)


def multiply(tape: Tape, a: Tensor, b: Tensor) -> Tensor:
    """`a * b` of equal shapes: each is saved for the other's gradient."""
    out = tape.new(max(a.numel, b.numel), max(a.width, b.width))
    for_a, for_b = needs_gradient(a), needs_gradient(b)
    na, wa, nb, wb = a.numel, a.width, b.numel, b.width

    def backward(
        g: Tensor, saved_a: Tensor | None = a if for_b else None, saved_b: Tensor | None = b if for_a else None
    ) -> Gradients:
        return (tape.new(na, wa) if for_a else None, tape.new(nb, wb) if for_b else None)

    return tape.record(out, (a, b), backward)


def scale(tape: Tape, x: Tensor) -> Tensor:
    """`x * number`: nothing is saved."""
    numel, width = x.numel, x.width
    return tape.record(tape.new(numel, width), (x,), lambda g: (tape.new(numel, width),))


def weigh(tape: Tape, x: Tensor, weight: Parameter, *, width: int = 0) -> Tensor:
    """`weight * x` along the last dimension: `x` is saved only where the weight is trained."""
    numel, back = x.numel, x.width
    width = width or max(x.width, weight.width)
    out = tape.new(numel, width)
    for_w = weight.trained
    size, own = weight.numel, weight.width

    def backward(g: Tensor, saved: Tensor | None = x if for_w else None) -> Gradients:
        gx = tape.new(numel, back)
        if not for_w:
            return (gx, None)
        product = tape.new(numel, width)
        made = tape.new(size, own, "gradients")
        del product
        return (gx, made)

    return tape.record(out, (x, weight), backward)


def pointwise(tape: Tape, x: Tensor) -> Tensor:
    """SiLU, GELU, tanh and their like: one tensor of the input's size is saved (the input)."""
    numel, width = x.numel, x.width
    out = tape.new(numel, width)

    def backward(g: Tensor, saved: Tensor = x) -> Gradients:
        return (tape.new(numel, width),)

    return tape.record(out, (x,), backward)


def saves_result(tape: Tape, x: Tensor, width: int = 0) -> Tensor:
    """ReLU, tanh, softmax: the result is saved; `width` of the result where it differs (softmax in fp32)."""
    numel, back = x.numel, x.width
    out = tape.new(numel, width or x.width)
    if not tape.recording or x.node is None:
        return out
    kept = Tensor(out.storage, out.numel, out.width)

    def backward(g: Tensor, saved: Tensor = kept) -> Gradients:
        return (tape.new(numel, back),)

    return tape.record(out, (x,), backward)


def dropout(tape: Tape, x: Tensor, p: float) -> Tensor:
    """`F.dropout` on CUDA: a mask of one byte an element is saved; nothing happens at p = 0."""
    if p <= 0:
        return x
    numel, width = x.numel, x.width
    out = tape.new(numel, width)
    mask = tape.new(numel, 1, "dropout masks")

    def backward(g: Tensor, saved: Tensor = mask) -> Gradients:
        return (tape.new(numel, width),)

    return tape.record(out, (x,), backward)


def copy(tape: Tape, x: Tensor, numel: int = 0) -> Tensor:
    """A contiguous copy, of `numel` elements where rows are repeated or dropped; its gradient is one of the input's size."""
    back, width, size = x.numel, x.width, numel or x.numel
    same = size == back

    def backward(g: Tensor) -> Gradients:
        return (g if same else tape.new(back, width),)

    return tape.record(tape.new(size, width), (x,), backward)


def split(tape: Tape, x: Tensor, sizes: list[int]) -> list[Tensor]:
    """Slices of one tensor, which share its bytes; their gradients are put together in one of its size."""
    if x.node is None or not tape.recording:
        return [Tensor(x.storage, size, x.width) for size in sizes]
    numel, width = x.numel, x.width
    missing = [len(sizes)]

    def joined(g: Tensor) -> Gradients:
        missing[0] -= 1
        return (tape.new(numel, width) if not missing[0] else g,)

    parts = []
    for size in sizes:
        part = Tensor(x.storage, size, width)
        parts.append(tape.record(part, (x,), joined))
    return parts


def gelu_written_out(tape: Tape, x: Tensor, *, autocast: bool = False) -> Tensor:
    """`0.5 * x * (1 + tanh(c * (x + 0.044715 * x**3)))`, each step a kernel of its own; autocast takes the power in fp32."""
    half = scale(tape, x)
    cube = _cubed(tape, cast(tape, x, 4) if autocast else x)
    inner = add(tape, x, scale(tape, cube))
    del cube
    tanh = saves_result(tape, scale(tape, inner))
    del inner
    numel, width = tanh.numel, tanh.width
    plus = tape.record(tape.new(numel, width), (tanh,), lambda g: (g,))
    del tanh
    return multiply(tape, half, plus)


def _cubed(tape: Tape, x: Tensor) -> Tensor:
    numel, width = x.numel, x.width

    def backward(g: Tensor, saved: Tensor = x) -> Gradients:
        power, tripled = tape.new(numel, width), tape.new(numel, width)
        made = tape.new(numel, width)
        del power, tripled
        return (made,)

    return tape.record(tape.new(numel, width), (x,), backward)
