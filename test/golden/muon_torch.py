#!/usr/bin/env python3
"""Prints test/golden/muon_torch.hpp: three steps of torch.optim.Muon, and of muon.py by Keller Jordan, on one matrix.

    pip install --no-deps -r benchmarks/peers/requirements.txt    # and see cuda_stubs.sh there
    pip install --no-deps muon-optimizer==0.1.0
    python3 test/golden/muon_torch.py > test/golden/muon_torch.hpp

Both convert the update to bfloat16 before they orthogonalize it. Here this conversion gives float64 instead, so that the numbers show
the formula and not the rounding. The line `bfloat16` of a case says how far its weights are from those of the real conversion.
"""

import contextlib
from importlib.metadata import version

import numpy as np
import torch
from muon import SingleDeviceMuon

RATE, STEPS, DECAY, MU = 0.125, 3, 0.25, 0.75


def sequence(seed: int, size: int) -> np.ndarray:
    i = np.arange(size)
    return ((i * i * 7 + i * 13 * seed + 5 * seed) % 257 - 128) / 64


@contextlib.contextmanager
def in_double():
    convert = torch.Tensor.bfloat16
    torch.Tensor.bfloat16 = lambda x: x.double().clone()
    yield
    torch.Tensor.bfloat16 = convert


def train(make, shape: tuple[int, ...]) -> np.ndarray:
    size = int(np.prod(shape))
    w = torch.nn.Parameter(torch.from_numpy(sequence(1, size)).reshape(shape))
    optimizer = make([w])
    for step in range(STEPS):
        w.grad = torch.from_numpy(sequence(step + 2, size)).reshape(shape)
        optimizer.step()
    return w.detach().numpy().ravel()


def of_torch(**options):
    return lambda w: torch.optim.Muon(w, lr=RATE, weight_decay=DECAY, momentum=MU, **options)


def of_jordan(w):
    return SingleDeviceMuon(w, lr=RATE, weight_decay=DECAY, momentum=MU)


CASES = [
    ("torch_wide", of_torch(), (5, 8)),
    ("torch_tall", of_torch(adjust_lr_fn="original"), (8, 5)),
    ("torch_without_nesterov", of_torch(nesterov=False, adjust_lr_fn="match_rms_adamw"), (8, 5)),
    ("torch_spectral", of_torch(ns_steps=3, ns_coefficients=(2.0, -1.5, 0.5), adjust_lr_fn="spectral_unclamped"), (5, 8)),
    ("jordan_tall", of_jordan, (8, 5)),
]


def main() -> None:
    print("#pragma once")
    print(f"/// Written by test/golden/muon_torch.py with torch {torch.__version__} and muon-optimizer {version('muon-optimizer')}.")
    print("// clang-format off\n#include <array>\n\nnamespace golden {\n")
    for name, make, shape in CASES:
        with in_double():
            w = train(make, shape)
        difference = np.abs(train(make, shape) - w).max()
        print(f"/// {' x '.join(map(str, shape))}; bfloat16: up to {difference:.1e}")
        print(f"inline constexpr std::array<double, {w.size}> {name}{{{', '.join(float(x).hex() for x in w)}}};")
    print("\n} // namespace golden\n// clang-format on")


main()
