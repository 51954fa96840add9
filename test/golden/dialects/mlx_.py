#!/usr/bin/env python3
"""Writes mlx.txt: mlx.optimizers on one tensor, on the CPU."""

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
from common import Case, State, write
from mlx.optimizers import SGD, Adagrad, AdaDelta, Adam, Adamax, AdamW, Lion, Optimizer, RMSprop


class Function(NamedTuple):
    """A function of the dialect: the class, its state by our names, and what of its options makes this function."""

    optimizer: type[Optimizer]
    slots: dict[str, str] = {}
    switches: dict[str, Any] = {}


MOMENTS = {"m": "m", "v": "v"}
FUNCTIONS = {
    "sgd": Function(SGD),
    "sgd_momentum": Function(SGD, {"m": "v"}),
    "sgd_nesterov": Function(SGD, {"m": "v"}, {"nesterov": True}),
    "rmsprop": Function(RMSprop, {"n": "v"}),
    "adagrad": Function(Adagrad, {"n": "v"}),
    "adadelta": Function(AdaDelta, {"n": "v", "u": "u"}),
    "adam": Function(Adam, MOMENTS),
    "adamw": Function(AdamW, MOMENTS),
    "adamax": Function(Adamax, {"m": "m", "u": "v"}),
    "lion": Function(Lion, {"m": "m"}),
}
FLOAT = ("float32",)  # mlx keeps the rate in float
BETAS, OTHER_BETAS = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8}, {"beta1": 0.75, "beta2": 0.9375, "eps": 1e-3}
OFF, ON = {"bias_correction": 0.0}, {"bias_correction": 1.0}


def cases(name: str, first: dict[str, float], other: dict[str, float]) -> list[Case]:
    return [Case(name, 0.001, first, dtypes=FLOAT), Case(name, 0.25, other, later_lr=0.0625, dtypes=FLOAT)]


CASES = [
    *cases("sgd", {"weight_decay": 0.0}, {"weight_decay": 0.125}),
    *cases("sgd_momentum", {"momentum": 0.9}, {"momentum": 0.5, "weight_decay": 0.125}),
    *cases("sgd_nesterov", {"momentum": 0.9}, {"momentum": 0.5, "weight_decay": 0.125}),
    *cases("rmsprop", {"alpha": 0.99, "eps": 1e-8}, {"alpha": 0.75, "eps": 1e-3}),
    *cases("adagrad", {"eps": 1e-8}, {"eps": 1e-3}),
    *cases("adadelta", {"rho": 0.9, "eps": 1e-6}, {"rho": 0.75, "eps": 1e-3}),
    *cases("adam", BETAS | OFF, OTHER_BETAS | ON),
    *cases("adamw", BETAS | OFF | {"weight_decay": 0.01}, OTHER_BETAS | OFF | {"weight_decay": 0.5}),
    *cases("adamax", BETAS, OTHER_BETAS),
    *cases("lion", {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0}, {"beta1": 0.5, "beta2": 0.75, "weight_decay": 0.5}),
]


def run(case: Case, weights: np.ndarray, gradients: np.ndarray) -> Iterator[State]:
    function, options = FUNCTIONS[case.name], dict(case.options)
    if "beta1" in options:
        options["betas"] = [options.pop("beta1"), options.pop("beta2")]
    if "bias_correction" in options:
        options["bias_correction"] = bool(options["bias_correction"])
    optimizer = function.optimizer(learning_rate=case.lr, **options, **function.switches)
    weight = {"w": mx.array(weights)}
    optimizer.init(weight)

    def state() -> State:
        kept = {slot: optimizer.state["w"][name] for slot, name in function.slots.items()}
        return {name: np.array(x) for name, x in (weight | kept).items()}

    yield state()
    for rate, gradient in zip(case.rates(), gradients, strict=True):
        optimizer.learning_rate = rate
        weight = optimizer.apply_gradients({"w": mx.array(gradient)}, weight)
        yield state()


if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    write("mlx", f"mlx {version('mlx')}", CASES, run)
