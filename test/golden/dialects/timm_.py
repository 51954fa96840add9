#!/usr/bin/env python3
"""Writes timm.txt: the cautious optimizers of timm.optim on one tensor, by the loop over tensors (foreach=False).

timm is installed without dependencies: its other packages need torchvision, so only the files of the optimizers are imported.
"""

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from common import Case, State, write
from torch_run import import_without_init, steps

import_without_init("timm", "optim")
from timm.optim.adamw import AdamWLegacy  # noqa: E402
from timm.optim.lion import Lion  # noqa: E402

# As timm's factory makes them; state by our names.
OPTIMIZERS = {"cadamw": (AdamWLegacy, {"m": "exp_avg", "v": "exp_avg_sq"}), "clion": (Lion, {"m": "exp_avg"})}

ADAM = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01}
CASES = [
    Case("cadamw", 0.001, ADAM),
    Case("cadamw", 0.25, {"beta1": 0.75, "beta2": 0.9375, "eps": 1e-3, "weight_decay": 0.5}, later_lr=0.0625),
    Case("clion", 0.0001, {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0}),
    Case("clion", 0.25, {"beta1": 0.5, "beta2": 0.75, "weight_decay": 0.5}, later_lr=0.0625),
]


def run(case: Case, weights: np.ndarray, gradients: np.ndarray) -> Iterator[State]:
    weight = torch.nn.Parameter(torch.from_numpy(weights))
    make, slots = OPTIMIZERS[case.name]
    options: dict[str, Any] = dict(case.options)
    options["betas"] = (options.pop("beta1"), options.pop("beta2"))
    optimizer = make([weight], lr=case.lr, caution=True, foreach=False, **options)

    def state() -> State:
        here = optimizer.state[weight]
        kept = {slot: here.get(name, torch.zeros_like(weight)) for slot, name in slots.items()}
        return {name: x.detach().numpy().copy() for name, x in ({"w": weight} | kept).items()}

    return steps(optimizer, weight, case, gradients, state)


if __name__ == "__main__":
    torch.set_num_threads(1)
    write("timm", f"timm {version('timm')} and torch {torch.__version__.split('+')[0]}", CASES, run)
