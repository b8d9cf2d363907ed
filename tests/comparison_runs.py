"""Runs and configurations to compare, written into a folder."""

from __future__ import annotations

from pathlib import Path

NO_YAML = """\
compute_environment: LOCAL_MACHINE
distributed_type: 'NO'
dynamo_config:
  dynamo_backend: INDUCTOR
mixed_precision: bf16
num_machines: 1
num_processes: 1
use_cpu: false
"""
PACKAGES = """\
accelerate==1.10.0
numpy==1.26.4
peft==0.17.0
safetensors==0.5.3
tokenizers==0.21.0
torch==2.4.1
transformers==4.46.3
triton==3.0.0
tqdm==4.66.5
"""
ENDED_WELL = """\
INFO resuming from /data/ckpt/step-400
step 410/1000 loss=2.09
step 1000/1000 loss=1.61
training finished
"""
REFUSED = """\
INFO resuming from /data/ckpt/step-400
Traceback (most recent call last):
  File "/home/user/train.py", line 40, in main
    state = torch.load(args.resume, map_location="cpu")
  File "/opt/venv/lib/python3.11/site-packages/torch/serialization.py", line 1529, in load
    raise pickle.UnpicklingError(_get_wo_message(str(e))) from None
_pickle.UnpicklingError: Weights only load failed. This file can still be loaded, to do so you have two options, do those steps only if you trust the source of the checkpoint.
\tWeightsUnpickler error: Unsupported global: GLOBAL argparse.Namespace was not an allowed global by default. Please use `torch.serialization.add_safe_globals([argparse.Namespace])` to allowlist this global.
"""  # noqa: E501
OUT_OF_MEMORY = """\
step 10/1000 loss=2.1
Traceback (most recent call last):
  File "/home/user/project/train.py", line 88, in main
    loss.backward()
  File "/opt/venv/lib/python3.11/site-packages/torch/_tensor.py", line 581, in backward
    torch.autograd.backward(
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 594.00 MiB. GPU 0 has a total capacity of 23.69 GiB of which \
512.00 MiB is free. Including non-PyTorch memory, this process has 23.17 GiB memory in use. Of the allocated memory \
22.50 GiB is allocated by PyTorch, and 120.00 MiB is reserved by PyTorch but unallocated.
"""
GATHERED = """\
Traceback (most recent call last):
  File "/home/user/train.py", line 52, in <module>
    trainer.train()
  File "/opt/venv/lib/python3.11/site-packages/transformers/trainer.py", line 4020, in compute_loss
    outputs = model(**inputs)
  File "/opt/venv/lib/python3.11/site-packages/torch/nn/parallel/data_parallel.py", line 194, in forward
    return self.gather(outputs, self.output_device)
  File "/opt/venv/lib/python3.11/site-packages/torch/nn/parallel/scatter_gather.py", line 136, in gather
    res = gather_map(outputs)
  File "/opt/venv/lib/python3.11/site-packages/torch/nn/parallel/comm.py", line 250, in gather
    return torch._C._gather(tensors, dim, destination)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB. GPU 0 has a total capacity of 23.69 GiB of which \
512.00 MiB is free. Including non-PyTorch memory, this process has 23.17 GiB memory in use. Of the allocated memory \
22.50 GiB is allocated by PyTorch, and 120.00 MiB is reserved by PyTorch but unallocated.
"""
ZERO3 = """\
{
  "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": 8,
  "zero_optimization": {"stage": 3, "overlap_comm": true},
  "bf16": {"enabled": true}
}
"""
ENDED = "{'train_runtime': 100.0, 'train_samples_per_second': 3.2, 'train_steps_per_second': 0.2, 'train_loss': 2.1}"


def losses(command: str, world_size: int, values: tuple[float, ...]) -> str:
    """A log of the Trainer with its command, one loss for each tenth of an epoch, to its end."""
    rows = [f"{{'loss': {value}, 'grad_norm': 0.9, 'epoch': {number / 10}}}" for number, value in enumerate(values, 1)]
    return "\n".join([f"$ {command}", f"world_size: {world_size}", *rows, ENDED, ""])


def write(folder: Path, **files: str) -> str:
    """The folder with the files, named `pip__txt` for `pip.txt`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return str(folder)
