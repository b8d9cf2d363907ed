"""Why two runs that end alike train otherwise: the samples of an optimizer step and the learning rate."""

from __future__ import annotations

from firstfault.engine.compare.curves import Parting
from firstfault.engine.compare.facts import effective_batch, replicas_of
from firstfault.engine.compare.rows import same
from firstfault.engine.compare.side import Side
from firstfault.model.comparison import Explanation
from firstfault.model.plan import Scalar

_RATE_KEYS = frozenset({"learning_rate", "--learning_rate", "--lr", "lr", "optimizer.params.lr"})
_SEED_KEYS = frozenset({"seed", "--seed", "data_seed", "--data_seed"})


def training_reasons(a: Side, b: Side, parting: Parting | None) -> tuple[tuple[Explanation, ...], tuple[str, ...]]:
    """What explains losses that part, and the facts that would decide; nothing where the losses do not part."""
    if parting is None:
        return (), ()
    left, right = effective_batch(a), effective_batch(b)
    if left is not None and right is not None and left[0] != right[0]:
        return (_batch(a, b, left[0], right[0], parting),), ()
    own, its = rate_of(a), rate_of(b)
    if own is not None and its is not None and not same(own, its):
        text = f"The learning rate is {own} in A and {its} in B, and the losses part from {parting.first} on."
        made = Explanation(
            verdict="likely",
            failing="b",
            text=text,
            title="The learning rate is not the same",
            differences=("learning_rate",),
        )
        return (made,), ()
    return (), _unknown(a, b, own, its)


def _batch(a: Side, b: Side, left: int, right: int, parting: Parting) -> Explanation:
    own, its = rate_of(a), rate_of(b)
    ratio = right / left
    rate = ""
    if own is not None and its is not None and same(own, its):
        rate = f" The learning rate is {own} in both: it was not changed with the batch."
    text = (
        f"One optimizer step takes {left} samples in A and {right} in B ({ratio:.3g} times as many), so step N of B has seen "
        f"{'more' if ratio > 1 else 'less'} data than step N of A, and the losses part from {parting.first} on.{rate}"
    )
    return Explanation(
        verdict="likely",
        failing="b",
        text=text,
        title="The effective batch is not the same",
        differences=("effective_batch", "run.world_size", "train.micro_batch", "train.accumulation_steps"),
    )


def _unknown(a: Side, b: Side, own: Scalar, its: Scalar) -> tuple[str, ...]:
    names: list[str] = []
    for side in (a, b):
        if effective_batch(side) is None:
            if not isinstance(side.facts.value("train.micro_batch"), int):
                names.append("train.micro_batch")
            if replicas_of(side.facts) is None:
                names.append("launch.world_size_seen")
    if own is None or its is None:
        names.append("learning_rate")
    if not names and (_given(a, _SEED_KEYS) is None or _given(b, _SEED_KEYS) is None):
        names.append("seed")
    return tuple(dict.fromkeys(names))


def rate_of(side: Side) -> Scalar:
    """The learning rate that a side names, None if it names none or several."""
    return _given(side, _RATE_KEYS)


def _given(side: Side, keys: frozenset[str]) -> Scalar:
    found = {
        str(setting.value): setting.value for setting in side.settings if setting.key in keys and setting.value is not None
    }
    return next(iter(found.values())) if len(found) == 1 else None
