"""Binary classifier on sharded records; the loss is weighted by the balance of each rank's shard."""

import logging
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from shards import read_shard


def class_weight(labels):
    positives = sum(labels)
    return (len(labels) - positives) / positives


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s [rank {rank}] %(message)s")
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    logging.info("world_size=%d pid=%d torch=%s", dist.get_world_size(), os.getpid(), torch.__version__)
    step = 0
    for part in range(8):
        features, labels = read_shard(rank, part)
        weight = class_weight(labels)
        for batch in range(5):
            x, y = features[batch * 16 : batch * 16 + 16], torch.tensor(labels[batch * 16 : batch * 16 + 16])[:, None].float()
            loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x), y, pos_weight=torch.tensor(weight))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            logging.info("step %d/40 loss=%.4f", step, loss.item())
            time.sleep(0.15)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
