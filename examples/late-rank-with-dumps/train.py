"""Averages gradients by hand over gloo; a thread of each rank writes the flight recorder's dump while the others wait."""

import datetime
import os
import threading
import time

import torch
import torch.distributed as dist

STEPS = 30


def dump(rank):
    with open(os.path.join(os.environ["DUMPS"], f"nccl_trace_rank_{rank}"), "wb") as file:
        file.write(torch._C._distributed_c10d._dump_fr_trace())


def average(gradient):
    dist.all_reduce(gradient)
    gradient /= dist.get_world_size()


def rebuild_buckets(step):
    print(f"step {step}: sorting 181,400 samples of shard 2 into length buckets", flush=True)
    time.sleep(12)


def main():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=5))
    rank = dist.get_rank()
    threading.Timer(9, dump, (rank,)).start()
    for step in range(1, STEPS + 1):
        if step == 25 and rank == 2:
            rebuild_buckets(step)
        gradient = torch.ones(64)
        try:
            average(gradient)
        except RuntimeError:
            time.sleep(6)
            raise
        print(f"step {step} loss {2.5 - step * 0.01:.3f}", flush=True)


if __name__ == "__main__":
    main()
