#!/usr/bin/env python3
"""Prints test/golden/row_wise.hpp: three steps of optax.lars and optax.lamb on one tensor.

    pip install optax && python3 test/golden/row_wise.py > test/golden/row_wise.hpp

Inputs are multiples of 1/64, so that they are the same numbers there and here. All in double, printed exactly.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax

RATE, STEPS, SIZE = 0.125, 3, 37


def sequence(seed: int) -> np.ndarray:
    i = np.arange(SIZE)
    return ((i * i * 7 + i * 13 * seed + 5 * seed) % 257 - 128) / 64


def train(optimizer: optax.GradientTransformation) -> np.ndarray:
    weights = jnp.asarray(sequence(1))
    state = optimizer.init(weights)
    for step in range(STEPS):
        updates, state = optimizer.update(jnp.asarray(sequence(step + 2)), state, weights)
        weights = optax.apply_updates(weights, updates)
    return np.asarray(weights)


def array(name: str, values: np.ndarray) -> str:
    numbers = ", ".join(float(x).hex() for x in values)
    return f"inline constexpr std::array<double, size> {name}{{{numbers}}};"


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    print("#pragma once")
    print(f"/// Written by test/golden/row_wise.py with optax {optax.__version__}.")
    print("// clang-format off")
    print("#include <array>\n#include <cstddef>\n#include <vector>\n")
    print("namespace golden {\n")
    print(f"inline constexpr double rate = {RATE};")
    print(f"inline constexpr std::size_t steps = {STEPS}, size = {SIZE};\n")
    print("inline std::vector<double> sequence(std::size_t seed) {")
    print("    std::vector<double> out(size);")
    print("    for (std::size_t i = 0; i < size; ++i)")
    print("        out[i] = (static_cast<double>((i * i * 7 + i * 13 * seed + 5 * seed) % 257) - 128) / 64;")
    print("    return out;\n}\n")
    print("/// lars(rate, weight_decay=0.25, momentum=0.5, trust_coefficient=0.0625, eps=0.5)")
    print(array("lars", train(optax.lars(RATE, weight_decay=0.25, momentum=0.5, trust_coefficient=0.0625, eps=0.5))))
    print("/// lamb(rate, b1=0.75, b2=0.875, eps=0.001, weight_decay=0.25)")
    print(array("lamb", train(optax.lamb(RATE, b1=0.75, b2=0.875, eps=0.001, weight_decay=0.25))))
    print("\n} // namespace golden\n// clang-format on")


if __name__ == "__main__":
    main()
