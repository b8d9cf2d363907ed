"""Fine-tunes a decoder with plain PyTorch; eight micro-batches make one optimizer step."""

import torch

from data import micro_batches
from model import build_model

ACCUMULATION = 8

model = build_model().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)

for step, window in enumerate(micro_batches(ACCUMULATION)):
    total = 0
    for micro_batch in window:
        total = total + model(**micro_batch).loss / ACCUMULATION
    total.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print(f"step {step} loss {total.item():.4f}", flush=True)
