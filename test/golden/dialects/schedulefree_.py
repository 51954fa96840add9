#!/usr/bin/env python3
"""Writes schedulefree.txt: the package schedulefree of the authors on one tensor, by the loop over tensors (foreach=False).

`average` is x, the weights after eval(), of a copy: y is not restored bit for bit by train().
"""

import copy
import inspect
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from common import Case, State, write
from torch_run import steps
from schedulefree import AdamWScheduleFree, RAdamScheduleFree, SGDScheduleFree

OPTIMIZERS = {"sgd": SGDScheduleFree, "adamw": AdamWScheduleFree, "radam": RAdamScheduleFree}
SLOTS = {"sgd": {"z": "z"}, "adamw": {"z": "z", "v": "exp_avg_sq"}, "radam": {"z": "z", "v": "exp_avg_sq"}}


def defaults(name: str) -> Case:
    """The case of an optimizer's own defaults, betas as beta1, beta2. Warm-up is a matter of the rates here."""
    parameters = inspect.signature(OPTIMIZERS[name]).parameters.values()
    given: dict[str, Any] = {p.name: p.default for p in parameters if p.default is not p.empty}
    if "betas" in given:
        given["beta1"], given["beta2"] = given.pop("betas")
    rate = given.pop("lr")
    for other in ("warmup_steps", "foreach"):
        given.pop(other, None)
    return Case(name, rate, {option: float(value) for option, value in given.items()})


ADAM = {"beta1": 0.8, "beta2": 0.99, "eps": 0.001}

CASES = [
    defaults("sgd"),
    Case("sgd", 0.1, {"momentum": 0.6, "weight_decay": 0.01, "r": 1.5, "weight_lr_power": 0.0}, later_lr=0.02),
    Case("sgd", 0.02, {"momentum": 0.9, "r": 0.0, "weight_lr_power": 1.0}, later_lr=0.1),
    defaults("adamw"),
    Case("adamw", 0.1, ADAM | {"weight_decay": 0.5, "r": 1.0, "weight_lr_power": 0.0}, later_lr=0.02),
    Case("adamw", 0.02, ADAM | {"weight_decay": 0.0, "r": 0.0, "weight_lr_power": 2.0}, later_lr=0.1),
    defaults("radam"),
    Case(
        "radam",
        0.1,
        ADAM | {"weight_decay": 0.5, "r": 1.0, "weight_lr_power": 1.0, "silent_sgd_phase": 0.0},
        later_lr=0.02,
    ),
]


def make(case: Case, weight: torch.Tensor) -> torch.optim.Optimizer:
    options: dict[str, Any] = dict(case.options)
    if "beta1" in options:
        options["betas"] = (options.pop("beta1"), options.pop("beta2"))
    if "silent_sgd_phase" in options:
        options["silent_sgd_phase"] = bool(options["silent_sgd_phase"])
    return OPTIMIZERS[case.name]([weight], lr=case.lr, foreach=False, **options)


def run(case: Case, weights: np.ndarray, gradients: np.ndarray) -> Iterator[State]:
    weight = torch.nn.Parameter(torch.from_numpy(weights))
    optimizer = make(case, weight)
    optimizer.train()

    def state() -> State:
        here = optimizer.state[weight]
        starts = {"z": weight, "v": torch.zeros_like(weight)}
        kept = {slot: here.get(name, starts[slot]) for slot, name in SLOTS[case.name].items()}
        shown = copy.deepcopy(optimizer)
        shown.eval()
        kept["average"] = shown.param_groups[0]["params"][0]
        group = optimizer.param_groups[0]
        for name, ours in (("weight_sum", "weight_sum"), ("lr_max", "highest_rate")):
            kept[ours] = torch.full_like(weight, max(group[name], 0.0))
        return {name: x.detach().numpy().copy() for name, x in ({"w": weight} | kept).items()}

    return steps(optimizer, weight, case, gradients, state)


if __name__ == "__main__":
    torch.set_num_threads(1)
    write("schedulefree", f"schedulefree {version('schedulefree')}, torch {torch.__version__.split('+')[0]}", CASES, run)
