#!/usr/bin/env python3
"""Writes dynamicemb.txt: loops in float after the kernels of dynamicemb, which runs on GPUs only.

The source is corelib/dynamicemb/src/optimizer_kernel.cuh of github.com/NVIDIA/recsys-examples, at the commit below. The powers
of Adam's betas are rounded to float here, and come from __powf there.
"""

from collections.abc import Callable, Iterator

import numpy as np
from common import Case, State, write

COMMIT = "03b58b14cd5f41e5909fcbd61afcbeab560fe3fc"
f32, ONE = np.float32, np.float32(1)
Slots = dict[str, np.ndarray]
Options = dict[str, np.float32]


def exact_sgd(x: Slots, g: np.ndarray, lr: np.float32, t: int, options: Options) -> None:
    x["w"] -= g * lr


def adam(x: Slots, g: np.ndarray, lr: np.float32, t: int, options: Options) -> None:
    beta1, beta2, w = options["beta1"], options["beta2"], x["w"]
    x["m"] = beta1 * x["m"] + (ONE - beta1) * g
    x["v"] = beta2 * x["v"] + (ONE - beta2) * g * g
    m_hat = x["m"] / (ONE - np.power(beta1, f32(t)))
    v_hat = x["v"] / (ONE - np.power(beta2, f32(t)))
    x["w"] = w - lr * ((m_hat / (np.sqrt(v_hat) + options["eps"])) + options.get("weight_decay", f32(0)) * w)


def exact_adagrad(x: Slots, g: np.ndarray, lr: np.float32, t: int, options: Options) -> None:
    x["n"] = x["n"] + g * g
    x["w"] -= lr * g / (np.sqrt(x["n"]) + options["eps"])


def exact_rowwise_adagrad(x: Slots, g: np.ndarray, lr: np.float32, t: int, options: Options) -> None:
    lanes = (g * g).reshape(-1, 32).sum(axis=0)  # a warp: each lane sums its elements, then halves are added
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    x["n"] = x["n"] + lanes[0] / f32(len(g))
    x["w"] -= lr * g / (np.sqrt(x["n"]) + options["eps"])


def ftrl(x: Slots, g: np.ndarray, lr: np.float32, t: int, options: Options) -> None:
    power, l1 = options["learning_rate_power"], options["l1_reg"]

    def raised(n: np.ndarray) -> np.ndarray:
        return np.sqrt(n) if power == f32(-0.5) else np.power(n, -power)

    n = x["n"] + g * g
    x["z"] = x["z"] + (g - (raised(n) - raised(x["n"])) / lr * x["w"])
    x["n"] = n
    moves, sign = np.abs(x["z"]) > l1, np.sign(x["z"])
    divisor = np.where(moves, (options["ftrl_beta"] + raised(n)) / lr + options["l2_reg"], ONE)
    x["w"] = np.where(moves, (l1 * sign - x["z"]) / divisor, f32(0))


KERNELS: dict[str, tuple[Callable[..., None], tuple[str, ...]]] = {
    "exact_sgd": (exact_sgd, ()),
    "adam": (adam, ("m", "v")),
    "exact_adagrad": (exact_adagrad, ("n",)),
    "exact_rowwise_adagrad": (exact_rowwise_adagrad, ("n",)),
    "ftrl": (ftrl, ("z", "n")),
}

# For each function dynamicemb's defaults come first. Tables of 16-bit weights compute in float as well.
FLOAT = ("float32",)
SUM, OTHER_SUM = {"eps": 1e-8, "initial_accumulator_value": 0.0}, {"eps": 1e-3, "initial_accumulator_value": 0.125}
FTRL = ("learning_rate_power", "ftrl_beta", "initial_accumulator_value", "l1_reg", "l2_reg")


def numbers(*values: float) -> dict[str, float]:
    return dict(zip(FTRL, values, strict=True))


CASES = [
    Case("exact_sgd", 0.01, dtypes=FLOAT),
    Case("exact_sgd", 0.25, later_lr=0.0625, dtypes=FLOAT),
    Case("adam", 0.01, {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8}, dtypes=FLOAT),
    Case("adam", 0.25, {"beta1": 0.75, "beta2": 0.9375, "eps": 1e-3, "weight_decay": 0.5}, 0.0625, FLOAT),
    Case("exact_adagrad", 0.01, SUM, dtypes=FLOAT),
    Case("exact_adagrad", 0.25, OTHER_SUM, later_lr=0.0625, dtypes=FLOAT),
    Case("exact_rowwise_adagrad", 0.01, SUM, dtypes=FLOAT),
    Case("exact_rowwise_adagrad", 0.25, OTHER_SUM, later_lr=0.0625, dtypes=FLOAT),
    Case("ftrl", 0.01, numbers(-0.5, 0, 0, 0, 0), dtypes=FLOAT),
    Case("ftrl", 0.25, numbers(-0.5, 1, 0.125, 0.125, 0.0625), later_lr=0.125, dtypes=FLOAT),
    Case("ftrl", 0.25, numbers(-0.75, 0, 0, 0.5, 0), later_lr=0.125, dtypes=FLOAT),
]


def run(case: Case, weights: np.ndarray, gradients: np.ndarray) -> Iterator[State]:
    kernel, slots = KERNELS[case.name]
    options = {name: f32(value) for name, value in case.options.items()}
    x = {"w": weights} | {slot: np.zeros_like(weights) for slot in slots}
    if "n" in x:
        x["n"] += options["initial_accumulator_value"]
    yield {slot: values.copy() for slot, values in x.items()}
    for t, (rate, gradient) in enumerate(zip(case.rates(), gradients, strict=True), start=1):
        kernel(x, gradient, f32(rate), t, options)
        yield {slot: values.copy() for slot, values in x.items()}


if __name__ == "__main__":
    write("dynamicemb", f"loops after dynamicemb's source at {COMMIT[:8]}", CASES, run)
