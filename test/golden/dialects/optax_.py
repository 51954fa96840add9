#!/usr/bin/env python3
"""Writes optax.txt: optax on one tensor, each operation on its own (without jit), float32 without jax_enable_x64."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
from common import Case, State, write


# The average so far and its state, which is nothing before the first step, and the weights -> both after the step.
Average = Callable[[jax.Array, Any, jax.Array], tuple[jax.Array, Any]]


class Function(NamedTuple):
    """A function of the dialect: optax's, what of its options makes this function, its state by our names.

    A name with a minus stands for the negative: optax's trace has the sign of the update.
    """

    optimizer: Callable[..., optax.GradientTransformation]
    options: tuple[str, ...]
    slots: dict[str, str]
    switches: dict[str, Any] = {}
    average: Callable[[Case], Average] | None = None


def debiased_ema(case: Case) -> Average:
    ema = optax.ema(case.options["decay"], debias=True)
    return lambda average, state, weight: ema.update(weight, ema.init(weight) if state is None else state)


def incremental_update(case: Case) -> Average:
    size = case.options["step_size"]
    return lambda average, state, weight: (optax.incremental_update(weight, average, size), None)


def lookahead_of_adam(
    rate: Any, sync_period: float, slow_step_size: float, **options: float
) -> optax.GradientTransformation:
    return optax.lookahead(optax.adam(rate, **options), int(sync_period), slow_step_size)


MOMENTS = {"m": "mu", "v": "nu"}
ADAM = ("b1", "b2", "eps")
RMSPROP = ("decay", "eps", "initial_scale", "eps_in_sqrt")

FUNCTIONS = {
    "sgd": Function(optax.sgd, (), {}),
    "sgd_momentum": Function(optax.sgd, ("momentum",), {"m": "trace"}),
    "sgd_nesterov": Function(optax.sgd, ("momentum",), {"m": "trace"}, {"nesterov": True}),
    "noisy_sgd": Function(optax.noisy_sgd, ("eta", "gamma"), {}, {"key": 0}),
    "adagrad": Function(optax.adagrad, ("initial_accumulator_value", "eps"), {"n": "sum_of_squares"}),
    "adadelta": Function(optax.adadelta, ("rho", "eps"), {"n": "e_g", "u": "e_x"}),
    "rmsprop": Function(optax.rmsprop, RMSPROP, {"n": "nu"}),
    "rmsprop_centered": Function(optax.rmsprop, RMSPROP, {"n": "nu", "a": "mu"}, {"centered": True}),
    "rmsprop_momentum": Function(optax.rmsprop, (*RMSPROP, "momentum"), {"n": "nu", "b": "-trace"}),
    "rmsprop_centered_momentum": Function(
        optax.rmsprop, (*RMSPROP, "momentum"), {"n": "nu", "a": "mu", "b": "-trace"}, {"centered": True}
    ),
    "adam": Function(optax.adam, ADAM, MOMENTS),
    "adamw": Function(optax.adamw, (*ADAM, "weight_decay"), MOMENTS),
    "nadam": Function(optax.nadam, ADAM, MOMENTS),
    "nadamw": Function(optax.nadamw, (*ADAM, "weight_decay"), MOMENTS),
    "amsgrad": Function(optax.amsgrad, ADAM, MOMENTS | {"v_max": "nu_max"}),
    "adamax": Function(optax.adamax, ADAM, {"m": "mu", "u": "nu"}),
    "adamaxw": Function(optax.adamaxw, (*ADAM, "weight_decay"), {"m": "mu", "u": "nu"}),
    "radam": Function(optax.radam, ADAM, MOMENTS),
    "adabelief": Function(optax.adabelief, (*ADAM, "eps_root"), {"m": "mu", "s": "nu"}),
    "yogi": Function(optax.yogi, ADAM, MOMENTS),
    "lion": Function(optax.lion, ("b1", "b2", "weight_decay"), {"m": "mu"}),
    "lamb": Function(optax.lamb, (*ADAM, "weight_decay"), MOMENTS),
    "adam_ema": Function(optax.adam, (*ADAM, "decay"), MOMENTS, average=debiased_ema),
    "adam_incremental_update": Function(optax.adam, (*ADAM, "step_size"), MOMENTS, average=incremental_update),
    "lars": Function(optax.lars, ("trust_coefficient", "eps", "momentum", "weight_decay"), {"m": "-trace"}),
    "signum": Function(optax.signum, ("beta",), {"m": "ema"}),
    "adan": Function(
        optax.adan, ("b1", "b2", "b3", "eps", "eps_root", "weight_decay"), {"m": "m", "d": "v", "n": "n", "p": "g"}
    ),
    "ademamix": Function(
        optax.contrib.ademamix, ("b1", "b2", "b3", "alpha", "eps", "weight_decay"), {"m1": "m1", "m2": "m2", "v": "nu"}
    ),
    "adopt": Function(optax.contrib.adopt, ADAM, MOMENTS),
    "optimistic_gradient_descent": Function(
        optax.optimistic_gradient_descent, ("alpha", "beta"), {"p": "previous_gradient"}
    ),
    "optimistic_adam_v2": Function(
        optax.optimistic_adam_v2,
        ("alpha", "beta", *ADAM, "nesterov"),
        MOMENTS | {"p": "previous_gradient"},
    ),
    "cocob": Function(
        optax.contrib.cocob,
        ("alpha", "eps"),
        {
            "largest": "scale",
            "sum": "subgradients",
            "reward": "reward",
            "theta": "cumulative_gradients",
            "w0": "init_particles",
        },
    ),
    "novograd": Function(optax.novograd, ("b1", "b2", "eps", "weight_decay"), {"m": "mu", "v": "nu"}),
    "fromage": Function(optax.fromage, ("min_norm",), {}),
    "adam_lookahead": Function(lookahead_of_adam, (*ADAM, "sync_period", "slow_step_size"), MOMENTS),
    "schedule_free_sgd": Function(optax.contrib.schedule_free_sgd, ("b1", "weight_lr_power", "weight_decay"), {"z": "z"}),
    "schedule_free_adamw": Function(
        optax.contrib.schedule_free_adamw, (*ADAM, "weight_lr_power", "weight_decay"), {"z": "z", "v": "nu"}
    ),
    "madgrad": Function(
        optax.contrib.madgrad, ("momentum", "eps", "weight_decay"), {"s": "s", "n": "grad_sum_sq", "w0": "x0"}
    ),
}


def default(name: str, lr: float, **chosen: float) -> Case:
    """The case of a function's own defaults, but for those chosen. No rate has a default."""
    function = FUNCTIONS[name]
    parameters = inspect.signature(function.optimizer).parameters
    given = {option: parameters[option].default for option in function.options if option not in chosen} | chosen
    return Case(name, lr, {option: float(value) for option, value in given.items()})


# For each function its defaults come first. momentum has none in sgd and rmsprop.
CASES = [
    default("sgd", 0.001),
    Case("sgd", 0.1, later_lr=0.02),
    default("sgd_momentum", 0.001, momentum=0.9),
    Case("sgd_momentum", 0.1, {"momentum": 0.5}, later_lr=0.02),
    default("sgd_nesterov", 0.001, momentum=0.9),
    Case("sgd_nesterov", 0.1, {"momentum": 0.6}, later_lr=0.02),
    # eta = 0: what does not depend on random numbers.
    default("noisy_sgd", 0.001, eta=0),
    Case("noisy_sgd", 0.1, {"eta": 0, "gamma": 0.25}, later_lr=0.02),
    default("adagrad", 0.001),
    Case("adagrad", 0.1, {"initial_accumulator_value": 0, "eps": 0.001}, later_lr=0.02),
    default("adadelta", 1),
    Case("adadelta", 0.1, {"rho": 0.95, "eps": 1e-4}, later_lr=0.02),
    default("rmsprop", 0.001),
    Case("rmsprop", 0.1, {"decay": 0.95, "eps": 0.001, "initial_scale": 1, "eps_in_sqrt": 0}, later_lr=0.02),
    default("rmsprop_centered", 0.001),
    Case("rmsprop_centered", 0.1, {"decay": 0.8, "eps": 0.01, "initial_scale": 0.5, "eps_in_sqrt": 0}, later_lr=0.02),
    default("rmsprop_momentum", 0.001, momentum=0.9),
    Case(
        "rmsprop_momentum",
        0.1,
        {"decay": 0.95, "eps": 0.001, "initial_scale": 1, "eps_in_sqrt": 0, "momentum": 0.5},
        later_lr=0.02,
    ),
    default("rmsprop_centered_momentum", 0.001, momentum=0.9),
    Case(
        "rmsprop_centered_momentum",
        0.1,
        {"decay": 0.8, "eps": 0.01, "initial_scale": 0.5, "eps_in_sqrt": 0, "momentum": 0.5},
        later_lr=0.02,
    ),
    default("adam", 0.001),
    Case("adam", 0.1, {"b1": 0.8, "b2": 0.99, "eps": 0.001}, later_lr=0.02),
    default("adamw", 0.001),
    Case("adamw", 0.1, {"b1": 0.8, "b2": 0.99, "eps": 0.001, "weight_decay": 0.5}, later_lr=0.02),
    default("nadam", 0.001),
    Case("nadam", 0.1, {"b1": 0.8, "b2": 0.99, "eps": 0.001}, later_lr=0.02),
    default("nadamw", 0.001),
    default("amsgrad", 0.001),
    Case("amsgrad", 0.1, {"b1": 0.8, "b2": 0.9, "eps": 0.001}, later_lr=0.02),
    default("adamax", 0.001),
    Case("adamax", 0.1, {"b1": 0.8, "b2": 0.9, "eps": 0.001}, later_lr=0.02),
    default("adamaxw", 0.001),
    default("radam", 0.001),
    Case("radam", 0.1, {"b1": 0.8, "b2": 0.9, "eps": 0.001}, later_lr=0.02),
    default("adabelief", 0.001),
    Case("adabelief", 0.1, {"b1": 0.8, "b2": 0.99, "eps": 0.001, "eps_root": 1e-6}, later_lr=0.02),
    default("yogi", 0.001),
    Case("yogi", 0.1, {"b1": 0.8, "b2": 0.9, "eps": 0.01}, later_lr=0.02),
    default("lion", 0.001),
    Case("lion", 0.1, {"b1": 0.8, "b2": 0.9, "weight_decay": 0.5}, later_lr=0.02),
    default("lamb", 0.001),
    Case("lamb", 0.1, {"b1": 0.8, "b2": 0.99, "eps": 0.001, "weight_decay": 0.5}, later_lr=0.02),
    default("lars", 0.001),
    Case("lars", 0.1, {"trust_coefficient": 0.01, "eps": 0.001, "momentum": 0.5, "weight_decay": 0.25}, later_lr=0.02),
    default("adam_ema", 0.001, decay=0.999),
    Case("adam_ema", 0.1, {"b1": 0.8, "b2": 0.99, "eps": 0.001, "decay": 0.75}, later_lr=0.02),
    # Of a step size s, optax rounds s and 1 - s apart from each other: these are numbers of float.
    default("adam_incremental_update", 0.001, step_size=0.0625),
    Case("adam_incremental_update", 0.1, {"b1": 0.8, "b2": 0.99, "eps": 0.001, "step_size": 0.25}, later_lr=0.02),
    default("signum", 0.001),
    Case("signum", 0.1, {"beta": 0.5}, later_lr=0.02),
    default("adan", 0.001),
    Case(
        "adan",
        0.1,
        {"b1": 0.8, "b2": 0.75, "b3": 0.9, "eps": 0.001, "eps_root": 1e-6, "weight_decay": 0.5},
        later_lr=0.02,
    ),
    default("ademamix", 0.001),
    Case(
        "ademamix",
        0.1,
        {"b1": 0.8, "b2": 0.99, "b3": 0.995, "alpha": 2, "eps": 0.001, "weight_decay": 0.5},
        later_lr=0.02,
    ),
    default("adopt", 0.001),
    Case("adopt", 0.1, {"b1": 0.8, "b2": 0.9, "eps": 0.001}, later_lr=0.02),
    default("optimistic_gradient_descent", 0.001),
    Case("optimistic_gradient_descent", 0.1, {"alpha": 0.75, "beta": 0.3}, later_lr=0.02),
    default("optimistic_adam_v2", 0.001),
    Case(
        "optimistic_adam_v2",
        0.1,
        {"alpha": 0.75, "beta": 0.3, "b1": 0.8, "b2": 0.99, "eps": 0.001, "nesterov": 0},
        later_lr=0.02,
    ),
    default("cocob", 1),
    Case("cocob", 0.5, {"alpha": 10, "eps": 1e-4}, later_lr=0.25),
    default("novograd", 0.001),
    Case("novograd", 0.1, {"b1": 0.8, "b2": 0.75, "eps": 0.001, "weight_decay": 0.5}, later_lr=0.02),
    default("fromage", 0.001),
    Case("fromage", 0.1, {"min_norm": 1e5}, later_lr=0.02),
    # It multiplies the rate by the root of the step number in float32, for weights of float64 too.
    replace(default("madgrad", 0.001), dtypes=("float32",)),
    Case(
        "madgrad",
        0.1,
        {"momentum": 0.5, "eps": 0.001, "weight_decay": 0.25},
        later_lr=0.02,
        dtypes=("float32",),
    ),
    Case("adam_lookahead", 0.001, {"b1": 0.9, "b2": 0.999, "eps": 1e-8, "sync_period": 5, "slow_step_size": 0.5}),
    Case(
        "adam_lookahead",
        0.1,
        {"b1": 0.8, "b2": 0.99, "eps": 0.001, "sync_period": 2, "slow_step_size": 0.25},
        later_lr=0.02,
    ),
    # Their rates are constant: of a schedule, the average takes the rate of the step after.
    default("schedule_free_sgd", 1, weight_decay=0),
    Case("schedule_free_sgd", 0.1, {"b1": 0.6, "weight_lr_power": 0.5, "weight_decay": 0.25}),
    default("schedule_free_adamw", 0.0025),
    Case(
        "schedule_free_adamw",
        0.1,
        {"b1": 0.8, "b2": 0.99, "eps": 0.001, "weight_lr_power": 1, "weight_decay": 0.5},
    ),
]


def make(case: Case) -> optax.GradientTransformation:
    function = FUNCTIONS[case.name]
    options: dict[str, Any] = case.options | function.switches
    if function.average is not None:
        options = {name: value for name, value in options.items() if name not in ("decay", "step_size")}
    if "eps_in_sqrt" in options:
        options["eps_in_sqrt"] = bool(options["eps_in_sqrt"])
    if "nesterov" in options:
        options["nesterov"] = bool(options["nesterov"])
    rates = case.rates()
    if case.name == "madgrad":  # it adds eps to the rate
        rates = [rate - case.options["eps"] for rate in rates]
    rate = rates[0] if case.later_lr is None else lambda count: rates[int(count)]
    return function.optimizer(rate, **options)


def find(state: Any, name: str) -> jax.Array:
    """The part of a chain's state that has a field of this name."""
    if isinstance(state, optax.LookaheadState):
        return find(state.fast_state, name)
    if isinstance(state, optax.contrib.ScheduleFreeState):
        return state.z if name == "z" else find(state.base_optimizer_state, name)
    if name.startswith("-"):
        return -find(state, name[1:])
    return next(getattr(part, name) for part in state if hasattr(part, name))


def run(case: Case, weights: np.ndarray, gradients: np.ndarray) -> Iterator[State]:
    jax.config.update("jax_enable_x64", weights.dtype == np.float64)
    weight = jnp.asarray(weights)
    if case.name == "adam_lookahead":
        weight = optax.LookaheadParams.init_synced(weight)
    optimizer = make(case)
    state = optimizer.init(weight)
    make_average = FUNCTIONS[case.name].average
    take_in = make_average(case) if make_average else None
    average, average_state = weight, None

    def kept() -> State:
        slots = FUNCTIONS[case.name].slots
        if isinstance(weight, optax.LookaheadParams):
            weights = {"w": np.asarray(weight.fast), "slow": np.asarray(weight.slow)}
        else:
            weights = {"w": np.asarray(weight)}
        # nu of novograd is one number of the tensor.
        of_slots = {slot: np.broadcast_to(find(state, name), weights["w"].shape) for slot, name in slots.items()}
        out = weights | of_slots
        if isinstance(state, optax.contrib.ScheduleFreeState):
            out["average"] = np.asarray(optax.contrib.schedule_free_eval_params(state, weight))
            for field, ours in (("weight_sum", "weight_sum"), ("max_lr", "highest_rate")):
                out[ours] = np.broadcast_to(getattr(state, field), weights["w"].shape)
        return out if take_in is None else out | {"average": np.asarray(average)}

    yield kept()
    for gradient in gradients:
        updates, state = optimizer.update(jnp.asarray(gradient), state, weight)
        weight = optax.apply_updates(weight, updates)
        if take_in is not None:
            average, average_state = take_in(average, average_state, weight)
        yield kept()


if __name__ == "__main__":
    write("optax", f"optax {optax.__version__}, jax {jax.__version__}", CASES, run)
