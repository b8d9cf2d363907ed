"""Attention: rotary positions and the kernels, with what each saves and needs for a moment."""

from __future__ import annotations

from firstfault.memory.operations import add, cast, copy, dropout, saves_result, scale
from firstfault.memory.setting import Setting
from firstfault.memory.tape import Gradients, Tape, Tensor


def rotary(tape: Tape, x: Tensor, *, share: float = 1.0) -> Tensor:
    """`x * cos + rotate_half(x) * sin` on the first `share` of each head."""
    if share < 1.0:
        turned = rotary(tape, Tensor(x.storage, int(x.numel * share), x.width, None), share=1.0)
        return _joined(tape, x, turned, share)
    numel, width = x.numel, x.width
    straight = scale(tape, x)
    negated = tape.new(numel // 2, width)
    half_turned = tape.new(numel, width)
    del negated

    def turn_back(g: Tensor) -> Gradients:
        by_sine = tape.new(numel, width)
        negated = tape.new(numel // 2, width)
        second = tape.new(numel, width)
        del negated
        first = tape.new(numel, width)
        del first, by_sine
        return (second,)

    half_turned.node = None
    crossed = tape.record(tape.new(numel, width), (x,), turn_back)
    del half_turned
    return add(tape, straight, crossed)


def _joined(tape: Tape, x: Tensor, turned: Tensor, share: float) -> Tensor:
    """The rotated part put in front of the rest."""
    numel, width = x.numel, x.width

    def backward(g: Tensor) -> Gradients:
        rotated = [tape.new(int(numel * share), width) for _ in range(3)]
        padded = tape.new(numel, width)
        other = tape.new(numel, width)
        del rotated, other
        return (padded,)

    out = tape.new(numel, width)
    del turned
    return tape.record(out, (x,), backward)


def attend(
    tape: Tape,
    setting: Setting,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    heads: int,
    kv_heads: int,
    causal: bool,
    p: float = 0.0,
    caps: bool = False,
    crosses: bool = False,
) -> Tensor:
    """The attention output, `q.numel` elements in the layout that the output projection reads."""
    if setting.autocast:
        q, k, v = cast(tape, q, setting.compute), cast(tape, k, setting.compute), cast(tape, v, setting.compute)
    kernel = setting.kernel(q.width, heads != kv_heads, crosses)
    if kernel == "flash":
        out = _fused(tape, setting, q, k, v, heads, kv_heads)
        # The kernel answers in the layout of q: heads first where they were put together anew.
        return copy(tape, out) if setting.heads_first else out
    if kernel == "efficient":
        groups = heads // kv_heads
        if groups > 1 and kv_heads > 1:
            # A single head is repeated by a view.
            k, v = copy(tape, k, k.numel * groups), copy(tape, v, v.numel * groups)
        mask = tape.new(setting.rows * setting.seq, q.width) if setting.padded else None
        return _fused(tape, setting, q, k, v, heads, heads, mask)
    if kernel == "math":
        return _math(tape, setting, q, k, v, heads // kv_heads, heads, causal, p)
    return _eager(tape, setting, q, k, v, heads // kv_heads, heads, p, caps)


def _fused(
    tape: Tape, setting: Setting, q: Tensor, k: Tensor, v: Tensor, heads: int, kv_heads: int, mask: Tensor | None = None
) -> Tensor:
    """A kernel that keeps q, k, v, the mask, its output and the log of the sums (fp32, one a head and row)."""
    out = tape.new(q.numel, q.width)
    sums = tape.new(setting.rows * heads, 4)
    nq, nk, width = q.numel, k.numel, q.width
    kept = (q, k, v, mask, Tensor(out.storage, out.numel, width), sums)

    def backward(g: Tensor, saved: tuple[Tensor | None, ...] = kept) -> Gradients:
        made = (tape.new(nq, width), tape.new(nk, width), tape.new(nk, width))
        if setting.device_kernels:
            scratch = [tape.new(nq, 4, "workspaces"), tape.new(setting.rows * heads, 4, "workspaces")]
            if heads != kv_heads:
                scratch += [tape.new(nq, width, "workspaces"), tape.new(nq, width, "workspaces")]
            del scratch
        return made

    return tape.record(out, (q, k, v), backward)


def _scores_backward(tape: Tape, scores: int, width: int) -> None:
    """The gradient of a softmax for a moment beside its input's."""
    made = tape.new(scores, width)
    del made


def _math(
    tape: Tape, setting: Setting, q: Tensor, k: Tensor, v: Tensor, groups: int, heads: int, causal: bool, p: float
) -> Tensor:
    """torch's plain path: in fp32, grouped heads repeated, probabilities materialised."""
    narrow = q.width
    q, k, v = cast(tape, q, 4), cast(tape, k, 4), cast(tape, v, 4)
    if groups > 1:
        k, v = copy(tape, k, k.numel * groups), copy(tape, v, v.numel * groups)
    mask = tape.new(setting.seq * setting.seq, q.width) if causal else None
    qs = scale(tape, q)
    ks = scale(tape, k)
    scores = product(tape, qs, ks, setting.rows * heads * setting.seq, setting)
    del qs, ks, k
    probabilities = softmax(tape, scores, scores.width, safe=True)
    del mask, scores
    probabilities = dropout(tape, probabilities, p)
    out = product(tape, probabilities, v, q.numel, setting)
    if narrow != 4:
        # The probabilities are returned besides, and nobody takes them.
        returned = tape.new(probabilities.numel, narrow)
        del returned
    return cast(tape, out, narrow)


def _eager(
    tape: Tape, setting: Setting, q: Tensor, k: Tensor, v: Tensor, groups: int, heads: int, p: float, caps: bool
) -> Tensor:
    """HF's own attention: scores in the type of the model (Gemma 2 caps them by tanh), softmax in fp32, back again, dropout."""
    if groups > 1:
        k, v = copy(tape, k, k.numel * groups), copy(tape, v, v.numel * groups)
    scores = product(tape, q, k, setting.rows * heads * setting.seq, setting)
    scores = scale(tape, scores)
    if caps:
        scores = scale(tape, scores)
        scores = saves_result(tape, scores)
        scores = scale(tape, scores)
    if setting.masked:
        scores = add(tape, scores, Tensor(None, 0, scores.width))
    width = scores.width
    probabilities = softmax(tape, scores, 4 if setting.upcasts_softmax else width)
    del scores
    if setting.narrows_late:
        probabilities = cast(tape, dropout(tape, probabilities, p), width)
    else:
        probabilities = dropout(tape, cast(tape, probabilities, width), p)
    out = product(tape, probabilities, v, q.numel, setting)
    del probabilities
    return copy(tape, out)


def softmax(tape: Tape, x: Tensor, width: int, *, safe: bool = False) -> Tensor:
    """Softmax saves its result; the safe one looks for rows that are masked whole."""
    numel, back = x.numel, x.width
    out = tape.new(numel, width)
    if safe:
        masked = tape.new(numel, 1)
        chosen = tape.new(numel, width)
        del masked
        out = chosen
    kept = Tensor(out.storage, numel, width)

    def backward(g: Tensor, saved: Tensor = kept) -> Gradients:
        return (tape.new(numel, back),)

    return tape.record(out, (x,), backward)


def product(tape: Tape, a: Tensor, b: Tensor, numel: int, setting: Setting) -> Tensor:
    """`torch.matmul` of batches of matrices: operands that are not contiguous are copied first, and the copies saved."""
    na, nb, wa, wb = a.numel, b.numel, a.width, b.width
    if setting.batch > 1:
        a = copy(tape, a) if a.numel < numel else a
        b = copy(tape, b)
    out = tape.new(numel, a.width)

    def backward(g: Tensor, saved: tuple[Tensor, Tensor] = (a, b)) -> Gradients:
        return (tape.new(na, wa), tape.new(nb, wb))

    return tape.record(out, (a, b), backward)
