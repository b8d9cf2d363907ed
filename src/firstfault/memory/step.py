"""Forward, loss and backward of a whole model on the tape; of many equal layers three are run and the rest counted."""

from __future__ import annotations

from collections.abc import Callable

from firstfault.memory import operations as op
from firstfault.memory.layers import LayerCode, Weights
from firstfault.memory.norms import layer_norm, rms_norm
from firstfault.memory.plan import DTYPE_BYTES, MemoryPlan
from firstfault.memory.setting import Setting
from firstfault.memory.shapes import Architecture, Layer
from firstfault.memory.sharding import LayerShards
from firstfault.memory.tape import Gradients, Parameter, Storage, Tape, Tensor


class Model:
    """Parameters of the layers that are run, of the tables and of the head, and the forward pass over them."""

    def __init__(self, tape: Tape, plan: MemoryPlan, shape: Architecture, setting: Setting, shards: LayerShards | None) -> None:
        self.tape, self.plan, self.shape, self.setting, self.shards = tape, plan, shape, setting, shards
        width = setting.width
        lora_width = DTYPE_BYTES[plan.lora.dtype] if plan.lora is not None and plan.lora.dtype else width
        self.code = LayerCode(tape, setting, shape, plan.lora)
        full = plan.lora is None
        self.groups = [
            (layer, [Weights(layer, width, plan.lora, lora_width) for _ in range(min(3, layer.count))])
            for layer in shape.layers
        ]
        self.tables = [Parameter(size, width, trained=full) for size in shape.tables]
        self.norms = [Parameter(size, width, trained=full) for size in shape.extra_vectors]
        self.extra = [Parameter(matrix.numel, width, trained=full) for matrix in shape.extra]
        head = shape.head
        self.head = self.tables[0] if shape.tied else Parameter(head.out * head.into if head else 0, width, trained=full)
        self.head_bias = Parameter(head.out, width, trained=full) if head is not None and head.bias else None
        self.patch = Parameter(shape.patch.numel, width, trained=full) if shape.patch else None
        self.counted: list[Storage] = []
        self.last: Tensor | None = None

    def forward(self) -> Tensor:
        """The logits of one micro-batch; the last hidden state where the loss makes them itself, in pieces."""
        tape, shape = self.tape, self.shape
        hidden = self._embedded()
        for layer, weights in self.groups:
            if layer.cross:
                self.code.encoded = hidden
                hidden = self._embedded()
            hidden = self._layers(layer, weights, hidden)
        self.code.encoded = None
        if shape.final_norm and self.norms:
            hidden = self._final_norm(hidden)
        if shape.kind in ("encoder", "vision") and shape.labels:
            hidden = Tensor(hidden.storage, self.setting.batch * shape.hidden, hidden.width, hidden.node)
        for matrix, weight in zip(shape.extra, self.extra, strict=True):
            hidden = op.saves_result(
                tape, op.linear(tape, op.cast(tape, hidden, self.setting.compute), weight, matrix.out, matrix.into)
            )
        if shape.head is None:
            return hidden
        hidden = op.cast(tape, hidden, self.setting.compute)
        if self.plan.loss in ("fused", "chunked") and not shape.labels:
            return hidden
        tape.kind = "logits"
        logits = op.linear(tape, hidden, self.head, shape.head.out, shape.head.into, bias=self.head_bias)
        # The model's outputs hold the last hidden state until the loss is there.
        self.last = hidden
        del hidden
        if shape.scales_logits:
            logits = op.scale(tape, logits)
        if shape.caps_logits:
            logits = op.scale(tape, logits)
            logits = op.saves_result(tape, logits)
            logits = op.scale(tape, logits)
        tape.kind = "activations"
        return logits

    def _embedded(self) -> Tensor:
        tape, shape, numel = self.tape, self.shape, self.setting.rows * self.shape.hidden
        hidden = self._looked_up(self.tables[0], numel)
        if self.plan.lora is not None and self.plan.checkpointing:
            # transformers lets the embeddings' output require a gradient, or nothing inside a checkpoint would get one: a leaf,
            # which stays as long as the graph.
            hidden = self._opened(hidden)
        if shape.kind != "encoder-decoder":
            for table in self.tables[1:]:
                hidden = op.add(tape, hidden, self._looked_up(table, self.setting.seq * shape.hidden))
        if shape.scales_embedding:
            hidden = op.scale(tape, hidden)
        if shape.embedding_norm and self.norms:
            hidden = layer_norm(tape, hidden, self.norms[0], shape.hidden, width=4 if self.setting.autocast else 0)
        return op.dropout(tape, hidden, shape.embedding_dropout)

    def _opened(self, hidden: Tensor) -> Tensor:
        leaf = Tensor(hidden.storage, hidden.numel, hidden.width)

        def backward(g: Tensor, saved: Tensor = leaf) -> Gradients:
            return (None,)

        return self.tape.record(hidden, (Parameter(0, hidden.width),), backward)

    def _looked_up(self, table: Parameter, numel: int) -> Tensor:
        """Rows of a table; its gradient is as large as the table."""
        tape, size, width = self.tape, table.numel, table.width
        return tape.record(tape.new(numel, width), (table,), lambda g: (tape.new(size, width, "gradients"),))

    def _final_norm(self, hidden: Tensor) -> Tensor:
        shape, weight = self.shape, self.norms[-1]
        if shape.norm == "layer":
            return layer_norm(self.tape, hidden, weight, shape.hidden, width=4 if self.setting.autocast else 0)
        return rms_norm(self.tape, hidden, weight, shape.hidden, weight_in_fp32=shape.norm == "gemma")

    def _layers(self, layer: Layer, weights: list[Weights], hidden: Tensor) -> Tensor:
        """Runs first, one in between and last; what the others keep is added as bytes that come and go with the middle one."""
        others = layer.count - len(weights)
        for position, one in enumerate(weights):
            before = dict(self.tape.kinds)
            old = hidden
            hidden = self._one(layer, one, hidden)
            del old
            if position == 1 and others > 0:
                hidden = self._skip(layer, one, hidden, before, others)
        return hidden

    def _skip(self, layer: Layer, weights: Weights, hidden: Tensor, before: dict[str, int], others: int) -> Tensor:
        """`others` more layers like the one just run: their saved bytes until backward comes here, then their gradients."""
        tape = self.tape
        kept = [(kind, size - before.get(kind, 0)) for kind, size in tape.kinds.items() if size > before.get(kind, 0)]
        held = [Storage(tape, size * others, kind) for kind, size in kept]
        if not tape.recording or hidden.node is None:
            return hidden
        numel, width = hidden.numel, hidden.width
        counted, gradients = self.counted, self._gradient_bytes(weights) * others
        keeps_graph = self.plan.keeps_graphs
        accumulating = any(one.grad is not None for one in weights.all())

        def backward(g: Tensor, saved: list[Storage] = held) -> Gradients:
            if not keeps_graph:
                saved.clear()
            if gradients and not accumulating:
                counted.append(Storage(tape, gradients, "gradients"))
            return (g,)

        del held
        return tape.record(Tensor(hidden.storage, numel, width), (hidden,), backward)

    def _gradient_bytes(self, weights: Weights) -> int:
        trained = [one for one in weights.all() if one.trained]
        if self.shards is not None:
            return self.shards.gradient_bytes(sum(one.numel for one in trained))
        return sum((one.numel * one.width + 511) // 512 * 512 for one in trained if not one.bucketed)

    def _one(self, layer: Layer, weights: Weights, hidden: Tensor) -> Tensor:
        run = self.code.run if self.shards is None else self.shards.around(self.code.run)
        if not self.plan.checkpointing:
            return run(layer, weights, hidden)
        return checkpoint(self.tape, lambda x: run(layer, weights, x), hidden)


def checkpoint(tape: Tape, run: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Runs without recording and keeps the input; backward runs again with recording, then backward through that."""
    recording, tape.recording = tape.recording, False
    out = run(x)
    tape.recording = recording
    numel, width = x.numel, x.width

    def backward(g: Tensor, saved: Tensor = x) -> Gradients:
        received: list[Tensor] = []

        def receive(inner: Tensor) -> Gradients:
            received.append(inner)
            return (None,)

        start = tape.record(Tensor(saved.storage, numel, width), (Parameter(0, width),), receive)
        again = run(start)
        del start
        node = again.node
        del again
        tape.backward(node, g)
        return tuple(received) or (None,)

    return tape.record(out, (x,), backward) if x.node is not None else out


def lose(model: Model, logits: Tensor) -> Tensor:
    """The scalar loss by cross entropy."""
    tape, kind = model.tape, model.plan.loss
    if kind in ("fused", "chunked") and not model.shape.labels:
        return _lose_in_pieces(model, logits)
    tape.kind = "logits"
    wide = op.cast(tape, logits, 4) if kind == "upcast" else logits
    numel, width = wide.numel, wide.width
    del logits  # the caller holds them until its forward returns
    log_softmax = tape.new(numel, width)
    inputs = (wide,)
    del wide

    def softmax_back(g: Tensor, saved: Tensor = log_softmax) -> Gradients:
        return (tape.new(numel, width, "logits"),)

    result = tape.record(Tensor(log_softmax.storage, numel, width), inputs, softmax_back)
    del inputs

    def loss_back(g: Tensor, saved: Tensor = log_softmax) -> Gradients:
        return (tape.new(numel, width, "logits"),)

    tape.kind = "activations"
    return tape.record(tape.new(1, 4), (result,), loss_back)


def _lose_in_pieces(model: Model, hidden: Tensor) -> Tensor:
    """Head and cross entropy a piece of the tokens at a time.

    Liger's kernel (`fused`) makes the gradients of hidden state and head in forward and keeps them; a `chunked` loss keeps its
    input and computes each piece again. Pieces are as large as the hidden state is small: tokens x hidden / vocabulary.
    """
    tape, shape, head = model.tape, model.shape, model.head
    numel, width, rows = hidden.numel, hidden.width, hidden.numel // shape.hidden
    pieces = 1 << max(0, (-(-shape.vocab // shape.hidden) - 1).bit_length())
    piece = -(-rows // pieces)
    trained = head.trained
    fused = model.plan.loss == "fused"

    def compute(copies: int) -> None:
        logits = [tape.new(piece * shape.vocab, 4, "logits") for _ in range(copies)]
        del logits

    made: list[Tensor] = []
    if fused:
        made = [tape.new(numel, width)] + ([tape.new(head.numel, head.width, "gradients")] if trained else [])
    compute(2)
    hidden_kept = None if fused else hidden

    def backward(g: Tensor, saved: list[Tensor] = made, kept: Tensor | None = hidden_kept) -> Gradients:
        if fused:
            return (saved[0], saved[1] if trained else None)
        gradients = [tape.new(numel, width)] + ([tape.new(head.numel, head.width, "gradients")] if trained else [])
        compute(3)
        return (gradients[0], gradients[1] if trained else None)

    return tape.record(tape.new(1, 4), (hidden, head), backward)
