#!/usr/bin/env python3
"""Prints test/golden/factored_torch.hpp: three steps of torch.optim.Adafactor, and of CAME by its authors, on one tensor in float64.

    pip install --no-deps -r benchmarks/peers/requirements.txt    # and see cuda_stubs.sh there
    pip install --no-deps came-pytorch==0.1.3
    python3 test/golden/factored_torch.py > test/golden/factored_torch.hpp
"""

from importlib.metadata import version

import numpy as np
import torch
from came_pytorch import CAME

RATE, STEPS, DECAY = 0.125, 3, 0.25


def sequence(seed: int, size: int) -> np.ndarray:
    i = np.arange(size)
    return ((i * i * 7 + i * 13 * seed + 5 * seed) % 257 - 128) / 64


def train(make, shape: tuple[int, ...], scale: float) -> np.ndarray:
    size = int(np.prod(shape))
    w = torch.nn.Parameter(torch.from_numpy(sequence(1, size)).reshape(shape))
    optimizer = make([w])
    for step in range(STEPS):
        w.grad = torch.from_numpy(sequence(step + 2, size) * scale).reshape(shape)
        optimizer.step()
    return w.detach().numpy().ravel()


def adafactor(rate: float = RATE, **options):
    return lambda w: torch.optim.Adafactor(w, lr=rate, weight_decay=DECAY, **options)


def came(**options):
    return lambda w: CAME(w, lr=RATE, weight_decay=DECAY, **options)


CASES = [  # the name, the optimizer, the shape, the scale of the gradients
    ("adafactor_matrix", adafactor(), (5, 8), 1),
    ("adafactor_vector", adafactor(), (40,), 1),
    ("adafactor_clamped", adafactor(eps=(0.5, 1e-3)), (8, 5), 0.25),
    ("adafactor_relative", adafactor(2.0, beta2_decay=-0.5, eps=(None, 3.0), d=1.25), (8, 5), 1),
    ("came_matrix", came(), (5, 8), 1),
    ("came_vector", came(), (40,), 1),
    ("came_options", came(eps=(1e-3, 1e-2), clip_threshold=0.5, betas=(0.5, 0.75, 0.875)), (8, 5), 1),
]


def main() -> None:
    print("#pragma once")
    print(f"/// Written by test/golden/factored_torch.py with torch {torch.__version__} and came-pytorch {version('came-pytorch')}.")
    print("// clang-format off\n#include <array>\n\nnamespace golden {\n")
    for name, make, shape, scale in CASES:
        w = train(make, shape, scale)
        print(f"/// {' x '.join(map(str, shape))}")
        print(f"inline constexpr std::array<double, {w.size}> {name}{{{', '.join(float(x).hex() for x in w)}}};")
    print("\n} // namespace golden\n// clang-format on")


main()
