"""What a CUDA build would run where tensors without content would take another way: attention, dropout, norms."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

from .tracker import Tracker

_ATEN = torch.ops.aten
_HALF = (torch.float16, torch.bfloat16)
LARGEST_FLASH_HEAD = 256
FLASH = "firstfault_fused"
"""The name under which transformers knows flash attention without its package, which it looks for by the word."""


def choose_attention(q: Any, k: Any, v: Any, mask: Any, knows_groups: bool) -> str:
    """The kernel that torch chooses on CUDA (sdp_utils.cpp): `flash` for half precision without a mask, `efficient` unless
    heads are grouped or the mask is trained, else `math`, which materialises the probabilities.

    Fewer heads of k and v are grouped heads only where the caller says so (`knows_groups`); else they are broadcast.
    """
    if q.dim() != 4 or q.shape[-2] == 0:
        return "math"
    grouped = k.shape[1] != q.shape[1]
    if grouped and not knows_groups:
        return "math"
    if mask is None and q.dtype in _HALF and q.shape[-1] <= LARGEST_FLASH_HEAD and q.shape[-1] == v.shape[-1]:
        return "flash"
    if grouped or (mask is not None and mask.requires_grad):
        return "math"
    return "efficient"


def attend(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Any = None,
    enable_gqa: bool = False,
    *,
    forced: str = "",
) -> Any:
    """`scaled_dot_product_attention` by CUDA's rules, or by the kernel that is `forced`."""
    kernel = forced or choose_attention(query, key, value, attn_mask, enable_gqa)
    if kernel == "math" and dropout_p:
        return _plainly(query, key, value, attn_mask, dropout_p, is_causal, scale)
    if kernel == "math":
        return _ATEN._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa
        )[0]
    if kernel == "flash":
        return _flash(query, key, value, dropout_p, is_causal or attn_mask is not None, scale)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.where(attn_mask, 0.0, -math.inf).to(query.dtype)
    if attn_mask is not None:
        attn_mask = _aligned(attn_mask).expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    wants = any(one.requires_grad for one in (query, key, value))
    return _ATEN._scaled_dot_product_efficient_attention(
        query, key, value, attn_mask, wants, dropout_p, is_causal, scale=scale
    )[0]


def _plainly(query: Any, key: Any, value: Any, mask: Any, dropout_p: float, is_causal: bool, scale: Any) -> Any:
    """What torch's plain path does, with dropout as CUDA runs it. Grouped heads have no dropout in any model."""
    dtype = query.dtype
    root = math.sqrt(1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        rows = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
        mask = torch.where(rows, 0.0, -math.inf)
    scores = (query.float() * root) @ (key.float().transpose(-2, -1) * root)
    if mask is not None:
        scores = scores + mask if mask.requires_grad else scores.add_(mask)
    scores = drop(_ATEN._safe_softmax(scores, -1), dropout_p)
    return (scores @ value.float()).to(dtype)


def _flash(query: Any, key: Any, value: Any, dropout_p: float, is_causal: bool, scale: Any) -> Any:
    """Heads that are no multiple of 8 wide are padded, and the output cut."""
    width = query.shape[-1]
    scale = 1 / math.sqrt(width) if scale is None else scale
    if width % 8:
        query, key, value = (functional.pad(one, [0, 8 - width % 8]) for one in (query, key, value))
    out = _ATEN._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, False, scale=scale)[0]
    return out[..., :width] if width % 8 else out


def offer_flash() -> bool:
    """Registers flash attention as the package of that name runs it, without a mask for full batches; False where this
    transformers has no place for it."""
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.masking_utils import flash_attention_mask
    except ImportError:
        return False

    def run(module: Any, query: Any, key: Any, value: Any, mask: Any, **told: Any) -> Any:
        rate = float(told.get("dropout") or 0.0)
        causal = bool(getattr(module, "is_causal", True))
        # The package reads and writes tokens by heads.
        return _flash(query, key, value, rate, causal, told.get("scaling")).transpose(1, 2).contiguous(), None

    AttentionInterface.register(FLASH, run)
    AttentionMaskInterface.register(FLASH, flash_attention_mask)
    return True


def _aligned(mask: Any) -> Any:
    """The efficient kernel reads rows of 16 elements: a shorter row is padded into a copy."""
    rest = mask.shape[-1] % 16
    return functional.pad(mask, [0, 16 - rest])[..., : mask.shape[-1]] if rest else mask


def drop(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Dropout as CUDA runs it: one kernel, and a mask of one byte an element."""
    if not training or not p:
        return input
    return torch.native_dropout(input, p, True)[0]


def _flash_scratch(grad_out: Any, query: Any, key: Any, *_: Any) -> list[int]:
    """fp32 sums of the gradient of q and of each row, and full k and v gradients where heads are grouped (mha_bwd)."""
    rows = query.numel() // query.shape[-1]
    sizes = [query.numel() * 4, rows * 4]
    return sizes + ([query.numel() * query.element_size()] * 2 if key.shape[1] != query.shape[1] else [])


def _efficient_scratch(grad_out: Any, query: Any, key: Any, *_: Any) -> list[int]:
    """One fp32 a row; in half precision the gradient of q is summed in fp32 besides (kernel_backward.h)."""
    rows = query.numel() // query.shape[-1]
    return [rows * 4] + ([query.numel() * 4] if query.dtype in _HALF else [])


def install(tracker: Tracker, forced: str, half: Any) -> None:
    """Puts these in the place of torch's own, and lets its optimizers treat tensors without content as CUDA's.

    `forced` is a kernel of attention; `half` is the type of autocast, in which attention reads its inputs.
    """

    def attend_here(*args: Any, **kwargs: Any) -> Any:
        if half is not None:
            args = tuple(_narrow(one, half) for one in args)
            kwargs = {name: _narrow(one, half) for name, one in kwargs.items()}
        return attend(*args, forced=forced, **kwargs)

    functional.scaled_dot_product_attention = attend_here
    functional.dropout = drop
    fused_norm = getattr(_ATEN, "_fused_rms_norm", None)
    if tracker.device != "meta":
        return
    if fused_norm is not None:

        def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: Any = None) -> Any:
            return fused_norm(input, list(normalized_shape), weight, eps)[0]

        functional.rms_norm = rms_norm
    tracker.hidden["_scaled_dot_product_flash_attention_backward"] = _flash_scratch
    tracker.hidden["_scaled_dot_product_efficient_attention_backward"] = _efficient_scratch
    tracker.instead["_grouped_mm"] = _grouped
    _open_optimizers()


def _grouped(func: Any, args: Any, kwargs: Any) -> Any:
    """CUDA multiplies groups of matrices of every type, the shape function knows only bf16."""
    types = [one.dtype for one in args if isinstance(one, torch.Tensor) and one.dtype.is_floating_point]
    narrow = [one.to(torch.bfloat16) if isinstance(one, torch.Tensor) and one.dtype.is_floating_point else one for one in args]
    out = func(*narrow, **kwargs)
    return out if types[0] == out.dtype else torch.empty_like(out, dtype=types[0])


def _narrow(one: Any, half: Any) -> Any:
    return one.to(half) if isinstance(one, torch.Tensor) and one.dtype == torch.float32 else one


def _open_optimizers() -> None:
    from torch.optim import adam, optimizer
    from torch.utils import _foreach_utils

    known = _foreach_utils._get_foreach_kernels_supported_devices

    def with_meta() -> list[str]:
        return [*known(), "meta"]

    def unchecked(*args: Any, **kwargs: Any) -> None:
        """The fused kernel has a shape function for every device; only this check refuses."""

    for module in (_foreach_utils, optimizer):
        module._get_foreach_kernels_supported_devices = with_meta
    for module in (adam, optimizer):
        module._device_dtype_check_for_fused = unchecked
