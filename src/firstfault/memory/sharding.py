"""What a device holds when weights, gradients and optimizer state are spread: shards, gathered layers, buckets."""

from __future__ import annotations

from collections.abc import Callable

from firstfault.memory.layers import Weights
from firstfault.memory.plan import DTYPE_BYTES, MemoryPlan, Parallel
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


def kept_width(plan: MemoryPlan, width: int) -> int:
    """Bytes an element of a trained shard, of its gradient and of its state: FSDP computes in another type than it keeps."""
    if plan.parallel.strategy not in ("fsdp1", "fsdp2"):
        return width
    return DTYPE_BYTES[plan.parallel.shard_dtype or plan.weights]


class LayerShards:
    """Gathers a layer's weights around its forward and backward (not for ZeRO-2), and turns its gradients into shards.

    As torch 2.13 does it: FSDP1 gathers one layer at a time in forward, FSDP2 has the buffer of the gather beside the weights
    that are copied out of it, and while they are copied also the buffer of the layer before. In backward the layer before is
    gathered already, but before the first there is none. FSDP2 lets go of the input of a reduction when the next one starts.
    """

    def __init__(self, tape: Tape, plan: MemoryPlan, *, compute: int, reduce: int) -> None:
        self.tape, self.parallel, self.compute, self.reduce = tape, plan.parallel, compute, reduce
        self.kept = kept_width(plan, reduce)
        self.gathers = self.parallel.strategy in FSDP
        self._held: dict[int, list[Tensor]] = {}
        self._first: int | None = None
        self._reducing: Tensor | None = None

    def gradient_bytes(self, numel: int) -> int:
        """Bytes of gradients that stay on this device of `numel` elements: none where the optimizer runs on the host."""
        if self.parallel.offload_optimizer or self.parallel.offload_weights:
            return 0
        return numel * self.kept // max(1, self.parallel.world)

    def end(self) -> None:
        """Backward is over: nothing is being reduced."""
        self._reducing = None

    def around(self, run: Run) -> Run:
        """`run` with the weights of its layer (and of the ones prefetched) gathered around forward and backward."""

        def gathered(layer: Layer, weights: Weights, x: Tensor) -> Tensor:
            key = id(weights)
            if self._first is None:
                self._first = key
            once, there = self.parallel.strategy == "fsdp1", key in self._held
            before = self._gather(weights, 0 if once or there or self.tape.phase == "backward" else 1)
            held = self._gather(weights, 0 if there else 1 if once else 2)
            del before
            start = self._hook(x, weights, opens=False)
            out = run(layer, weights, start)
            if not self.parallel.reshard and not there:
                # Kept from forward to the end of backward (SHARD_GRAD_OP, reshard_after_forward off).
                self._held[key] = held[:1]
            del start, held
            return self._hook(out, weights, opens=True)

        return gathered

    def _gather(self, weights: Weights, copies: int) -> list[Tensor]:
        if not self.gathers:
            return []
        size = sum(one.numel for one in weights.all())
        return [self.tape.new(size, self.compute, "gathered weights") for _ in range(copies)]

    def _hook(self, x: Tensor, weights: Weights, *, opens: bool) -> Tensor:
        """In backward: before the layer (`opens`) its weights are gathered, behind it its gradients are reduced to shards."""
        box = self._held
        key = id(weights)

        def backward(g: Tensor) -> Gradients:
            if opens and not self.parallel.reshard:
                return (g,)
            if opens:
                before = 0 if key == self._first else self.parallel.prefetch_layers
                box[key] = self._gather(weights, 1 + before)
                return (g,)
            self._scatter(weights)
            box.pop(key, None)
            return (g,)

        return self.tape.record(Tensor(x.storage, x.numel, x.width), (x,), backward)

    def _scatter(self, weights: Weights) -> None:
        trained = [one for one in weights.all() if one.trained and one.grad is not None]
        if not trained:
            return
        self.end()
        whole = sum(one.numel for one in trained)
        self._reducing = self.tape.new(whole, self.reduce, "reduce buffers")
        for one in trained:
            one.grad = None
        trained[0].grad = self.tape.new(self.gradient_bytes(whole), 1, "gradients").storage
        if self.parallel.strategy != "fsdp2":
            self.end()


def bucket_bytes(parallel: Parallel, gradients: list[Parameter]) -> int:
    """DDP's buckets: one set of gradients, which are the gradients themselves where those are views of them."""
    if parallel.strategy != "ddp":
        return 0
    return sum(one.numel * one.width for one in gradients)
