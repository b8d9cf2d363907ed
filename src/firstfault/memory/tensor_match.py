"""Which tensor a failed request was: products of the sizes of a model and its batch that are as large as the request.

A size alone proves nothing. Only tensors that the frames allow are compared, what several tensors share is said to be shared,
and a product with a hole counts only where hardly any request would fill it with a whole number.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

from firstfault.units import format_size

MIB = 1 << 20
_SEGMENT = 2 * MIB
"""The allocator asks the driver for multiples of this."""
_SMALLEST = 20 * MIB
"""Requests between 1 and 10 MiB are all printed as 20 MiB: nothing up to there has a size of its own."""
_LEAST_STEP = 8
"""How many times wider than the printed number the steps of a solved factor are: one request in eight fits by chance."""
_MOST = {"GPUs": 16, "ranks": 1024, "batches": 64, "samples": 4096}
_REDUCE_BUCKET = 500_000_000


class Sizes(NamedTuple):
    """What is known of the model and the batch; 0 stands for unknown. `matrices` are weights: name, rows, columns.

    `length` counts tokens of a sample and holds for the failing batch; `layer` and `elements` count parameters, `bucket` the
    elements of a reduce bucket, `widths` the bytes an element may have.
    """

    vocabulary: int = 0
    batch: int = 0
    length: int = 0
    hidden: int = 0
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    inner: int = 0
    layer: int = 0
    elements: int = 0
    matrices: tuple[tuple[str, int, int], ...] = ()
    gpus: int = 0
    ranks: int = 0
    bucket: int = 0
    widths: tuple[int, ...] = (4, 2)


class Match(NamedTuple):
    """A tensor of the right size: its kind, how it is called, and the product in words, or two that fit."""

    tensor: str
    words: str
    arithmetic: str


class _Product(NamedTuple):
    """Elements of a tensor as factors; 0 is the one that is not known, `hole` its name."""

    tensor: str
    words: str
    factors: tuple[int, ...]
    hole: str = ""


def bounds(requested_bytes: int, *, printed: bool = True) -> tuple[float, float] | None:
    """Bytes that a tensor may have whose request was printed so: above the first number, up to the second.

    Requests are rounded up to 2 MiB and printed with two decimals of MiB or GiB. None where the size says nothing.
    """
    if requested_bytes <= _SMALLEST:
        return None
    half = 0.005 * ((1 << 30) if requested_bytes >= 1 << 30 else MIB) if printed else 0.0
    return requested_bytes - half - _SEGMENT, requested_bytes + half


def matches(
    requested_bytes: int, consumer: str | None, phase: str | None, sizes: Sizes, *, printed: bool = True
) -> list[Match]:
    """The tensors that the request may be, one a kind, among those that the consumer and phase of its frames allow."""
    limits = bounds(requested_bytes, printed=printed)
    if limits is None:
        return []
    found: dict[tuple[str, str], dict[int, str]] = {}
    for product in _products(consumer, phase, sizes):
        for width in sizes.widths:
            factors = _solved(product, width, limits)
            if factors is not None:
                found.setdefault((product.tensor, product.words), {}).setdefault(width, spelled(factors, width))
    return [Match(tensor, words, " or ".join(read.values())) for (tensor, words), read in found.items()]


def tokens_of(requested_bytes: int, vocabulary: int, width: int) -> int:
    """How many tokens logits of that size have, to three digits; 0 where they would be too few to say."""
    count = requested_bytes / (vocabulary * width)
    step = max(1, 10 ** (len(str(int(count))) - 3))
    return round(count / step) * step if count >= 64 else 0


def spelled(factors: tuple[int, ...], width: int) -> str:
    """`4 x 1,024 x 151,936 x 4 bytes = 2.32 GiB`."""
    return f"{' x '.join(f'{one:,}' for one in factors)} x {width} bytes = {format_size(prod(factors) * width)}"


def _solved(product: _Product, width: int, limits: tuple[float, float]) -> tuple[int, ...] | None:
    """The factors, the unknown one filled in, if the product lies within the limits; else None."""
    low, high = limits
    if all(product.factors):
        return product.factors if low < prod(product.factors) * width <= high else None
    step = prod(one for one in product.factors if one) * width
    if product.factors.count(0) != 1 or step < _LEAST_STEP * (high - low):
        return None
    number = int(high // step)
    if not 1 <= number <= _MOST[product.hole] or number * step <= low:
        return None
    return tuple(one or number for one in product.factors)


def _products(consumer: str | None, phase: str | None, sizes: Sizes) -> Iterator[_Product]:
    """The tensors that this code allocates."""
    kinds = _OF_PHASE.get(phase or "", ()) if consumer in (None, "other") else _KINDS.get(consumer, ())
    for kind in kinds:
        yield from _MAKERS[kind](sizes)


def _logits(sizes: Sizes) -> Iterator[_Product]:
    """One number a token and vocabulary entry; the labels of a shifted loss are one token shorter."""
    if sizes.vocabulary and sizes.length:
        for length in (sizes.length, sizes.length - 1):
            yield _Product("logits", "the logits", (sizes.batch, length, sizes.vocabulary), "samples")


def _collected(sizes: Sizes, number: int, hole: str, words: str) -> Iterator[_Product]:
    if sizes.vocabulary and sizes.length and sizes.batch and number != 1:
        yield _Product("gathered_logits", words, (number, sizes.batch, sizes.length, sizes.vocabulary), hole)


def _of_gpus(sizes: Sizes) -> Iterator[_Product]:
    yield from _collected(sizes, sizes.gpus, "GPUs", "the logits of all GPUs, collected on one")


def _of_ranks(sizes: Sizes) -> Iterator[_Product]:
    yield from _collected(sizes, sizes.ranks, "ranks", "the logits of all ranks, gathered on each")


def _of_batches(sizes: Sizes) -> Iterator[_Product]:
    yield from _collected(sizes, 0, "batches", "the logits of the batches evaluated so far, in one piece")


def _scores(sizes: Sizes) -> Iterator[_Product]:
    """Attention that keeps its scores: one a head and pair of tokens."""
    if sizes.heads and sizes.length:
        factors = (sizes.batch, sizes.heads, sizes.length, sizes.length)
        yield _Product("attention_scores", "the attention scores of one layer", factors, "samples")


def _inner(sizes: Sizes) -> Iterator[_Product]:
    if sizes.inner and sizes.length:
        factors = (sizes.batch, sizes.length, sizes.inner)
        yield _Product("mlp_activation", "the inner activation of one MLP", factors, "samples")


def _cache(sizes: Sizes) -> Iterator[_Product]:
    if sizes.kv_heads and sizes.head_dim and sizes.length:
        factors = (sizes.batch, sizes.kv_heads, sizes.length, sizes.head_dim)
        yield _Product("kv_cache", "the keys (or values) of one layer", factors, "samples")


def _weights(sizes: Sizes) -> Iterator[_Product]:
    """A weight, and all that has its shape: gradient, moment of an optimizer, master copy."""
    for name, rows, columns in sizes.matrices:
        yield _Product("weight", f"one tensor of the shape of {name}", (rows, columns))


def _units(sizes: Sizes) -> Iterator[_Product]:
    if sizes.layer:
        yield _Product("layer", "all parameters of one layer", (sizes.layer,))


def _flat(sizes: Sizes) -> Iterator[_Product]:
    if sizes.elements:
        yield _Product("all_parameters", "all parameters in one piece", (sizes.elements,))


def _bucket(sizes: Sizes) -> Iterator[_Product]:
    yield _Product("reduce_bucket", "one reduce bucket of ZeRO", (sizes.bucket or _REDUCE_BUCKET,))


_MAKERS = {
    "logits": _logits,
    "gpus": _of_gpus,
    "ranks": _of_ranks,
    "batches": _of_batches,
    "scores": _scores,
    "inner": _inner,
    "cache": _cache,
    "weights": _weights,
    "units": _units,
    "flat": _flat,
    "bucket": _bucket,
}
_KINDS = {
    **dict.fromkeys(("lm_head_or_loss",), ("logits",)),
    **dict.fromkeys(("dp_gather",), ("gpus",)),
    **dict.fromkeys(("eval_gather",), ("ranks",)),
    **dict.fromkeys(("eval_concat",), ("batches",)),
    **dict.fromkeys(("attention",), ("scores", "cache")),
    **dict.fromkeys(("activation", "recompute"), ("inner", "scores")),
    **dict.fromkeys(("kv_cache",), ("cache",)),
    **dict.fromkeys(("optimizer_init", "optimizer_temp", "model_move", "from_pretrained", "state_load"), ("weights",)),
    **dict.fromkeys(("ddp_buckets", "dp_replicate"), ("weights",)),
    **dict.fromkeys(("fsdp_unshard", "fsdp_reduce", "full_state_dict", "zero3_gather"), ("units", "weights")),
    **dict.fromkeys(("zero_reduce",), ("bucket", "weights")),
    **dict.fromkeys(("zero_flatten",), ("flat",)),
}
"""What each consumer (`oom.consumer`) allocates. A bucket of DDP ends after the parameter that fills it: no size is known."""
_OF_PHASE = {
    "forward": ("inner", "scores", "logits"),
    "loss": ("logits",),
    "backward": ("logits", "scores", "inner", "weights"),
    "optimizer": ("weights",),
    "load": ("weights",),
}
"""What may be allocated where the frames name the phase and no consumer, as in backward, whose kernels have no frames."""
