"""Low-rank adapters, computed as PEFT computes them, where PEFT need not be installed."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn import functional


class Adapted(nn.Module):
    """`base(x) + B(A(dropout(x))) * scaling`, the adapter in its own type."""

    def __init__(self, base: Any, rank: int, dropout: float, dtype: Any) -> None:
        super().__init__()
        weight = base.weight
        # GPT-2's own layer keeps its matrix the other way round.
        out, into = weight.shape if isinstance(base, nn.Linear) else reversed(weight.shape)
        self.base, self.dropout = base, dropout
        self.lora_a = nn.Linear(into, rank, bias=False, device=weight.device, dtype=dtype)
        self.lora_b = nn.Linear(rank, out, bias=False, device=weight.device, dtype=dtype)

    @property
    def weight(self) -> Any:
        """The frozen matrix, which some models look at."""
        return self.base.weight

    def forward(self, x: Any) -> Any:
        """The adapted result in the type of the base."""
        result = self.base(x)
        dtype = result.dtype
        inner = functional.dropout(x.to(self.lora_a.weight.dtype), self.dropout, self.training)
        return (result + self.lora_b(self.lora_a(inner)) * 2.0).to(dtype)


def adapt(model: Any, lora: dict[str, Any], dtype: Any) -> int:
    """Freezes the model and puts adapters on the modules named; how many."""
    for one in model.parameters():
        one.requires_grad_(False)
    targets = tuple(lora["targets"])
    head = model.get_output_embeddings()
    found = [
        (name, module)
        for name, module in model.named_modules()
        if (isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D")
        and module is not head
        and (targets == ("all-linear",) or name.rpartition(".")[2] in targets)
    ]
    for name, module in found:
        parent = model.get_submodule(name.rpartition(".")[0])
        setattr(parent, name.rpartition(".")[2], Adapted(module, int(lora["rank"]), float(lora["dropout"]), dtype))
    if lora.get("train_embeddings"):
        for table in (model.get_input_embeddings(), head):
            if table is not None:
                table.weight.requires_grad_(True)
    return len(found)
