"""What a device holds when weights, gradients and optimizer state are spread: shards, gathered layers, buckets."""

from __future__ import annotations

from collections.abc import Callable

from firstfault.memory.layers import Weights
from firstfault.memory.plan import Parallel
from firstfault.memory.shapes import Layer
from firstfault.memory.tape import Gradients, Parameter, Tape, Tensor

Run = Callable[[Layer, Weights, Tensor], Tensor]
FSDP = ("fsdp1", "fsdp2", "zero3")


def divisor(parallel: Parallel, what: str) -> int:
    """By how much the `weights`, `gradients` or `state` of one device are divided."""
    parts = {"zero1": ("state",), "zero2": ("state", "gradients"), "zero3": ("state", "gradients", "weights")}
    if parallel.strategy in FSDP or what in parts.get(parallel.strategy, ()):
        return max(1, parallel.world)
    return 1


class LayerShards:
    """Gathers a layer's weights around its forward and backward (not for ZeRO-2), and turns its gradients into shards."""

    def __init__(self, tape: Tape, parallel: Parallel, *, compute: int, reduce: int) -> None:
        self.tape, self.parallel, self.compute, self.reduce = tape, parallel, compute, reduce
        self.gathers = parallel.strategy in FSDP
        self._held: dict[int, list[Tensor]] = {}

    def gradient_bytes(self, whole: int) -> int:
        """Bytes of gradients that stay on this device of `whole`."""
        return whole // max(1, self.parallel.world)

    def around(self, run: Run) -> Run:
        """`run` with the weights of its layer (and of the ones prefetched) gathered around forward and backward."""

        def gathered(layer: Layer, weights: Weights, x: Tensor) -> Tensor:
            held = self._gather(weights)
            start = self._hook(x, weights, opens=False)
            out = run(layer, weights, start)
            del start, held
            return self._hook(out, weights, opens=True)

        return gathered

    def _gather(self, weights: Weights) -> list[Tensor]:
        if not self.gathers:
            return []
        size = sum(one.numel for one in weights.all())
        copies = 1 + self.parallel.prefetch_layers
        return [self.tape.new(size, self.compute, "gathered weights") for _ in range(copies)]

    def _hook(self, x: Tensor, weights: Weights, *, opens: bool) -> Tensor:
        """In backward: before the layer (`opens`) its weights are gathered, behind it its gradients are reduced to shards."""
        box = self._held
        key = id(weights)

        def backward(g: Tensor) -> Gradients:
            if opens:
                box[key] = self._gather(weights)
                return (g,)
            trained = [one for one in weights.all() if one.trained and one.grad is not None]
            whole = sum(one.numel for one in trained)
            flat = self.tape.new(whole, self.reduce, "reduce buffers")
            for one in trained:
                one.grad = None
            shard = self.tape.new(whole // max(1, self.parallel.world), self.reduce, "gradients")
            del flat
            if trained:
                trained[0].grad = shard.storage
            box.pop(key, None)
            return (g,)

        return self.tape.record(Tensor(x.storage, x.numel, x.width), (x,), backward)


def bucket_bytes(parallel: Parallel, gradients: list[Parameter]) -> int:
    """DDP's buckets: one set of gradients, which are the gradients themselves where those are views of them."""
    if parallel.strategy != "ddp":
        return 0
    return sum(one.numel * one.width for one in gradients)
