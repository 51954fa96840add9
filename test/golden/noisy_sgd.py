#!/usr/bin/env python3
"""Writes noisy_sgd.hpp: the standard deviation of the change of a weight in each step of optax.noisy_sgd without gradient,
measured on a million elements, and relative to noise of the variance 1 from the same key, where it is exact up to rounding.

    venv/bin/python test/golden/noisy_sgd.py          # venv as in test/golden/dialects/README.md
"""
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

STEPS, SIZE, RATE = 4, 1_000_000, 0.5
CASES = ((0.01, 0.55), (0.3, 0.25), (4.0, 2.0))


def changes(eta: float, gamma: float) -> list[np.ndarray]:
    optimizer = optax.noisy_sgd(RATE, eta, gamma, 7)
    weight = jnp.zeros(SIZE)
    state, out = optimizer.init(weight), []
    for _ in range(STEPS):
        update, state = optimizer.update(jnp.zeros(SIZE), state)
        out.append(np.asarray(update))
    return out


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    unit = changes(1.0, 0.0)
    lines = [
        "#pragma once",
        f"/// Written by test/golden/noisy_sgd.py with optax {optax.__version__}: noisy_sgd without gradient, learning rate {RATE}.",
        "// clang-format off",
        "",
        "namespace golden {",
        "",
        "struct noise_of_optax {",
        "    double eta, gamma;",
        f"    double measured[{STEPS}]; // in steps 1 to {STEPS}: the standard deviation of the change of {SIZE} weights",
        f"    double exact[{STEPS}];    // the change relative to the one of eta = 1, gamma = 0 with the same key, times the rate",
        "};",
        f"constexpr noise_of_optax noisy_sgd[{len(CASES)}] = {{",
    ]
    for eta, gamma in CASES:
        own = changes(eta, gamma)
        measured = ", ".join(f"{np.sqrt(np.mean(x * x)):.17g}" for x in own)
        exact = ", ".join(f"{RATE * x[0] / of_one[0]:.17g}" for x, of_one in zip(own, unit))
        lines.append(f"    {{{eta}, {gamma}, {{{measured}}}, {{{exact}}}}},")
    lines += ["};", "", "} // namespace golden", ""]
    (Path(__file__).parent / "noisy_sgd.hpp").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
