"""One layer of each wiring on the tape, in the order of the model's code, so that every tensor lives as long as there."""

from __future__ import annotations

from firstfault.memory import operations as op
from firstfault.memory.attention import attend, rotary
from firstfault.memory.lora import adapted_linear
from firstfault.memory.norms import layer_norm, rms_norm
from firstfault.memory.plan import Lora
from firstfault.memory.setting import Setting
from firstfault.memory.shapes import Architecture, Layer
from firstfault.memory.tape import Parameter, Tape, Tensor


class Weights:
    """The parameters of one layer: matrices (with bias and adapters) by role, norms in order."""

    def __init__(self, layer: Layer, width: int, lora: Lora | None, lora_width: int) -> None:
        trained = lora is None
        self.matrices: dict[str, Parameter] = {}
        self.biases: dict[str, Parameter] = {}
        self.adapters: dict[str, tuple[Parameter, Parameter]] = {}
        for role, matrix in layer.matrices.items():
            copies = layer.experts if role.startswith("expert_") else 1
            self.matrices[role] = Parameter(copies * matrix.out * matrix.into, width, trained=trained)
            if matrix.bias:
                self.biases[role] = Parameter(matrix.out, width, trained=trained)
            # The router of experts is no linear module: adapters pass it by.
            if lora is not None and copies == 1 and role != "router" and targeted(matrix.name, lora):
                self.adapters[role] = (
                    Parameter(lora.rank * matrix.into, lora_width),
                    Parameter(lora.rank * matrix.out, lora_width),
                )
        self.vectors = [Parameter(size, width, trained=trained) for size in layer.vectors]

    def all(self) -> list[Parameter]:
        """Every parameter of the layer."""
        pairs = [one for pair in self.adapters.values() for one in pair]
        return [*self.matrices.values(), *self.biases.values(), *pairs, *self.vectors]


def targeted(name: str, lora: Lora) -> bool:
    """Whether a matrix of that name gets an adapter."""
    last = name.rpartition(".")[2]
    return any(target in ("all-linear", name, last) for target in lora.targets)


class LayerCode:
    """Runs layers of one architecture under one setting."""

    def __init__(self, tape: Tape, setting: Setting, shape: Architecture, lora: Lora | None) -> None:
        self.tape = tape
        self.setting = setting
        self.shape = shape
        self.lora = lora
        self.encoded: Tensor | None = None

    def run(self, layer: Layer, weights: Weights, x: Tensor) -> Tensor:
        """The output of one layer."""
        wiring = self.shape.wiring
        if wiring == "parallel":
            return self._parallel(layer, weights, x)
        if wiring in ("post", "post-rms"):
            return self._post(layer, weights, x)
        return self._pre(layer, weights, x)

    def norm(self, x: Tensor, weight: Parameter, dim: int) -> Tensor:
        """The family's norm."""
        if self.shape.norm == "layer":
            return layer_norm(self.tape, x, weight, dim, width=4 if self.setting.autocast else 0)
        return rms_norm(self.tape, x, weight, dim, weight_in_fp32=self.shape.norm == "gemma")

    def linear(self, layer: Layer, weights: Weights, role: str, x: Tensor) -> Tensor:
        """A matrix of the layer, with its adapter where it has one."""
        matrix = layer.matrices[role]
        x = op.cast(self.tape, x, self.setting.compute)
        bias = weights.biases.get(role)
        pair = weights.adapters.get(role)
        if pair is None or self.lora is None:
            return op.linear(self.tape, x, weights.matrices[role], matrix.out, matrix.into, bias=bias)
        return adapted_linear(self.tape, x, weights.matrices[role], bias, pair, matrix, self.lora)

    def _pre(self, layer: Layer, weights: Weights, x: Tensor) -> Tensor:
        tape, shape, vectors = self.tape, self.shape, list(weights.vectors)
        sandwich = shape.wiring == "sandwich"
        hidden = self.norm(x, vectors[0], shape.hidden)
        hidden = self._attention(layer, weights, hidden)
        hidden = op.dropout(tape, hidden, shape.residual_dropout)
        if sandwich:
            hidden = self.norm(hidden, vectors[1], shape.hidden)
        residual = op.add(tape, x, self._scaled(hidden))
        if layer.cross:
            hidden = self.norm(residual, vectors[2], shape.hidden)
            hidden = self._attention(layer, weights, hidden, prefix="cross_")
            residual = op.add(tape, residual, op.dropout(tape, hidden, shape.residual_dropout))
        hidden = self.norm(residual, vectors[2 if sandwich else 1], shape.hidden)
        hidden = self._mlp(layer, weights, hidden)
        hidden = op.dropout(tape, hidden, shape.residual_dropout)
        if sandwich:
            hidden = self.norm(hidden, vectors[3], shape.hidden)
        return op.add(tape, residual, self._scaled(hidden))

    def _scaled(self, x: Tensor) -> Tensor:
        return op.scale(self.tape, x) if self.shape.scales_residual else x

    def _post(self, layer: Layer, weights: Weights, x: Tensor) -> Tensor:
        """BERT norms the sum, OLMo 2 what is added."""
        tape, shape, inside = self.tape, self.shape, self.shape.wiring == "post-rms"
        rate = shape.residual_dropout if shape.drops_attention else 0.0
        hidden = op.dropout(tape, self._attention(layer, weights, x), rate)
        if inside:
            hidden = self.norm(hidden, weights.vectors[0], shape.hidden)
        residual = op.add(tape, hidden, x)
        if not inside:
            residual = self.norm(residual, weights.vectors[0], shape.hidden)
        hidden = op.dropout(tape, self._mlp(layer, weights, residual), shape.residual_dropout)
        if inside:
            hidden = self.norm(hidden, weights.vectors[1], shape.hidden)
        hidden = op.add(tape, hidden, residual)
        return hidden if inside else self.norm(hidden, weights.vectors[1], shape.hidden)

    def _parallel(self, layer: Layer, weights: Weights, x: Tensor) -> Tensor:
        """Attention and MLP read the same input; their sum is added to it."""
        tape, shape = self.tape, self.shape
        normed = self.norm(x, weights.vectors[0], shape.hidden)
        attended = self._attention(layer, weights, normed)
        attended = op.dropout(tape, attended, shape.residual_dropout)
        second = normed if shape.shared_norm else self.norm(x, weights.vectors[1], shape.hidden)
        fed = op.dropout(tape, self._mlp(layer, weights, second), shape.residual_dropout)
        return op.add(tape, op.add(tape, fed, attended), x)

    def _attention(self, layer: Layer, weights: Weights, x: Tensor, prefix: str = "") -> Tensor:
        tape, shape = self.tape, self.shape
        q, k, v = self._projected(layer, weights, x, prefix)
        if shape.scales_query:
            q = op.scale(tape, q)
        if shape.qk_norm != "none":
            norms = weights.vectors[-2:]
            whole = shape.qk_norm == "whole"
            q = self.norm(q, norms[0], shape.heads * shape.head_dim if whole else shape.head_dim)
            k = self.norm(k, norms[1], shape.kv_heads * shape.head_dim if whole else shape.head_dim)
        if shape.rotary:
            turned_q, turned_k = rotary(tape, q, share=shape.rotary), rotary(tape, k, share=shape.rotary)
            q, k = turned_q, turned_k
            del turned_q, turned_k
        attended = attend(
            tape,
            self.setting,
            q,
            k,
            v,
            heads=shape.heads,
            kv_heads=shape.kv_heads,
            causal=layer.causal,
            p=shape.attention_dropout,
            caps=shape.caps_scores,
            crosses=bool(prefix),
        )
        del q, k, v
        return self.linear(layer, weights, f"{prefix}o", attended)

    def _projected(self, layer: Layer, weights: Weights, x: Tensor, prefix: str) -> tuple[Tensor, Tensor, Tensor]:
        if "qkv" not in layer.matrices:
            q = self.linear(layer, weights, f"{prefix}q", x)
            source = self.encoded if prefix and self.encoded is not None else x
            k = self.linear(layer, weights, f"{prefix}k", source)
            return q, k, self.linear(layer, weights, f"{prefix}v", source)
        shape = self.shape
        joined = self.linear(layer, weights, "qkv", x)
        sizes = [self.setting.rows * n * shape.head_dim for n in (shape.heads, shape.kv_heads, shape.kv_heads)]
        return tuple(op.split(self.tape, joined, sizes))  # type: ignore[return-value]

    def _mlp(self, layer: Layer, weights: Weights, x: Tensor) -> Tensor:
        if layer.experts:
            from firstfault.memory.experts import mixture

            return mixture(self, layer, weights, x)
        return self.feed_forward(layer, weights, x)

    def feed_forward(self, layer: Layer, weights: Weights, x: Tensor) -> Tensor:
        """The dense MLP, gated or plain."""
        tape = self.tape
        if "gate_up" in layer.matrices:
            joined = self.linear(layer, weights, "gate_up", x)
            gate, up = op.split(tape, joined, [joined.numel // 2] * 2)
            del joined
            gate = op.multiply(tape, up, self.activation(gate))
            del up
            return self.linear(layer, weights, "down", gate)
        if "gate" in layer.matrices:
            inner = op.multiply(
                tape, self.activation(self.linear(layer, weights, "gate", x)), self.linear(layer, weights, "up", x)
            )
            inner = op.dropout(tape, inner, self.shape.inner_dropout)
            return self.linear(layer, weights, "down", inner)
        inner = op.dropout(tape, self.activation(self.linear(layer, weights, "up", x)), self.shape.inner_dropout)
        return self.linear(layer, weights, "down", inner)

    def activation(self, x: Tensor) -> Tensor:
        """The nonlinearity: one kernel, ReLU, or the tanh approximation written out in Python."""
        if self.shape.activation == "fused":
            return op.pointwise(self.tape, x)
        if self.shape.activation == "relu":
            return op.saves_result(self.tape, x)
        return op.gelu_written_out(self.tape, x, autocast=self.setting.autocast)
