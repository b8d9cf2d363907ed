"""The shape of a model, as far as its memory goes: matrices and vectors of a layer, and how the layer is wired."""

from __future__ import annotations

from typing import Literal

import msgspec

Norm = Literal["rms", "gemma", "layer"]
Wiring = Literal["pre", "post", "parallel", "sandwich", "post-rms"]
Activation = Literal["fused", "gelu_new", "relu"]
Kind = Literal["decoder", "encoder", "encoder-decoder", "vision"]


class Matrix(msgspec.Struct, frozen=True):
    """A linear layer: `name` as in the model's modules, elements out and in, whether it has a bias."""

    name: str
    out: int
    into: int
    bias: bool = False

    @property
    def numel(self) -> int:
        """Elements of weight and bias."""
        return self.out * self.into + (self.out if self.bias else 0)


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of layer and how often it occurs.

    `matrices` are by role: q, k, v, qkv, o, gate, up, gate_up, down, router, shared_*; `vectors` are the norms' and other small
    weights (elements each), `experts` the number of copies of gate_up and down, of which a token uses `top_k`.
    """

    count: int
    matrices: dict[str, Matrix]
    vectors: tuple[int, ...] = ()
    experts: int = 0
    top_k: int = 0
    cross: bool = False
    causal: bool = True

    @property
    def numel(self) -> int:
        """Elements of one such layer."""
        expert = sum(m.numel for role, m in self.matrices.items() if role in ("expert_gate_up", "expert_down"))
        rest = sum(m.numel for role, m in self.matrices.items() if role not in ("expert_gate_up", "expert_down"))
        return rest + self.experts * expert + sum(self.vectors)


class Architecture(msgspec.Struct, frozen=True, kw_only=True):
    """A model: its layers, what stands before and after them, and what its code does between.

    `tables` are the embeddings in front (word, position, type), elements each, the word table first. `rotary` is the share of a
    head that is turned (0: no rotary positions). `head` is the last matrix; None where the output is the hidden state.
    `broadcasts_kv`: fewer heads of k and v are handed to the kernel as they are, which only torch's plain path takes.
    `drops_attention`: the output of attention goes through dropout before it is added.
    `extra` are matrices between the layers and the head (pooler, transform), `extra_vectors` norms and small weights there.
    """

    family: str
    kind: Kind
    hidden: int
    vocab: int
    heads: int
    kv_heads: int
    head_dim: int
    layers: tuple[Layer, ...]
    tables: tuple[int, ...]
    norm: Norm = "rms"
    wiring: Wiring = "pre"
    activation: Activation = "fused"
    head: Matrix | None = None
    tied: bool = False
    extra: tuple[Matrix, ...] = ()
    extra_vectors: tuple[int, ...] = ()
    final_norm: bool = True
    embedding_norm: bool = False
    rotary: float = 1.0
    qk_norm: Literal["none", "head", "whole"] = "none"
    shared_norm: bool = False
    scales_embedding: bool = False
    scales_residual: bool = False
    scales_logits: bool = False
    scales_query: bool = False
    caps_logits: bool = False
    caps_scores: bool = False
    broadcasts_kv: bool = False
    drops_attention: bool = True
    embedding_dropout: float = 0.0
    residual_dropout: float = 0.0
    attention_dropout: float = 0.0
    inner_dropout: float = 0.0
    patch: Matrix | None = None
    tokens: int = 0
    labels: int = 0
    known: bool = True

    @property
    def depth(self) -> int:
        """How many layers there are."""
        return sum(layer.count for layer in self.layers)

    @property
    def numel(self) -> int:
        """All parameters, tied ones once."""
        total = sum(layer.count * layer.numel for layer in self.layers) + sum(self.tables) + sum(self.extra_vectors)
        total += sum(matrix.numel for matrix in self.extra) + (self.patch.numel if self.patch else 0)
        if self.head is not None:
            total += self.head.out * self.head.into * (not self.tied) + (self.head.out if self.head.bias else 0)
        return total
