"""Autocast for tensors without content, which have no autocast of their own: the same lists, as torch functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_HALF = {
    *(torch.matmul, torch.mm, torch.bmm, torch.addmm, torch.baddbmm, torch.einsum, torch.conv1d, torch.conv2d, torch.conv3d),
    *(functional.linear, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.Tensor.bmm, torch.Tensor.mm),
    *(torch.Tensor.baddbmm, torch.Tensor.addmm, torch.chain_matmul, functional.conv1d, functional.conv2d),
}
_FULL = {
    *(
        functional.softmax,
        torch.softmax,
        torch.Tensor.softmax,
        functional.log_softmax,
        torch.log_softmax,
        functional.layer_norm,
    ),
    *(functional.cross_entropy, functional.nll_loss, functional.mse_loss, functional.group_norm, torch.pow, torch.Tensor.pow),
    *(torch.exp, torch.log, torch.rsqrt, torch.Tensor.rsqrt, torch.cumsum, torch.Tensor.cumsum, torch.norm, torch.sum),
    *(torch.Tensor.sum, torch.prod, functional.binary_cross_entropy_with_logits, torch.Tensor.__pow__, torch.Tensor.exp),
}
if hasattr(functional, "rms_norm"):
    _FULL.add(functional.rms_norm)


class Autocast(TorchFunctionMode):
    """Products in half precision, sums and losses in fp32. Casts of trained weights are kept until the end, as torch does.

    `told` hears of every such cast.
    """

    def __init__(self, dtype: Any, told: Callable[[Any], None] | None = None, *, keeps_casts: bool = True) -> None:
        super().__init__()
        self.dtype, self.told, self.keeps_casts = dtype, told, keeps_casts
        self.casts: dict[int, Any] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _HALF:
            return func(*[self.narrow(one) for one in args], **{name: self.narrow(one) for name, one in kwargs.items()})
        if func in _FULL:
            return func(*[_widen(one) for one in args], **{name: _widen(one) for name, one in kwargs.items()})
        return func(*args, **kwargs)

    def narrow(self, one: Any) -> Any:
        """A tensor as a product reads it; anything else as it is."""
        if not isinstance(one, torch.Tensor) or one.dtype != torch.float32:
            return one
        if not (self.keeps_casts and one.is_leaf and one.requires_grad):
            return one.to(self.dtype)
        if id(one) not in self.casts:
            self.casts[id(one)] = one.to(self.dtype)
            if self.told is not None:
                self.told(self.casts[id(one)])
        return self.casts[id(one)]


def _widen(one: Any) -> Any:
    half = isinstance(one, torch.Tensor) and one.dtype in (torch.float16, torch.bfloat16)
    return one.float() if half else one


def widened(outputs: Any) -> Any:
    """What accelerate makes of the outputs of a forward in half precision: every tensor in fp32."""
    for name, one in list(outputs.items()):
        if isinstance(one, torch.Tensor):
            outputs[name] = _widen(one)
    return outputs
