#!/usr/bin/env python3
"""gradstep.torch beside DistributedDataParallel: several processes on the CPU, with Gloo. docs/how_to/torch_ddp.md explains it.

Each rank trains on a part of the batch. In the middle of the run rank 0 saves, and every rank goes on from the file. In the end
all ranks must have the same weights and the same state, bit for bit.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

import gradstep
import gradstep.torch

STEPS, ACCUMULATED, BATCH = 40, 4, 16


# [create]
def create() -> tuple[DistributedDataParallel, torch.optim.Optimizer]:
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1)))
    return model, gradstep.torch.AdamW(model.parameters(), lr=1e-2)  # was torch.optim.AdamW
# [create]


# [sharded]
def create_sharded() -> tuple[DistributedDataParallel, torch.optim.Optimizer]:
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1)))
    return model, ZeroRedundancyOptimizer(model.parameters(), optimizer_class=gradstep.torch.AdamW, lr=1e-2)
# [sharded]


# [embedding]
def create_with_table() -> tuple[DistributedDataParallel, torch.optim.Optimizer]:
    features = gradstep.torch.EmbeddingBag(1000, 8, gradstep.adagrad(lr=0.1), mode="sum", process_group=dist.group.WORLD)
    model = DistributedDataParallel(nn.Sequential(features, nn.Linear(8, 1)))
    return model, gradstep.torch.AdamW(model.parameters(), lr=1e-2)  # of the linear layer
# [embedding]


def batch_loss(model: nn.Module, generator: torch.Generator) -> torch.Tensor:
    x = torch.randn(BATCH, 8, generator=generator)
    return nn.functional.mse_loss(model(x), torch.sin(2 * x[:, :1]) + x[:, 1:2])


# [step]
def step(model: DistributedDataParallel, optimizer: torch.optim.Optimizer, generator: torch.Generator) -> float:
    """One step of the optimizer, over ACCUMULATED batches of each rank."""
    with model.no_sync():  # gradients are added up in p.grad, and nothing is sent
        for _ in range(ACCUMULATED - 1):
            (batch_loss(model, generator) / ACCUMULATED).backward()
    loss = batch_loss(model, generator)
    (loss / ACCUMULATED).backward()  # the last one averages the sums over all ranks
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # the same norm on every rank
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()
# [step]


# [save]
def save(path: Path, model: DistributedDataParallel, optimizer: torch.optim.Optimizer) -> None:
    if dist.get_rank() == 0:  # the ranks are equal, so one of them is enough
        torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}, path)
    dist.barrier()  # all ranks wait until the file is complete


def load(path: Path, model: DistributedDataParallel, optimizer: torch.optim.Optimizer) -> None:
    saved = torch.load(path, weights_only=True)
    model.module.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
# [save]


# [compare]
def equal_on_all_ranks(tensors: list[torch.Tensor]) -> bool:
    """Whether all ranks have the tensors of rank 0, bit for bit."""
    same = torch.ones(())
    for tensor in tensors:
        of_first = tensor.detach().clone()
        dist.broadcast(of_first, 0)
        if not torch.equal(of_first, tensor.detach()):
            same.zero_()
    dist.all_reduce(same, dist.ReduceOp.MIN)
    return bool(same)
# [compare]


# [run]
def run(rank: int, ranks: int, port: int, folder: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    torch.manual_seed(0)
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // ranks))  # all ranks share the cores
    generator = torch.Generator().manual_seed(1 + rank)  # other data on every rank
    model, optimizer = create()
    # [run]
    first = step(model, optimizer, generator)
    for _ in range(STEPS // 2 - 1):
        step(model, optimizer, generator)
    path = Path(folder, "run.pt")
    save(path, model, optimizer)

    model, optimizer = create()  # as a new process would
    load(path, model, optimizer)
    for _ in range(STEPS // 2):
        last = step(model, optimizer, generator)
    state = [x for of_parameter in optimizer.state.values() for x in of_parameter.values()]
    same = equal_on_all_ranks([*model.parameters(), *state])

    torch.manual_seed(0)
    model, optimizer = create_sharded()
    for _ in range(STEPS):
        of_sharded = step(model, optimizer, generator)
    same = same and equal_on_all_ranks(list(model.parameters()))

    torch.manual_seed(rank)  # the constructors give the weights and the table of rank 0 to all ranks
    model, optimizer = create_with_table()
    for _ in range(STEPS):
        ids = torch.randint(1000, (BATCH, 4), generator=generator)
        nn.functional.mse_loss(model(ids), ids.sum(dim=1, keepdim=True) / 1000).backward()
        optimizer.step()
        optimizer.zero_grad()
    same = same and equal_on_all_ranks([*model.parameters(), model.module[0].get_extra_state()])
    dist.barrier()
    # One write, line end included, so that the ranks' lines do not mix.
    print(f"rank {rank}: loss {first:.4f} at first, {last:.4f} after {STEPS} steps; sharded {of_sharded:.4f}\n", end="")
    sys.stdout.flush()
    dist.barrier()
    if rank == 0:
        print("all ranks have the same bits" if same else "THE RANKS DIFFER", flush=True)
    dist.destroy_process_group()
    if not same or not max(last, of_sharded) < first:
        sys.exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, default=2, help="processes (default: 2)")
    ranks = parser.parse_args().ranks
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run, (ranks, port, folder), nprocs=ranks)


if __name__ == "__main__":
    main()
