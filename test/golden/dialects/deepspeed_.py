#!/usr/bin/env python3
"""Writes deepspeed.txt: a loop in float after the kernels of DeepSpeed's FusedAdam, which runs on GPUs, and DeepSpeedCPUAdam.

The sources are csrc/adam/multi_tensor_adam.cu and csrc/adam/cpu_adam_impl.cpp of github.com/deepspeedai/DeepSpeed. They differ
in their roundings alone: the loop has those of the first.
"""

from collections.abc import Iterator

import numpy as np
from common import Case, State, write

f32 = np.float32
FLOAT = ("float32",)
ADAM = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "bias_correction": 1.0, "weight_decay": 0.0}
OTHER = {"beta1": 0.75, "beta2": 0.9375, "eps": 1e-3, "bias_correction": 0.0, "weight_decay": 0.5}
CASES = [
    case
    for name in ("fused_adam", "cpu_adam")
    for case in (
        Case(name, 0.001, ADAM, dtypes=FLOAT),
        Case(name, 0.25, OTHER, later_lr=0.0625, dtypes=FLOAT),
        Case(name, 0.25, OTHER | {"bias_correction": 1.0}, later_lr=0.0625, dtypes=FLOAT),
    )
]


def run(case: Case, w: np.ndarray, gradients: np.ndarray) -> Iterator[State]:
    beta1, beta2, eps, corrects, decay = (f32(x) for x in case.options.values())
    m, v = np.zeros_like(w), np.zeros_like(w)
    yield {"w": w, "m": m, "v": v}
    for t, (rate, g) in enumerate(zip(case.rates(), gradients, strict=True), start=1):
        correction1 = f32(1 - np.float64(beta1) ** t) if corrects else f32(1)
        correction2 = f32(1 - np.float64(beta2) ** t) if corrects else f32(1)
        m = beta1 * m + (f32(1) - beta1) * g
        v = beta2 * v + (f32(1) - beta2) * g * g
        update = m / correction1 / (np.sqrt(v / correction2) + eps) + decay * w
        w = w - f32(rate) * update
        yield {"w": w, "m": m, "v": v}


if __name__ == "__main__":
    write("deepspeed", "a loop after DeepSpeed's source", CASES, run)
