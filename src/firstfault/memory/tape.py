"""A step on paper: storages that live as long as somebody holds them, and the order in which autograd lets them go.

The model code of `layers` runs on `Tensor` objects that have a size and no content. A storage counts as live from its creation
until the last reference to it is dropped, exactly as in PyTorch: by CPython's reference counting, so that local variables and
saved tensors end where they end in the real code. `backward` runs the recorded nodes in the order of autograd's engine.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

GRANULE = 512
"""The caching allocator rounds every request up to this many bytes."""

Gradients = Sequence["Tensor | None"]
BackwardFunction = Callable[["Tensor"], Gradients]


class Storage:
    """Bytes on the device under one heading."""

    __slots__ = ("kind", "size", "tape")

    def __init__(self, tape: Tape, size: int, kind: str) -> None:
        self.tape = tape
        self.size = size = (size + GRANULE - 1) // GRANULE * GRANULE
        self.kind = kind
        tape.grow(size, kind)

    def __del__(self) -> None:
        self.tape.shrink(self.size, self.kind)


class Tensor:
    """Elements of one width in a storage; `node` is what made it where a gradient is needed, else None."""

    __slots__ = ("node", "numel", "storage", "width")

    def __init__(self, storage: Storage | None, numel: int, width: int, node: Node | Parameter | None = None) -> None:
        self.storage = storage
        self.numel = numel
        self.width = width
        self.node = node


class Parameter:
    """A weight: its elements, their width and that of the gradient, whether it is trained, the gradient once there is one.

    The weight itself is counted by who loads it. `casts` is its copy in the type of autocast. The gradient of a `bucketed` one
    is copied into a buffer that is there already.
    """

    __slots__ = ("bucketed", "casts", "grad", "numel", "trained", "uses", "waiting", "width")

    def __init__(self, numel: int, width: int, *, trained: bool = True) -> None:
        self.numel = numel
        self.width = width
        self.trained = trained
        self.bucketed = False
        self.grad: Storage | None = None
        self.casts: Tensor | None = None
        self.uses = 0
        self.waiting: Tensor | None = None

    def receive(self, tape: Tape, gradient: Tensor | None) -> None:
        """One of the gradients of this backward; a weight that is used twice waits for both, whose sum is a third tensor."""
        self.uses -= 1
        if self.waiting is not None and gradient is not None:
            summed = tape.new(self.numel, self.width, "gradients")
            self.waiting, gradient = summed, None
        elif gradient is not None:
            self.waiting = gradient
        if self.uses <= 0 and self.waiting is not None:
            whole, self.waiting = self.waiting, None
            self.accumulate(whole)

    def accumulate(self, gradient: Tensor) -> None:
        """The first gradient is taken as it is, that of a later micro-batch is added in place."""
        if self.grad is None and gradient.storage is not None and not self.bucketed:
            self.grad = gradient.storage
            gradient.storage.tape.rename(gradient.storage, "gradients")


class Node:
    """One recorded operation: which inputs wait for a gradient and how it is made. The closure holds the saved tensors."""

    __slots__ = ("edges", "function", "number", "uses")

    def __init__(self, number: int, edges: Sequence[Node | Parameter | None], function: BackwardFunction) -> None:
        self.number = number
        self.edges = edges
        self.function: BackwardFunction | None = function
        self.uses = 0

    def __lt__(self, other: Node) -> bool:
        return self.number > other.number


class Tape:
    """Live bytes by heading, and the highest point of each phase with what lay there.

    `over` is the first request beyond `limit`: phase, bytes, heading, live bytes before it. `moments` are all requests of
    `watched` bytes (least and most): phase, heading, bytes, live bytes before.
    """

    def __init__(self) -> None:
        self.live = 0
        self.kinds: dict[str, int] = {}
        self.phase = "load"
        self.kind = "activations"
        self.peaks: dict[str, tuple[int, dict[str, int]]] = {}
        self.recording = True
        self.limit: int | None = None
        self.over: tuple[str, int, str, int] | None = None
        self.watched: tuple[int, int] | None = None
        self.moments: list[tuple[str, str, int, int]] = []
        self._number = 0
        self._top = 0

    def enter(self, phase: str) -> None:
        """From here on peaks are those of `phase`; what lives now counts for it."""
        self.phase = phase
        self._top = self.peaks[phase][0] if phase in self.peaks else -1
        self._mark()

    def grow(self, size: int, kind: str) -> None:
        """More live bytes."""
        if self.watched is not None and self.watched[0] <= size <= self.watched[1]:
            self.moments.append((self.phase, kind, size, self.live))
        self.live += size
        self.kinds[kind] = self.kinds.get(kind, 0) + size
        if self.live > self._top:
            self._mark()
            if self.limit is not None and self.over is None and self.live > self.limit:
                self.over = (self.phase, size, kind, self.live - size)

    def shrink(self, size: int, kind: str) -> None:
        """Fewer live bytes."""
        self.live -= size
        self.kinds[kind] -= size

    def rename(self, storage: Storage, kind: str) -> None:
        """The bytes of `storage` stand under another heading from now on."""
        self.kinds[storage.kind] -= storage.size
        self.kinds[kind] = self.kinds.get(kind, 0) + storage.size
        storage.kind = kind

    def _mark(self) -> None:
        if self.live > self._top:
            self._top = self.live
            self.peaks[self.phase] = (self.live, dict(self.kinds))

    def new(self, numel: int, width: int, kind: str = "") -> Tensor:
        """A fresh tensor that needs no gradient."""
        return Tensor(Storage(self, numel * width, kind or self.kind), numel, width)

    def record(self, result: Tensor, inputs: Sequence[Tensor | Parameter], function: BackwardFunction) -> Tensor:
        """`result` as made from `inputs`; `function` gives one gradient for each of them (None: no gradient)."""
        if not self.recording:
            return result
        edges = [(one if one.trained else None) if isinstance(one, Parameter) else one.node for one in inputs]
        if any(edge is not None for edge in edges):
            self._number += 1
            result.node = Node(self._number, edges, function)
        return result

    def backward(self, root: Node | Parameter | None, gradient: Tensor, *, keeps_graph: bool = False) -> None:
        """Runs the recorded nodes below `root`; saved tensors go as their node is done unless the graph is kept."""
        if not isinstance(root, Node):
            return
        _count_uses(root)
        waiting: dict[Node, Tensor] = {root: gradient}
        del gradient
        ready = [root]
        while ready:
            node = heapq.heappop(ready)
            incoming = waiting.pop(node)
            function = node.function
            if function is None:
                raise ValueError("this graph was let go by an earlier backward")
            outgoing = list(function(incoming))
            if not keeps_graph:
                node.function = None
            del function, incoming
            for position, edge in enumerate(node.edges):
                made, outgoing[position] = outgoing[position], None
                if isinstance(edge, Parameter):
                    edge.receive(self, made)
                elif edge is not None:
                    # A second gradient is added to the first in place.
                    if made is not None and edge not in waiting:
                        waiting[edge] = made
                    edge.uses -= 1
                    if edge.uses == 0 and edge in waiting:
                        heapq.heappush(ready, edge)
                del made


def _count_uses(root: Node) -> None:
    """Sets in every node below `root` how many gradients it waits for."""
    seen: set[Node | Parameter] = {root}
    stack = [root]
    while stack:
        for edge in stack.pop().edges:
            if isinstance(edge, Parameter):
                edge.uses = edge.uses + 1 if edge in seen else 1
                seen.add(edge)
            elif edge is not None:
                if edge in seen:
                    edge.uses += 1
                else:
                    edge.uses = 1
                    seen.add(edge)
                    stack.append(edge)
