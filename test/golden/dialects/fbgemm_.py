#!/usr/bin/env python3
"""Writes fbgemm.txt: a table of one row by FBGEMM's kernels for the CPU, and what FBGEMM has for GPUs only.

The latter are loops in float after the source of these kernels, fbgemm_gpu/codegen/genscript/optimizers.py, in which `1.0` is
a double. A weight is rounded where a kernel stores it.
"""

from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
import torch
from common import Case, State, write
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation
from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    ComputeDevice,
    CowClipDefinition,
    SplitTableBatchedEmbeddingBagsCodegen,
    WeightDecayMode,
)


class Table(NamedTuple):
    """A function of the dialect: the optimizer, and our names of its state in FBGEMM's order ("" for what is not kept here)."""

    optimizer: EmbOptimType
    slots: tuple[str, ...] = ()


TABLES = {
    "exact_sgd": Table(EmbOptimType.EXACT_SGD),
    "exact_adagrad": Table(EmbOptimType.EXACT_ADAGRAD, ("n",)),
    "exact_rowwise_adagrad": Table(EmbOptimType.EXACT_ROWWISE_ADAGRAD, ("n",)),
    "exact_rowwise_adagrad_cowclip": Table(EmbOptimType.EXACT_ROWWISE_ADAGRAD, ("n", "", "c")),
    "rowwise_rmsprop_ar": Table(EmbOptimType.ROWWISE_RMSPROP_AR, ("v", "")),
}


def options_of(case: Case) -> dict[str, Any]:
    if not case.name.endswith("cowclip"):
        return dict(case.options)
    options = dict(case.options)
    eps, halflife = options.pop("eps"), int(options.pop("counter_halflife"))
    clip = CowClipDefinition(counter_halflife=halflife, **options)
    return {"eps": eps, "weight_decay_mode": WeightDecayMode.COWCLIP, "cowclip_regularization": clip}


def run_table(case: Case, weights: np.ndarray, gradients: np.ndarray) -> Iterator[State]:
    specification = (1, len(weights), EmbeddingLocation.HOST, ComputeDevice.CPU)
    function = TABLES[case.name]
    table = SplitTableBatchedEmbeddingBagsCodegen(
        [specification], learning_rate=case.lr, optimizer=function.optimizer, **options_of(case)
    )
    (row,) = table.split_embedding_weights()
    row.copy_(torch.tensor(weights).reshape(1, -1))

    def state() -> State:
        out = {"w": row.detach().numpy().ravel().copy()}
        kept = table.split_optimizer_states()[0] if function.slots else ()
        for name, slot in zip(function.slots, kept, strict=True):
            if name:
                out[name] = np.resize(slot.detach().numpy().ravel(), len(weights))
        return out

    yield state()
    for rate, gradient in zip(case.rates(), gradients, strict=True):
        table.set_learning_rate(rate)
        out = table(torch.tensor([0]), torch.tensor([0, 1]))
        out.backward(torch.tensor(gradient).reshape(1, -1))
        yield state()


f32, ONE = np.float32, np.float64(1.0)


class Moments:
    """The kernels with two moments, step by step: m, and v of each element or of the row."""

    def __init__(self, options: dict[str, float], w: np.ndarray, of_row: bool = False) -> None:
        self.beta1, self.beta2, self.eps = (f32(options[name]) for name in ("beta1", "beta2", "eps"))
        self.decay = f32(options.get("weight_decay", 0))
        self.w, self.m, self.v = w, np.zeros_like(w), np.zeros_like(w)
        self.of_row = of_row
        self.iter = 0

    def state(self) -> State:
        return {"w": self.w.copy(), "m": self.m.copy(), "v": self.v.copy()}

    def root(self, v: np.ndarray) -> np.ndarray:
        return np.sqrt((v / (ONE - np.power(self.beta2, f32(self.iter)))).astype(f32)) + self.eps

    def averaged(self) -> np.ndarray:
        return self.m / (ONE - np.power(self.beta1, f32(self.iter)))

    def adam(self, rate: np.float32, g: np.ndarray) -> None:
        self.m = self.m * self.beta1 + g * f32(ONE - self.beta1)
        if self.of_row:
            mean = np.sum(g * g) / f32(len(g))
            self.v = np.full_like(self.v, mean * (ONE - self.beta2) + self.v[0] * self.beta2)
        else:
            self.v = self.v * self.beta2 + g * g * f32(ONE - self.beta2)
        step = self.averaged() / self.root(self.v) + self.decay * self.w
        self.w = (self.w - rate * step).astype(f32)

    def lamb(self, rate: np.float32, g: np.ndarray) -> None:
        self.m = (self.beta1 * self.m + (ONE - self.beta1) * g).astype(f32)
        self.v = (self.beta2 * self.v + (ONE - self.beta2) * g * g).astype(f32)
        step = (self.averaged() / self.root(self.v) + self.decay * self.w).astype(f32)
        ratio = np.sqrt(np.sum(self.w * self.w)) / np.sqrt(np.sum(step * step))
        self.w = self.w + step * (-rate * ratio)


def run_moments(case: Case, weights: np.ndarray, gradients: np.ndarray) -> Iterator[State]:
    kernel = Moments(case.options, weights, case.name == "partial_rowwise_adam")
    advance = kernel.lamb if case.name == "lamb" else kernel.adam
    yield kernel.state()
    for rate, gradient in zip(case.rates(), gradients, strict=True):
        kernel.iter += 1
        advance(f32(rate), gradient)
        yield kernel.state()


def run_lars(case: Case, weights: np.ndarray, gradients: np.ndarray) -> Iterator[State]:
    w, m = weights, np.zeros_like(weights)
    yield {"w": w.copy(), "m": m.copy()}
    for rate, g in zip(case.rates(), gradients, strict=True):
        norms = np.sqrt(np.sum(w * w)), np.sqrt(np.sum(g * g))
        adjusted = f32(rate) * f32(case.options["eta"]) * norms[0] / norms[1]
        m = f32(case.options["momentum"]) * m + adjusted * g
        w = w - m
        yield {"w": w.copy(), "m": m.copy()}


ON_GPUS: dict[str, Callable[..., Iterator[State]]] = {
    "adam": run_moments,
    "partial_rowwise_adam": run_moments,
    "lamb": run_moments,
    "lars_sgd": run_lars,
}

# For each function FBGEMM's defaults come first. Tables are float. The defaults of CowClip move no weight; the other limits
# are near the norm of the gradients, which are huge, so that some steps are clipped and no weight becomes subnormal.
FLOAT = ("float32",)
EPS, OTHER_EPS = {"eps": 1e-8}, {"eps": 1e-3}
ADAM, OTHER_ADAM = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8}, {"beta1": 0.75, "beta2": 0.9375, "eps": 1e-3}
CLIP = ("counter_halflife", "weight_norm_coefficient", "lower_bound")


def cowclip(*numbers: float) -> dict[str, float]:
    return dict(zip(CLIP, numbers, strict=True))


CASES = [
    Case("exact_sgd", 0.01, dtypes=FLOAT),
    Case("exact_sgd", 0.25, later_lr=0.0625, dtypes=FLOAT),
    Case("exact_adagrad", 0.01, EPS, dtypes=FLOAT),
    Case("exact_adagrad", 0.25, OTHER_EPS, later_lr=0.0625, dtypes=FLOAT),
    Case("exact_rowwise_adagrad", 0.01, EPS, dtypes=FLOAT),
    Case("exact_rowwise_adagrad", 0.25, OTHER_EPS, later_lr=0.0625, dtypes=FLOAT),
    Case("exact_rowwise_adagrad_cowclip", 0.01, cowclip(-1, 0, 0) | EPS, dtypes=FLOAT),
    Case("exact_rowwise_adagrad_cowclip", 0.25, cowclip(2, 2.0**45, 0.125) | OTHER_EPS, later_lr=0.0625, dtypes=FLOAT),
    Case("exact_rowwise_adagrad_cowclip", 0.25, cowclip(0, 1, 2.0**58) | OTHER_EPS, dtypes=FLOAT),
    Case("rowwise_rmsprop_ar", 0.01, {"ema_beta": 0.99} | EPS, dtypes=FLOAT),
    Case("rowwise_rmsprop_ar", 0.25, {"ema_beta": 0.75} | OTHER_EPS, later_lr=0.0625, dtypes=FLOAT),
    Case("adam", 0.01, ADAM, dtypes=FLOAT),
    Case("adam", 0.25, OTHER_ADAM | {"weight_decay": 0.5}, later_lr=0.0625, dtypes=FLOAT),
    Case("partial_rowwise_adam", 0.01, ADAM, dtypes=FLOAT),
    Case("partial_rowwise_adam", 0.25, OTHER_ADAM | {"weight_decay": 0.5}, later_lr=0.0625, dtypes=FLOAT),
    Case("lamb", 0.01, ADAM | {"weight_decay": 0.0}, dtypes=FLOAT),
    Case("lamb", 0.25, OTHER_ADAM | {"weight_decay": 0.5}, later_lr=0.0625, dtypes=FLOAT),
    Case("lars_sgd", 0.01, {"eta": 0.001, "momentum": 0.9}, dtypes=FLOAT),
    Case("lars_sgd", 0.25, {"eta": 0.25, "momentum": 0.5}, later_lr=0.0625, dtypes=FLOAT),
]


def run(case: Case, weights: np.ndarray, gradients: np.ndarray) -> Iterator[State]:
    return ON_GPUS.get(case.name, run_table)(case, weights, gradients)


if __name__ == "__main__":
    write("fbgemm", f"fbgemm-gpu-cpu {version('fbgemm-gpu-cpu')}, torch {version('torch')}", CASES, run)
