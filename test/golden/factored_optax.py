#!/usr/bin/env python3
"""Prints test/golden/factored_optax.hpp: three steps of optax.adafactor and optax.sm3 on one tensor in float64.

    pip install optax==0.2.8
    python3 test/golden/factored_optax.py > test/golden/factored_optax.hpp
"""

import jax
import numpy as np
import optax

jax.config.update("jax_enable_x64", True)

RATE, STEPS = 0.125, 3


def sequence(seed: int, size: int) -> np.ndarray:
    i = np.arange(size)
    return ((i * i * 7 + i * 13 * seed + 5 * seed) % 257 - 128) / 64


def train(optimizer: optax.GradientTransformation, shape: tuple[int, ...]) -> np.ndarray:
    size = int(np.prod(shape))
    w = jax.numpy.asarray(sequence(1, size)).reshape(shape)
    state = optimizer.init(w)
    for step in range(STEPS):
        updates, state = optimizer.update(jax.numpy.asarray(sequence(step + 2, size)).reshape(shape), state, w)
        w = optax.apply_updates(w, updates)
    return np.asarray(w).ravel()


CASES = [
    ("optax_adafactor_matrix", optax.adafactor(RATE, min_dim_size_to_factor=1), (5, 8)),
    ("optax_adafactor_vector", optax.adafactor(RATE), (40,)),
    (
        "optax_adafactor_options",
        optax.adafactor(
            RATE,
            min_dim_size_to_factor=1,
            decay_rate=0.5,
            multiply_by_parameter_scale=False,
            clipping_threshold=None,
            eps=1e-2,
        ),
        (8, 5),
    ),
    ("optax_sm3_matrix", optax.sm3(RATE), (5, 8)),
    ("optax_sm3_vector", optax.sm3(RATE, momentum=0.5), (40,)),
]


def main() -> None:
    print("#pragma once")
    print(f"/// Written by test/golden/factored_optax.py with optax {optax.__version__} and jax {jax.__version__}.")
    print("// clang-format off\n#include <array>\n\nnamespace golden {\n")
    for name, optimizer, shape in CASES:
        w = train(optimizer, shape)
        assert w.dtype == np.float64
        print(f"/// {' x '.join(map(str, shape))}")
        print(f"inline constexpr std::array<double, {w.size}> {name}{{{', '.join(float(x).hex() for x in w)}}};")
    print("\n} // namespace golden\n// clang-format on")


main()
