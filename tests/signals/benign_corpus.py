"""Logs of runs in which nothing failed: a seeded generator of the lines that fill most of a training log.

The lines are what a prefilter has to walk over cheaply: step lines, bars, NCCL's INFO chatter, warnings of libraries, and prose
that talks about errors without being one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

Line = Callable[[random.Random, int], str]

_WARNINGS = (
    "/opt/venv/lib/python3.11/site-packages/torch/utils/checkpoint.py:460: UserWarning: the use_reentrant"
    " parameter should be passed explicitly.",
    "`use_cache=True` is incompatible with gradient checkpointing. Setting `use_cache=False`.",
    "WARNING - Failed to download the optional file generation_config.json, falling back to defaults",
    "wandb: WARNING (User provided step: 500 is less than current step: 501. Dropping entry)",
    "FutureWarning: `torch.cuda.amp.autocast(args...)` is deprecated. Please use `torch.amp.autocast` instead.",
    "UserWarning: The given NumPy array is not writable, and PyTorch does not support non-writable tensors.",
    "retrying request to storage (attempt 1 of 5): read timed out, will retry in 2.0 s",
    "INFO: error rate 0.00, retries 3, aborted requests 0, timeout setting 600 s",
    "Using the latest cached version of the dataset since the hub could not be reached in time; continuing",
    "pcieport 0000:00:01.0: AER: Corrected error received: 0000:98:00.0",
    "[W socket.cpp] no error, killed 0 stale connections, signal handlers installed",
    "sample[17] assistant: out of memory errors are often caused by a batch that is too large; see the CUDA documentation",
)


def _trainer(pick: random.Random, step: int) -> str:
    return (
        f"{{'loss': {pick.uniform(0.5, 3):.4f}, 'grad_norm': {pick.uniform(0.1, 2):.4f}, "
        f"'learning_rate': {pick.uniform(1e-6, 1e-4):.3e}, 'epoch': {step / 1000:.2f}}}"
    )


def _bar(pick: random.Random, step: int) -> str:
    done = step % 1000
    full = "█" * (done // 100)
    return (
        f"{done // 10:3d}%|{full:<10}| {done}/1000 [{done // 60:02d}:{done % 60:02d}<08:49,  {pick.uniform(1, 4):.2f}it/s]\r"
        f"Map: {done // 10:3d}%|{full:<10}| {done}/1000 [00:01<00:05, {pick.uniform(900, 2000):.2f} examples/s]"
    )


def _megatron(pick: random.Random, step: int) -> str:
    return (
        f" [2025-03-04 10:15:02] iteration {step:8d}/  500000 | consumed samples: {step * 256:12d} | "
        f"elapsed time per iteration (ms): {pick.uniform(700, 900):.1f} | learning rate: 1.000E-04 | "
        f"global batch size:   256 | lm loss: {pick.uniform(1, 9):.6E} | "
        "loss scale: 1.0 | grad norm: 0.812 | number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


def _deepspeed(pick: random.Random, step: int) -> str:
    head = f"[2025-03-04 10:15:02,{step % 1000:03d}] [INFO]"
    if pick.random() < 0.5:
        return f"{head} [logging.py:96:log_dist] [Rank 0] step={step}, skipped=0, lr=[1e-05], mom=[[0.9, 0.999]]"
    return (
        f"{head} [timer.py:215:stop] epoch=0/micro_step={step * 8}/global_step={step}, RunningAvgSamplesPerSec=12.1, "
        "CurrSamplesPerSec=12.0, MemAllocated=21.1GB, MaxMemAllocated=60.2GB"
    )


def _nccl(pick: random.Random, step: int) -> str:
    rank, peer = step % 8, (step + 1) % 8
    texts = (
        f"Channel {step % 24:02d}/0 : {rank}[{rank}] -> {peer}[{peer}] via P2P/CUMEM",
        f"comm 0x55d0c3a8 rank {rank} nRanks 64 nNodes 8 localRanks 8 localRank {rank} MNNVL 0",
        "threadThresholds 8/8/64 | 512/8/64 | 512 | 512",
        "NET/Plugin: No plugin found (libnccl-net.so), using internal implementation",
        "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>",
        "NVLS multicast support is not available on dev 0",
        "Connected all rings, use ring PXN 0 GDR 1",
        f"AllReduce: opCount {step:x} sendbuff 0x7f0c recvbuff 0x7f0c count 65536 datatype 9 comm 0x55d0c3a8 [nranks=64]",
    )
    return f"node-1:{2000 + rank}:{3000 + rank} [{rank}] NCCL INFO {pick.choice(texts)}"


def _logger(pick: random.Random, step: int) -> str:
    return (
        f"2025-03-04 10:{step // 60 % 60:02d}:{step % 60:02d},118 - trainer - INFO - step {step}/500000 "
        f"loss {pick.uniform(1, 3):.4f} {pick.uniform(1, 5):.2f} s/it mem {pick.uniform(20, 70):.1f} GiB"
    )


def _evaluation(pick: random.Random, step: int) -> str:
    loss = pick.uniform(1, 3)
    return f"{{'eval_loss': {loss:.4f}, 'eval_wer_error_rate': 0.12, 'eval_runtime': 31.2, 'epoch': {step / 1000:.2f}}}"


def _warning(pick: random.Random, _step: int) -> str:
    return pick.choice(_WARNINGS)


def _saved(_pick: random.Random, step: int) -> str:
    return f"2025-03-04 10:15:02,118 - ckpt.writer - INFO - written shard {step % 64} to /scratch/ckpt/step-{step} (199 MB/s)"


def _gpu_table(pick: random.Random, step: int) -> str:
    used = pick.randrange(80000)
    return f"|   {step % 8}  NVIDIA A100-SXM4-80GB          On  | 00000000:1B:00.0 Off |       0 |  {used}MiB / 81920MiB |"


_MAKERS: tuple[tuple[Line, int], ...] = (
    (_trainer, 20),
    (_bar, 20),
    (_megatron, 10),
    (_deepspeed, 10),
    (_nccl, 20),
    (_logger, 20),
    (_evaluation, 2),
    (_warning, 3),
    (_saved, 2),
    (_gpu_table, 2),
)


def benign_lines(seed: int) -> Iterator[str]:
    """Lines without end, the same for the same seed."""
    pick = random.Random(seed)
    makers = [maker for maker, _ in _MAKERS]
    weights = [weight for _, weight in _MAKERS]
    step = 0
    while True:
        step += 1
        prefix = f"[rank{step % 8}]: " if pick.random() < 0.1 else ""
        yield prefix + pick.choices(makers, weights)[0](pick, step)


def benign_text(seed: int, size_bytes: int) -> str:
    """About that many bytes of such lines."""
    lines: list[str] = []
    left = size_bytes
    for line in benign_lines(seed):
        lines.append(line)
        left -= len(line.encode()) + 1
        if left <= 0:
            return "\n".join(lines)
    raise AssertionError("lines never end")
