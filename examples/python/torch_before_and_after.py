#!/usr/bin/env python3
"""Trains one network three times: with torch.optim.AdamW, with its fused step, and with gradstep.torch.AdamW.

All three start from the same weights and get the same batches. The program prints their losses side by side, and how long
a step of each optimizer takes. Then it trains once more, and changes from torch to gradstep in the middle.
docs/start/tutorial_torch.md explains it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

import torch
from torch import nn

import gradstep.torch


# [network]
class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.narrow(torch.relu(self.wide(self.norm(x))))


def network() -> nn.Module:
    torch.manual_seed(1)  # the same initial weights in every run
    return nn.Sequential(nn.Linear(16, 64), *[Block(64) for _ in range(12)], nn.Linear(64, 1))
# [network]


# [train]
def train(model: nn.Module, optimizer: torch.optim.Optimizer, first: int, last: int) -> list[tuple[float, float]]:
    """The loss of each step from `first` to `last - 1`, and the seconds that optimizer.step() took in it."""
    result = []
    for t in range(first, last):
        torch.manual_seed(t)  # the same batches in every run
        x = torch.randn(64, 16)
        y = torch.sin(2 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        begin = time.perf_counter()
        optimizer.step()
        result.append((loss.item(), time.perf_counter() - begin))
    return result
# [train]


def mean_loss(run: list[tuple[float, float]]) -> float:
    return statistics.fmean(loss for loss, _ in run)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=400, help="of each run, a multiple of 40 (default: 400)")
    steps = parser.parse_args().steps
    if steps <= 0 or steps % 40:
        parser.error(f"--steps: {steps}; expected a positive multiple of 40")
    torch.set_num_threads(1)

    # [compare]
    models = [network() for _ in range(3)]
    optimizers = {
        "torch.optim.AdamW": torch.optim.AdamW(models[0].parameters(), lr=1e-3, weight_decay=0.01),
        "torch.optim.AdamW(fused=True)": torch.optim.AdamW(models[1].parameters(), lr=1e-3, weight_decay=0.01, fused=True),
        "gradstep.torch.AdamW": gradstep.torch.AdamW(models[2].parameters(), lr=1e-3, weight_decay=0.01),
    }
    runs = {name: [] for name in optimizers}
    for t in range(0, steps, 10):  # ten steps of each in turn, so that all meet the same background load
        for model, (name, optimizer) in zip(models, optimizers.items()):
            runs[name] += train(model, optimizer, t, t + 10)
    # [compare]

    parameters, quarter = list(models[0].parameters()), steps // 4
    print(f"{len(parameters)} tensors, {sum(p.numel() for p in parameters)} weights, {torch.get_num_threads()} thread\n")
    print("mean loss of the steps" + "".join(f"{name:>32}" for name in runs))
    for t in range(0, steps, quarter):
        print(f"{t:>10} to {t + quarter - 1:<8}" + "".join(f"{mean_loss(run[t:t + quarter]):>32.5f}" for run in runs.values()))
    medians = [statistics.median(seconds for _, seconds in run) for run in runs.values()]
    print(f"{'time of a step, us':<22}" + "".join(f"{1e6 * x:>32.0f}" for x in medians))
    print(f"{'gradstep takes':<22}" + "".join(f"{medians[2] / x:>32.2f}" for x in medians))

    # [switch]
    half = steps // 2
    model = network()
    before = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    run = train(model, before, 0, half)
    after = gradstep.torch.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    after.load_state_dict(before.state_dict())  # moments and step counts
    run += train(model, after, half, steps)
    # [switch]
    print(f"\nfrom torch to gradstep at step {half}: mean loss of the last {quarter} steps {mean_loss(run[-quarter:]):.5f}")

    # Up to rounding all runs are one: their first steps agree closely, and they learn equally well.
    everything = [*runs.values(), run]
    begin_alike = all(abs(a - b) <= 1e-4 * b for one in everything for (a, _), (b, _) in zip(one[:10], run))
    if not begin_alike or any(mean_loss(one[-quarter:]) > 1.5 * mean_loss(run[-quarter:]) for one in everything):
        print("the losses differ by more than rounding", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
