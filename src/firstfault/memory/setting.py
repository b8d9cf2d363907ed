"""What all layers of a step share: tokens, kernels, types."""

from __future__ import annotations

import msgspec

from firstfault.memory.plan import Attention


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """Batch and length of one forward, the width in bytes of weights and of computation, and which kernels run.

    `padded` batches carry a mask. `narrows_late`: a softmax in fp32 is cast back behind dropout, by
    autocast, not before it, by the model. `heads_first`: q and k reach the kernel as heads by tokens. `device_kernels` counts
    what CUDA kernels allocate inside one operation.
    """

    batch: int
    seq: int
    width: int
    compute: int
    attention: Attention = "sdpa"
    padded: bool = False
    upcasts_softmax: bool = True
    narrows_late: bool = False
    device_kernels: bool = True
    plain_attention: bool = False
    heads_first: bool = False

    @property
    def rows(self) -> int:
        """Tokens of one forward."""
        return self.batch * self.seq

    @property
    def autocast(self) -> bool:
        """Whether weights and computation differ in type."""
        return self.width != self.compute

    @property
    def masked(self) -> bool:
        """Whether a mask is added to the scores: HF's own attention always has one."""
        return True

    def kernel(self, width: int, grouped: bool, crosses: bool = False) -> str:
        """The attention kernel that CUDA would choose: `flash`, `efficient`, `math` or HF's `eager`; `crosses`: attention to
        the output of an encoder, which has no bias."""
        if self.attention == "eager":
            return "eager"
        if self.attention == "flash_attention_2":
            return "flash"
        if self.plain_attention and not crosses:
            return "math"
        if self.padded:
            return "efficient"
        if width == 2:
            return "flash"
        return "math" if grouped else "efficient"
