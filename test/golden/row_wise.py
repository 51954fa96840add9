#!/usr/bin/env python3
"""Prints test/golden/row_wise.hpp: three steps of optax.lars, optax.lamb and optax.adaptive_grad_clip on one tensor.

    pip install optax && python3 test/golden/row_wise.py > test/golden/row_wise.hpp

Inputs are multiples of 1/64, so that they are the same numbers there and here. All in double, printed exactly.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax

RATE, STEPS, SIZE = 0.125, 3, 37


def sequence(seed: int) -> np.ndarray:
    i = np.arange(SIZE)
    return ((i * i * 7 + i * 13 * seed + 5 * seed) % 257 - 128) / 64


def train(optimizer: optax.GradientTransformation, shape: tuple[int, ...] = (SIZE,)) -> np.ndarray:
    size = math.prod(shape)
    weights = jnp.asarray(sequence(1)[:size].reshape(shape))
    state = optimizer.init(weights)
    for step in range(STEPS):
        updates, state = optimizer.update(jnp.asarray(sequence(step + 2)[:size].reshape(shape)), state, weights)
        weights = optax.apply_updates(weights, updates)
    return np.asarray(weights).ravel()


def array(name: str, values: np.ndarray) -> str:
    numbers = ", ".join(float(x).hex() for x in values)
    size = "size" if len(values) == SIZE else len(values)
    return f"inline constexpr std::array<double, {size}> {name}{{{numbers}}};"


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
    print("/// adaptive_grad_clip(0.25, eps=0.5), sgd(rate, momentum=0.5); and with a norm for each row of 9 x 4 elements")
    for name, axis, shape in (("agc", None, (SIZE,)), ("agc_of_rows", 1, (9, 4))):
        clip = optax.adaptive_grad_clip(0.25, eps=0.5, axis=axis)
        print(array(name, train(optax.chain(clip, optax.sgd(RATE, momentum=0.5)), shape)))
    print("\n} // namespace golden\n// clang-format on")


if __name__ == "__main__":
    main()
