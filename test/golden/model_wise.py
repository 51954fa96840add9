#!/usr/bin/env python3
"""Prints test/golden/model_wise.hpp: model-wise optimizers on a model of two tensors, by optax or by packages for torch.

    python3 -m venv venv && venv/bin/pip install jax==0.10.2 optax==0.2.8
    venv/bin/python test/golden/model_wise.py optax > optax.txt
    python3 -m venv torch && torch/bin/pip install torch==2.14.1 prodigyopt==1.1.2 dog-optimizer==1.0.3
    torch/bin/pip install dadaptation==3.2 momo-opt==0.1.0
    torch/bin/python test/golden/model_wise.py torch > torch.txt
    cat optax.txt torch.txt | python3 test/golden/model_wise.py header > test/golden/model_wise.hpp

The weights begin as multiples of 1/64. The gradient of step t is w - noise(t) / 8, so that the steps lead somewhere. All
in double, printed exactly: the weights of both tensors after the last step, then the numbers of the whole model.
"""

import sys
from importlib.metadata import version

import numpy as np

STEPS, SIZES = 12, (37, 20)
RATES = [1.0 if t < 8 else 0.5 for t in range(STEPS)]
LOSSES = [8.0 + t % 4 for t in range(STEPS)]


def sequence(seed: int, size: int) -> np.ndarray:
    i = np.arange(size)
    return ((i * i * 7 + i * 13 * seed + 5 * seed) % 257 - 128) / 64


def start() -> list[np.ndarray]:
    return [sequence(1 + k, size) for k, size in enumerate(SIZES)]


def noise(step: int) -> list[np.ndarray]:
    return [sequence(step + 3 + k, size) / 8 for k, size in enumerate(SIZES)]


def line(name: str, call: str, weights: list[np.ndarray], numbers: list[float]) -> None:
    values = [float(x).hex() for x in np.concatenate(weights)] + [float(x).hex() for x in numbers]
    print(f"{name}|{call}|{' '.join(values)}")


def by_optax() -> None:
    import jax
    import jax.numpy as jnp
    import optax
    from optax import contrib

    jax.config.update("jax_enable_x64", True)
    print(f"version|optax {version('optax')}|")

    def train(name: str, make, call: str, numbers, by_loss: bool = False) -> None:
        weights = [jnp.asarray(w) for w in start()]
        optimizer = make(lambda count: jnp.asarray(RATES)[count])
        state = optimizer.init(weights)
        for step in range(STEPS):
            gradients = [w - jnp.asarray(n) for w, n in zip(weights, noise(step))]
            updates, state = optimizer.update(gradients, state, weights, **({"value": LOSSES[step]} if by_loss else {}))
            weights = optax.apply_updates(weights, updates)
        line(name, call, [np.asarray(w) for w in weights], numbers(state))

    prodigy = {"betas": (0.75, 0.875), "eps": 1e-3, "estim_lr0": 1 / 128, "weight_decay": 0.125}
    for name, more in (("", {}), ("_safeguard", {"safeguard_warmup": True, "beta3": 0.5, "estim_lr_coef": 0.5})):
        options = prodigy | more
        train(
            "optax_prodigy" + name,
            lambda rate: contrib.prodigy(rate, **options),
            "contrib.prodigy(" + ", ".join(f"{k}={v}" for k, v in options.items()) + ")",
            lambda state: [state.estim_lr, state.numerator_weighted],
        )
    for kind in ("heuristic", "distance", "learning_rate"):
        train(
            "optax_dog_" + kind,
            lambda rate: contrib.dog(rate, (kind, 0.125), eps=1e-3, weight_decay=0.25),
            f"contrib.dog(init_step=({kind}, 0.125), eps=1e-3, weight_decay=0.25)",
            lambda state: [state[1].max_dist, state[1].sum_sq_norm_grads],
        )
    train(
        "optax_dowg",
        lambda rate: contrib.dowg(rate, 0.25, eps=1e-3, weight_decay=0.25),
        "contrib.dowg(init_estim_sq_dist=0.25, eps=1e-3, weight_decay=0.25)",
        lambda state: [state[1].estim_sq_dist, state[1].weighted_sq_norm_grads],
    )
    train(
        "optax_dadapt_adamw",
        lambda rate: contrib.dadapt_adamw(rate, (0.75, 0.875), eps=1e-3, estim_lr0=1 / 128, weight_decay=0.125),
        "contrib.dadapt_adamw(betas=(0.75, 0.875), eps=1e-3, estim_lr0=1/128, weight_decay=0.125)",
        lambda state: [state.estim_lr, state.numerator_weighted],
    )
    for name, options in (("", {"f_min": 0.5}), ("_plus", {"f_min": 9.0, "eps": 0.25, "variant": "sps+"})):
        train(
            "optax_polyak" + name,
            lambda rate: optax.chain(
                optax.scale_by_polyak(max_learning_rate=0.125, **options), optax.scale_by_learning_rate(rate)
            ),
            "scale_by_polyak(max_learning_rate=0.125, " + ", ".join(f"{k}={v}" for k, v in options.items()) + ")",
            lambda state: [],
            by_loss=True,
        )
    for name, adapts in (("", False), ("_adapts", True)):
        train(
            "optax_momo" + name,
            lambda rate: contrib.momo(rate, 0.75, 0.5, adapt_lower_bound=adapts),
            f"contrib.momo(beta=0.75, lower_bound=0.5, adapt_lower_bound={adapts})",
            lambda state: [state.barf, state.gamma, state.lb],
            by_loss=True,
        )
        train(
            "optax_momo_adam" + name,
            lambda rate: contrib.momo_adam(rate, 0.75, 0.875, 1e-3, 0.5, adapt_lower_bound=adapts),
            f"contrib.momo_adam(b1=0.75, b2=0.875, eps=1e-3, lower_bound=0.5, adapt_lower_bound={adapts})",
            lambda state: [state.barf, state.gamma, state.lb],
            by_loss=True,
        )


def by_torch() -> None:
    import torch
    from dadaptation import DAdaptAdam, DAdaptSGD
    from dog import DoG
    from momo import Momo, MomoAdam
    from prodigyopt import Prodigy

    names = ("prodigyopt", "dog-optimizer", "dadaptation", "momo-opt", "torch")
    print("version|" + ", ".join(f"{name} {version(name).split('+')[0]}" for name in names) + "|")
    torch.set_default_dtype(torch.float64)

    def train(name: str, make, call: str, numbers, by_loss: bool = False) -> None:
        weights = [torch.nn.Parameter(torch.tensor(w)) for w in start()]
        optimizer = make(weights)
        for step in range(STEPS):
            for w, n in zip(weights, noise(step)):
                w.grad = w.detach() - torch.tensor(n)
            for group in optimizer.param_groups:
                group["lr"] = RATES[step]
            if by_loss:
                optimizer.step(loss=torch.tensor(LOSSES[step]))
            else:
                optimizer.step()
        line(name, call, [w.detach().numpy() for w in weights], numbers(optimizer if by_loss else optimizer.param_groups[0]))

    prodigy = {"betas": (0.75, 0.875), "eps": 1e-3, "d0": 1 / 128}
    for name, more in (
        ("", {"weight_decay": 0.125}),
        ("_bounded", {"growth_rate": 1.25, "use_bias_correction": True, "weight_decay": 0.125, "decouple": False}),
        ("_safeguard", {"safeguard_warmup": True, "beta3": 0.5, "d_coef": 0.5}),
    ):
        options = prodigy | more
        train(
            "prodigyopt" + name,
            lambda weights: Prodigy(weights, lr=1.0, **options),
            "Prodigy(" + ", ".join(f"{k}={v}" for k, v in options.items()) + ")",
            lambda group: [group["d"], group["d_max"], group["d_numerator"]],
        )
    for name, options in (("", {"reps_rel": 0.125}), ("_eta", {"init_eta": 0.125})):
        options |= {"eps": 1e-3, "weight_decay": 0.25}
        train(
            "dog" + name,
            lambda weights: DoG(weights, lr=1.0, **options),
            "DoG(" + ", ".join(f"{k}={v}" for k, v in options.items()) + ")",
            lambda group: [float(group["rbar"]), float(group["G"]) - options["eps"]],
        )
    for name, options in (
        ("", {"weight_decay": 0.125, "decouple": True}),
        ("_bounded", {"weight_decay": 0.125, "growth_rate": 1.25, "use_bias_correction": True}),
    ):
        options |= {"betas": (0.75, 0.875), "eps": 1e-3, "d0": 1 / 128}
        train(
            "dadapt_adam" + name,
            lambda weights: DAdaptAdam(weights, lr=1.0, **options),
            "DAdaptAdam(" + ", ".join(f"{k}={v}" for k, v in options.items()) + ")",
            lambda group: [group["d"], group["numerator_weighted"]],
        )
    for name, options in (("", {"momentum": 0.25}), ("_bounded", {"growth_rate": 1.25})):
        options |= {"d0": 1 / 16}
        train(
            "dadapt_sgd" + name,
            lambda weights: DAdaptSGD(weights, lr=1.0, **options),
            "DAdaptSGD(" + ", ".join(f"{k}={v}" for k, v in options.items()) + ")",
            lambda group: [group["d"], group["numerator_weighted"], group["g0_norm"]],
        )

    def model_of(optimizer) -> list[float]:
        gamma = sum(float(optimizer.state[p]["grad_dot_w"]) for p in optimizer.param_groups[0]["params"])
        return [float(optimizer.loss_avg), gamma, float(optimizer.lb)]

    for name, options in (
        ("", {"weight_decay": 0.25}),
        ("_corrected", {"bias_correction": True, "use_fstar": True, "weight_decay": 0.25}),
    ):
        options |= {"beta": 0.75, "lb": 0.5}
        train(
            "momo" + name,
            lambda weights: Momo(weights, lr=1.0, **options),
            "Momo(" + ", ".join(f"{k}={v}" for k, v in options.items()) + ")",
            model_of,
            by_loss=True,
        )
    for name, options in (("", {"weight_decay": 0.25}), ("_adapts", {"use_fstar": True})):
        options |= {"betas": (0.75, 0.875), "eps": 1e-3, "lb": 0.5}
        train(
            "momo_adam" + name,
            lambda weights: MomoAdam(weights, lr=1.0, **options),
            "MomoAdam(" + ", ".join(f"{k}={v}" for k, v in options.items()) + ")",
            model_of,
            by_loss=True,
        )


def header() -> None:
    lines = [one.rstrip("\n").split("|") for one in sys.stdin if "|" in one]  # prodigyopt prints, too
    by = ", ".join(call for name, call, _ in lines if name == "version")
    print(f"""#pragma once
/// Written by test/golden/model_wise.py with {by}.
// clang-format off
#include <array>
#include <cstddef>
#include <vector>

namespace golden::model_wise {{

inline constexpr std::size_t steps = {STEPS};
inline constexpr std::array<std::size_t, {len(SIZES)}> sizes{{{", ".join(map(str, SIZES))}}};
inline constexpr std::array<double, steps> rates{{{", ".join(map(str, RATES))}}};
inline constexpr std::array<double, steps> losses{{{", ".join(map(str, LOSSES))}}};

inline std::vector<double> sequence(std::size_t seed, std::size_t size) {{
    std::vector<double> out(size);
    for (std::size_t i = 0; i < size; ++i)
        out[i] = (static_cast<double>((i * i * 7 + i * 13 * seed + 5 * seed) % 257) - 128) / 64;
    return out;
}}
""")
    for name, call, values in lines:
        if name == "version":
            continue
        numbers = values.split()
        print(f"/// {call}")
        print(f"inline constexpr std::array<double, {len(numbers)}> {name}{{{', '.join(numbers)}}};")
    print("\n} // namespace golden::model_wise\n// clang-format on")


if __name__ == "__main__":
    {"optax": by_optax, "torch": by_torch, "header": header}[sys.argv[1]]()
