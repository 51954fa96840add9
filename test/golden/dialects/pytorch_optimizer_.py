#!/usr/bin/env python3
"""Writes pytorch_optimizer.txt: Lion(cautious=True) of the package pytorch_optimizer on one tensor (foreach=False)."""

from collections.abc import Iterator
from importlib.metadata import version

import numpy as np
import torch
from common import Case, State, write
from torch_run import steps
from pytorch_optimizer.optimizer.lion import Lion

CASES = [
    Case("cautious_lion", 0.0001, {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0}),
    Case("cautious_lion", 0.25, {"beta1": 0.5, "beta2": 0.75, "weight_decay": 0.5}, later_lr=0.0625),
]


def run(case: Case, weights: np.ndarray, gradients: np.ndarray) -> Iterator[State]:
    weight = torch.nn.Parameter(torch.from_numpy(weights))
    optimizer = Lion(
        [weight],
        lr=case.lr,
        betas=(case.options["beta1"], case.options["beta2"]),
        weight_decay=case.options["weight_decay"],
        weight_decouple=True,
        foreach=False,
        cautious=True,
    )

    def state() -> State:
        m = optimizer.state[weight].get("exp_avg", torch.zeros_like(weight))
        return {name: x.detach().numpy().copy() for name, x in (("w", weight), ("m", m))}

    return steps(optimizer, weight, case, gradients, state)


if __name__ == "__main__":
    torch.set_num_threads(1)
    versions = f"pytorch_optimizer {version('pytorch_optimizer')} and torch {torch.__version__.split('+')[0]}"
    write("pytorch_optimizer", versions, CASES, run)
