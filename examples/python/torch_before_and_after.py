#!/usr/bin/env python3
"""Trains one network three times: with torch.optim.AdamW, with its fused step, and with gradstep.torch.AdamW.

All three start from the same weights and get the same batches. The program prints their losses side by side and the time of a step
of each optimizer. Then it goes on with the run of torch in gradstep, and back. docs/start/tutorial_torch.md explains it.
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
def train(model: nn.Module, optimizer: torch.optim.Optimizer, first: int, last: int) -> tuple[list[float], list[float]]:
    """The losses of the steps first .. last - 1, and the seconds that optimizer.step() took in each."""
    losses, seconds = [], []
    for t in range(first, last):
        torch.manual_seed(t)  # the same batches in every run
        x = torch.randn(64, 16)
        y = torch.sin(2 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        begin = time.perf_counter()
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
        losses.append(loss.item())
    return losses, seconds
# [train]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=400, help="of each run, at least 10 (default: 400)")
    steps = parser.parse_args().steps
    if steps < 10:
        parser.error(f"--steps: {steps}; expected a number >= 10")
    torch.set_num_threads(1)

    # [compare]
    models = [network() for _ in range(3)]
    optimizers = {
        "torch.optim.AdamW": torch.optim.AdamW(models[0].parameters(), lr=1e-3, weight_decay=0.01),
        "torch.optim.AdamW(fused=True)": torch.optim.AdamW(models[1].parameters(), lr=1e-3, weight_decay=0.01, fused=True),
        "gradstep.torch.AdamW": gradstep.torch.AdamW(models[2].parameters(), lr=1e-3, weight_decay=0.01),
    }
    runs = [train(model, optimizer, 0, steps) for model, optimizer in zip(models, optimizers.values())]
    # [compare]

    parameters = list(models[0].parameters())
    print(f"{len(parameters)} tensors, {sum(p.numel() for p in parameters)} weights, {torch.get_num_threads()} thread\n")
    print("mean loss of the steps" + "".join(f"{name:>32}" for name in optimizers))
    for begin in range(0, steps, steps // 4):
        end = min(begin + steps // 4, steps)
        print(f"{begin:>10} to {end - 1:<8}" + "".join(f"{statistics.fmean(losses[begin:end]):>32.5f}" for losses, _ in runs))
    medians = [statistics.median(seconds) for _, seconds in runs]
    print(f"{'time of a step, us':<22}" + "".join(f"{1e6 * x:>32.0f}" for x in medians))
    print(f"{'gradstep takes':<22}" + "".join(f"{medians[2] / x:>32.2f}" for x in medians))

    # [switch]
    half = steps // 2
    model = network()
    before = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    losses, _ = train(model, before, 0, half)
    after = gradstep.torch.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    after.load_state_dict(before.state_dict())  # moments and step counts
    losses += train(model, after, half, steps)[0]
    # [switch]
    print(f"\nfrom torch to gradstep at step {half}: mean loss of the last steps {statistics.fmean(losses[-(steps // 4):]):.5f}")

    # Rounding apart, the four runs are one run: their first steps agree closely, and they learn equally well.
    everything = [*[x for x, _ in runs], losses]
    first_agree = all(abs(a - b) <= 1e-4 * abs(b) for x in everything for a, b in zip(x[:10], everything[0]))
    if not first_agree or any(statistics.fmean(x[-(steps // 4):]) > 1.5 * statistics.fmean(losses[-(steps // 4):]) for x in everything):
        print("the losses differ by more than rounding", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
