#!/usr/bin/env python3
"""Writes bert.txt: BertAdam of the package pytorch-pretrained-bert, and a loop after optimization.py of google-research/bert.

The loop does the operations of AdamWeightDecayOptimizer, which is for TensorFlow 1, in float. The package is installed without
dependencies, so only its file of the optimizer is imported.
"""

from collections.abc import Iterator
from importlib.metadata import version

import numpy as np
import torch
from common import Case, State, write
from torch_run import import_without_init, steps

import_without_init("pytorch_pretrained_bert")
from pytorch_pretrained_bert.optimization import BertAdam  # noqa: E402

FLOAT = ("float32",)
f32 = np.float32


def bert_case(name: str, betas: tuple[str, str], epsilon: str, numbers: tuple[float, ...], *rates: float) -> Case:
    names = (*betas, epsilon, "weight_decay")
    return Case(name, rates[0], dict(zip(names, numbers, strict=True)), *rates[1:], dtypes=FLOAT)


GOOGLE, PYTORCH = (("beta_1", "beta_2"), "epsilon"), (("b1", "b2"), "e")
CASES = [
    bert_case(name, *names, numbers, *rates)
    for name, names in (("adam_weight_decay", GOOGLE), ("bert_adam", PYTORCH))
    for numbers, rates in (((0.9, 0.999, 1e-6, 0.01), (5e-5,)), ((0.75, 0.9375, 1e-3, 0.5), (0.25, 0.0625)))
]


def run_google(case: Case, w: np.ndarray, gradients: np.ndarray) -> Iterator[State]:
    beta_1, beta_2, epsilon, decay = case.options.values()
    m, v = np.zeros_like(w), np.zeros_like(w)
    yield {"w": w, "m": m, "v": v}
    for rate, g in zip(case.rates(), gradients, strict=True):
        m = f32(beta_1) * m + f32(1.0 - beta_1) * g
        v = f32(beta_2) * v + f32(1.0 - beta_2) * np.square(g)
        update = m / (np.sqrt(v) + f32(epsilon)) + f32(decay) * w
        w = w - f32(rate) * update
        yield {"w": w, "m": m, "v": v}


def run_pytorch(case: Case, weights: np.ndarray, gradients: np.ndarray) -> Iterator[State]:
    weight = torch.nn.Parameter(torch.from_numpy(weights))
    optimizer = BertAdam([weight], lr=case.lr, max_grad_norm=-1, **case.options)

    def state() -> State:
        here = optimizer.state[weight]
        kept = {slot: here.get("next_" + slot, torch.zeros_like(weight)) for slot in ("m", "v")}
        return {name: x.detach().numpy().copy() for name, x in ({"w": weight} | kept).items()}

    return steps(optimizer, weight, case, gradients, state)


def run(case: Case, weights: np.ndarray, gradients: np.ndarray) -> Iterator[State]:
    return (run_pytorch if case.name == "bert_adam" else run_google)(case, weights, gradients)


if __name__ == "__main__":
    torch.set_num_threads(1)
    of_package = f"pytorch-pretrained-bert {version('pytorch-pretrained-bert')} and torch {torch.__version__.split('+')[0]}"
    write("bert", f"{of_package}, and a loop after google-research/bert", CASES, run)
