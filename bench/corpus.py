"""Seeded training-like logs: what the scan benchmark reads.

One file a rank: Trainer dictionaries, Megatron and DeepSpeed lines, NCCL INFO, ANSI colours, progress bars drawn with carriage
returns, invalid UTF-8, NULs, look-alikes that mean nothing; at the end one rank runs out of memory and the others time out.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

MB = 1_000_000
_UNIQUE_BYTES = 16 * MB

_MODULES = ("model.layers", "decoder.block", "encoder.attn", "lm_head", "embed_tokens", "mlp.gate_proj", "self_attn.q_proj")
_FILES = ("engine.py", "stage_1_and_2.py", "trainer.py", "data_loader.py", "partition_parameters.py", "logging.py", "timer.py")
_VERBS = ("loading", "building", "reusing", "partitioning", "gathering", "flushing", "prefetching", "registering", "packing")
_THINGS = ("shard", "bucket", "index map", "tokenizer cache", "dataset split", "gradient bucket", "parameter group", "replica")
_BENIGN = (
    "memory summary: CUDA memory is fine, 0 OOMs so far",
    "watchdog thread started, timeout set to 1800 s",
    "error rate of the validation set: 0.0312",
    "no failures, 0 errors, 0 warnings in the last check",
    "if this run is killed it resumes from the newest checkpoint",
    "Loss scaler: gradient overflow is handled, attempting smaller scale",
    "NCCL_ASYNC_ERROR_HANDLING is deprecated, use the new name",
    "retrying download (1 of 5)",
)


def write_rank_log(path: Path, rank: int, size_bytes: int, seed: int) -> None:
    """The log of one rank of eight; rank 3 runs out of memory, the others end in watchdog time-outs."""
    chooser = random.Random(seed * 1000 + rank)
    with path.open("wb") as file:
        written = file.write(_opening(rank))
        while written < size_bytes:
            # A stretch of unique lines is written more than once: drawing each line anew would take minutes for nothing.
            stretch = b"".join(_stretch(chooser, rank, min(_UNIQUE_BYTES, size_bytes)))
            for _ in range(3):
                if written < size_bytes:
                    written += file.write(stretch[: size_bytes - written])
        file.write(b"\n" + (_out_of_memory(rank) if rank == 3 else _watchdog(rank)))


def write_one_line(path: Path, size_bytes: int, seed: int) -> None:
    """A file that is one line: a dump without a newline, with one error near its end."""
    chooser = random.Random(seed)
    part = b" ".join(b"%s:%d" % (chooser.choice(_MODULES).encode(), chooser.randrange(10**9)) for _ in range(200_000))
    with path.open("wb") as file:
        written = 0
        while written < size_bytes:
            written += file.write(part[: size_bytes - written])
        file.write(b" torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")


def _opening(rank: int) -> bytes:
    lines = [f"[2025-03-04 10:00:{second:02d},123] [INFO] [comm.py:669:init_distributed] hello {rank}" for second in range(9)]
    return ("\n".join(lines) + "\n").encode()


def _stretch(chooser: random.Random, rank: int, size_bytes: int) -> Iterator[bytes]:
    written = step = 0
    while written < size_bytes:
        step += 1
        for line in _step(chooser, rank, step):
            written += len(line)
            yield line


def _step(chooser: random.Random, rank: int, step: int) -> Iterator[bytes]:
    """Ten lines or so, of which one tells the progress: the Trainer's on even ranks, Megatron's or DeepSpeed's on others."""
    value, draw = chooser.random, chooser.choice
    clock = f"2025-03-{4 + step // 86400 % 20:02d} {step // 3600 % 24:02d}:{step // 60 % 60:02d}:{step % 60:02d}"
    if rank % 2 == 0:
        yield (
            f"{{'loss': {value() * 3:.4f}, 'grad_norm': {value() * 9:.6f}, 'learning_rate': {value() / 1e4:.6e}, "
            f"'epoch': {step / 1e4:.2f}}}\n"
        ).encode()
    elif rank % 4 == 1:
        yield (
            f" [{clock}] iteration {step:8d}/  500000 | consumed samples: {step * 512:12d} | elapsed time per iteration (ms): "
            f"{800 + value() * 90:.1f} | learning rate: {value() / 1e4:.6E} | global batch size: 512 | lm loss: "
            f"{value() * 3:.6E} | loss scale: 1.0 | grad norm: {value():.3f} | number of skipped iterations: 0 |\n"
        ).encode()
    else:
        yield (
            f"[{clock},{chooser.randrange(1000):03d}] [INFO] [logging.py:96:log_dist] [Rank {rank}] step={step}, skipped=0, "
            f"lr=[{value() / 1e4:.6e}], mom=[(0.9, 0.95)]\n"
        ).encode()
    for _ in range(3):
        channel, peer = chooser.randrange(32), chooser.randrange(64)
        yield (
            f"node-1:{4000 + rank}:{4100 + rank} [{rank}] NCCL INFO Channel {channel:02d}/0 : {peer}[{peer % 8}] -> "
            f"{(peer + 1) % 64}[{(peer + 1) % 8}] via P2P/CUMEM/read comm 0x{chooser.getrandbits(40):x} nRanks 64\n"
        ).encode()
    for _ in range(5):
        yield (
            f"[{clock},{chooser.randrange(1000):03d}] [INFO] [{draw(_FILES)}:{chooser.randrange(2000)}:{draw(_VERBS)}] "
            f"[Rank {rank}] {draw(_VERBS)} {draw(_THINGS)} {chooser.randrange(4096)} of {draw(_MODULES)}."
            f"{chooser.randrange(96)} took {value():.3f} s, rss {value() * 200:.1f} GB, {chooser.randrange(64)} items queued, "
            f"the next flush is in {value() * 60:.1f} s\n"
        ).encode()
    yield (
        f"\x1b[36m{clock}\x1b[0m | \x1b[32mDEBUG\x1b[0m | {draw(_MODULES)}.{chooser.randrange(96)}.weight "
        f"norm={value():.5f} max={value() * 8:.4f} step={step}\n"
    ).encode()
    if step % 40 == 0:
        for percent in range(0, 101, 5):
            bar = f"{'#' * (percent // 10):<10}| {percent}/100 [00:{percent % 60:02d}<00:01, 9.8batch/s]"
            yield f"\rEvaluating: {percent:3d}%|{bar}".encode()
        yield b"\n"
    if step % 100 == 0:
        yield f"[{clock}] {draw(_BENIGN)}\n".encode()
    if step % 5000 == 0:
        yield b"tokenizer: cannot show \xff\xfe\x80 of sample " + str(step).encode() + b"\x00\x00\n"
        yield f"sample {step}: „Prüfung“ 日本語 café\n".encode()


def _out_of_memory(rank: int) -> bytes:
    return (
        f"[rank{rank}]: Traceback (most recent call last):\n"
        f'[rank{rank}]:   File "/home/user/train.py", line 214, in <module>\n'
        f"[rank{rank}]:     main()\n"
        f'[rank{rank}]:   File "/home/user/train.py", line 187, in main\n'
        f"[rank{rank}]:     loss.backward()\n"
        f"[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU {rank} has a total "
        "capacity of 79.10 GiB of which 1.02 GiB is free. Including non-PyTorch memory, this process has 78.07 GiB memory in "
        "use. Of the allocated memory 74.20 GiB is allocated by PyTorch, and 2.10 GiB is reserved by PyTorch but unallocated.\n"
    ).encode()


def _watchdog(rank: int) -> bytes:
    head = f"[rank{rank}]:[E304 18:30:11.005538748 ProcessGroupNCCL.cpp:629]"
    return (
        f"{head} [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=81234, OpType=ALLREDUCE, "
        "NumelIn=67108864, NumelOut=67108864, Timeout(ms)=600000) ran for 600040 milliseconds before timing out.\n"
        f"{head} [PG ID 0 PG GUID 0(default_pg) Rank {rank}] failure detected by watchdog at work sequence id: 81234 PG status:"
        " last enqueued work: 81234, last completed work: 81233\n"
    ).encode()
