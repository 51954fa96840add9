#!/usr/bin/env python3
"""Prints test/golden/schedules_SYSTEM.txt: what the schedules of torch, Keras or optax give over 10 000 steps.

    pip install torch && python3 test/golden/schedules.py torch > test/golden/schedules_torch.txt
    pip install keras tensorflow-cpu && python3 test/golden/schedules.py keras > test/golden/schedules_keras.txt
    pip install optax && python3 test/golden/schedules.py optax > test/golden/schedules_optax.txt

All in double. Of the 10 000 steps about 200 are written, the same ones for every schedule: a spread, and those at and
beside every boundary of a setting. The first line has the steps, each further one the name of a setting and its rates
at these steps, as the shortest text that reads back the same double; a "-" where the system has none.

torch's schedulers multiply the last rate from step to step, which drifts; their closed forms are taken where they have
one. The rest (OneCycleLR, CyclicLR, CosineAnnealingWarmRestarts) compute from the number of the step. SequentialLR only
steps: it is run over schedulers of few or short products.
"""

import os
import sys
import warnings
from typing import Callable, Iterator

STEPS = 10_000
BOUNDARIES = [100, 200, 300, 400, 500, 700, 1000, 1250, 1500, 2000, 2100, 2500, 3000, 3500, 4000, 4900, 5000, 6000,
              6500, 7000, 8000, 8500, 9000]


def chosen_steps() -> list[int]:
    spread = {17 + 101 * i for i in range(100)}
    beside = {b + d for b in BOUNDARIES for d in (-2, -1, 0, 1)}
    return sorted({t for t in spread | beside | {0, 1, 2, 3, 10, STEPS - 2, STEPS - 1} if t < STEPS})


def of_torch() -> Iterator[tuple[str, list[float | None]]]:
    import torch
    from torch.optim import lr_scheduler as torch_schedules

    def optimizer(rate: float) -> torch.optim.Optimizer:
        return torch.optim.SGD([torch.zeros(1)], lr=rate, momentum=0.9)

    def closed(rate: float, make: Callable) -> list[float | None]:
        schedule = make(optimizer(rate))
        rates = []
        for t in range(STEPS):
            schedule.last_epoch = t
            rates.append(float(schedule._get_closed_form_lr()[0]))
        return rates

    def stepped(rate: float, make: Callable, steps: int = STEPS) -> list[float | None]:
        moving = optimizer(rate)
        schedule = make(moving)
        rates = []
        for _ in range(steps):
            rates.append(float(schedule.get_last_lr()[0]))
            moving.step()
            schedule.step()
        return rates + [None] * (STEPS - steps)

    def momentum(make: Callable, steps: int = STEPS) -> list[float | None]:
        moving = optimizer(0.1)
        schedule = make(moving)
        momenta: list[float | None] = []
        for _ in range(steps):
            momenta.append(float(moving.param_groups[0]["momentum"]))
            moving.step()
            schedule.step()
        return momenta + [None] * (STEPS - steps)

    s = torch_schedules
    yield "exponential", closed(0.3, lambda o: s.ExponentialLR(o, 0.999))
    yield "exponential growing", closed(1e-4, lambda o: s.ExponentialLR(o, 1.0003))
    yield "step 1000", closed(0.3, lambda o: s.StepLR(o, 1000, 0.5))
    yield "step 700", closed(0.1, lambda o: s.StepLR(o, 700, 0.9))
    yield "multi_step", closed(0.3, lambda o: s.MultiStepLR(o, [1000, 3000, 7000], 0.1))
    yield "multi_step near", closed(0.1, lambda o: s.MultiStepLR(o, [100, 200], 0.5))
    yield "linear", closed(0.3, lambda o: s.LinearLR(o, 0.1, 1, 500))
    yield "linear falling", closed(0.1, lambda o: s.LinearLR(o, 1, 0.25, 5000))
    yield "constant", closed(0.3, lambda o: s.ConstantLR(o, 0.25, 1000))
    yield "polynomial", closed(0.3, lambda o: s.PolynomialLR(o, 8000, 2))
    yield "polynomial root", closed(0.1, lambda o: s.PolynomialLR(o, 5000, 0.5))
    yield "cosine", closed(0.3, lambda o: s.CosineAnnealingLR(o, 10_000))
    yield "cosine end", closed(0.3, lambda o: s.CosineAnnealingLR(o, 12_000, 0.01))
    yield "restarts", stepped(0.3, lambda o: s.CosineAnnealingWarmRestarts(o, 700, 2, 0.01))
    yield "restarts even", stepped(0.1, lambda o: s.CosineAnnealingWarmRestarts(o, 500))
    yield "restarts 3", stepped(0.1, lambda o: s.CosineAnnealingWarmRestarts(o, 200, 3))
    yield "one_cycle", stepped(0.3, lambda o: s.OneCycleLR(o, 0.3, 10_000))
    yield "one_cycle linear", stepped(
        0.1, lambda o: s.OneCycleLR(o, 0.1, 8000, pct_start=0.25, anneal_strategy="linear", div_factor=10,
                                    final_div_factor=100), 8000)
    yield "one_cycle broken", stepped(0.1, lambda o: s.OneCycleLR(o, 0.1, 1001, pct_start=0.4), 1001)
    yield "one_cycle momentum", momentum(lambda o: s.OneCycleLR(o, 0.3, 10_000))
    yield "one_cycle momentum linear", momentum(
        lambda o: s.OneCycleLR(o, 0.1, 8000, pct_start=0.25, anneal_strategy="linear", base_momentum=0.5,
                               max_momentum=0.9), 8000)
    yield "one_cycle momentum broken", momentum(lambda o: s.OneCycleLR(o, 0.1, 1001, pct_start=0.4), 1001)
    yield "cyclic", stepped(0.3, lambda o: s.CyclicLR(o, 0.01, 0.3, 200, 300))
    yield "cyclic 2", stepped(0.3, lambda o: s.CyclicLR(o, 0.01, 0.3, 500, mode="triangular2"))
    yield "cyclic exp", stepped(0.3, lambda o: s.CyclicLR(o, 0.01, 0.3, 500, 1500, "exp_range", 0.9995))
    yield "sequential", stepped(
        0.3, lambda o: s.SequentialLR(o, [s.LinearLR(o, 0.1, 1, 500), s.MultiStepLR(o, [1000, 3000], 0.5)], [500]))
    yield "sequential of three", stepped(
        0.3, lambda o: s.SequentialLR(o, [s.ConstantLR(o, 0.25, 20_000), s.StepLR(o, 500, 0.5),
                                          s.CyclicLR(o, 0.01, 0.1, 500)], [1000, 3000]))


def of_keras() -> Iterator[tuple[str, list[float | None]]]:
    import keras
    from numpy import float64 as d  # Keras makes a Python float a float32, whatever floatx is

    keras.config.set_floatx("float64")
    s = keras.optimizers.schedules

    def at_chosen(schedule: Callable) -> list[float | None]:
        rates: list[float | None] = [None] * STEPS
        for t in chosen_steps():
            rate = schedule(t)
            assert keras.backend.standardize_dtype(rate.dtype) == "float64"
            rates[t] = float(rate)
        return rates

    yield "exponential", at_chosen(s.ExponentialDecay(d(0.3), 500, d(0.96)))
    yield "exponential staircase", at_chosen(s.ExponentialDecay(d(0.1), 700, d(0.5), staircase=True))
    yield "piecewise", at_chosen(s.PiecewiseConstantDecay([1000, 3000, 7000], [d(0.3), d(0.1), d(0.2), d(0.01)]))
    yield "piecewise near", at_chosen(s.PiecewiseConstantDecay([0, 5000], [d(0.3), d(0.1), d(0.05)]))
    yield "polynomial", at_chosen(s.PolynomialDecay(d(0.3), 8000, d(0.01), d(2)))
    yield "polynomial root", at_chosen(s.PolynomialDecay(d(0.1), 5000, d(0), d(0.5)))
    yield "inverse_time", at_chosen(s.InverseTimeDecay(d(0.3), 1000, d(0.5)))
    yield "inverse_time staircase", at_chosen(s.InverseTimeDecay(d(0.1), 700, d(2), staircase=True))
    yield "cosine", at_chosen(s.CosineDecay(d(0.3), 8000, d(0.1)))
    yield "cosine warm", at_chosen(s.CosineDecay(d(0.01), 6000, d(0), warmup_target=d(0.3), warmup_steps=500))
    yield "restarts", at_chosen(s.CosineDecayRestarts(d(0.3), 700, d(2), d(0.9), d(0.1)))
    yield "restarts even", at_chosen(s.CosineDecayRestarts(d(0.1), 500, d(1), d(0.5)))
    yield "restarts broken", at_chosen(s.CosineDecayRestarts(d(0.3), 400, d(1.5), d(0.8), d(0.05)))


def of_optax() -> Iterator[tuple[str, list[float | None]]]:
    import jax
    import jax.numpy as jnp
    import optax

    jax.config.update("jax_enable_x64", True)

    def everywhere(schedule: Callable) -> list[float | None]:
        rates = jnp.broadcast_to(jnp.asarray(schedule(jnp.arange(STEPS)), dtype=jnp.float64), (STEPS,))
        return [float(rate) for rate in rates]

    yield "linear", everywhere(optax.linear_schedule(0.3, 0.01, 5000))
    yield "linear late", everywhere(optax.linear_schedule(0.1, 0.0, 4000, 1000))
    yield "polynomial", everywhere(optax.polynomial_schedule(0.3, 0.01, 2, 8000))
    yield "polynomial root", everywhere(optax.polynomial_schedule(0.1, 0.0, 0.5, 5000))
    yield "piecewise", everywhere(optax.piecewise_constant_schedule(0.3, {1000: 0.5, 3000: 0.1, 7000: 2.0}))
    yield "piecewise near", everywhere(optax.piecewise_constant_schedule(0.1, {100: 0.1}))
    yield "exponential", everywhere(optax.exponential_decay(0.3, 500, 0.96))
    yield "exponential staircase", everywhere(optax.exponential_decay(0.1, 700, 0.5, staircase=True))
    yield "exponential late", everywhere(optax.exponential_decay(0.3, 500, 0.7, transition_begin=2000, end_value=0.01))
    yield "cosine", everywhere(optax.cosine_decay_schedule(0.3, 8000, 0.1))
    yield "cosine to 0", everywhere(optax.cosine_decay_schedule(0.1, 10_000))
    yield "warmup_constant", everywhere(optax.warmup_constant_schedule(0.01, 0.3, 500))
    yield "warmup_cosine", everywhere(optax.warmup_cosine_decay_schedule(0.0, 0.3, 500, 8000, 0.01))
    yield "warmup_cosine high", everywhere(optax.warmup_cosine_decay_schedule(0.02, 0.1, 1000, 7000))
    yield "warmup_exponential", everywhere(optax.warmup_exponential_decay_schedule(0.01, 0.3, 500, 1000, 0.5))
    yield "warmup_exponential stairs", everywhere(
        optax.warmup_exponential_decay_schedule(0.0, 0.1, 1000, 500, 0.8, staircase=True, end_value=0.02))
    yield "join", everywhere(optax.join_schedules(
        [optax.linear_schedule(0.0, 0.3, 1000), optax.constant_schedule(0.3), optax.cosine_decay_schedule(0.3, 3000)],
        [1000, 4000]))
    yield "join of inverse", everywhere(optax.join_schedules(
        [optax.constant_schedule(0.05), optax.exponential_decay(0.3, 1000, 0.5),
         optax.polynomial_schedule(0.1, 0.0, 3, 2500)], [500, 6000]))
    yield "sgdr", everywhere(optax.sgdr_schedule([
        {"init_value": 0.0, "peak_value": 0.3, "decay_steps": 2000, "warmup_steps": 500, "end_value": 0.01},
        {"init_value": 0.01, "peak_value": 0.2, "decay_steps": 4000, "warmup_steps": 1000, "end_value": 0.0}]))


def main() -> None:
    warnings.simplefilter("ignore")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    system = sys.argv[1]
    steps = chosen_steps()
    print("steps", *steps)
    for name, rates in {"torch": of_torch, "keras": of_keras, "optax": of_optax}[system]():
        print(name.replace(" ", "_"), *("-" if rates[t] is None else repr(rates[t]) for t in steps))


if __name__ == "__main__":
    main()
