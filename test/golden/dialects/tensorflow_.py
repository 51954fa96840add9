#!/usr/bin/env python3
"""Writes tensorflow.txt: TensorFlow's training operations, to which the optimizers of tf.compat.v1.train lead."""

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

os.environ |= {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}

import numpy as np
import tensorflow as tf
from common import Case, State, write


class Function(NamedTuple):
    """A function of the dialect: the operation, and what its arguments are: our slots, options, or fixed numbers."""

    operation: Callable
    options: dict[str, str] = {}
    slots: dict[str, str] = {}  # one without a name is not kept
    switches: dict[str, bool | float] = {}


op = tf.raw_ops
NESTEROV = {"use_nesterov": True}
MOMENTUM = {"momentum": "momentum"}
ROOT = {"rho": "decay", "epsilon": "epsilon"}
SQUARES, CENTERED = {"ms": "n"}, {"ms": "n", "mg": "a"}
ADAM = {name: name for name in ("beta1", "beta2", "epsilon")}
MOMENTS = {"m": "m", "v": "v"}
PROXIMAL = {"l1": "l1_regularization_strength", "l2": "l2_regularization_strength"}
FTRL = PROXIMAL | {"l2_shrinkage": "l2_shrinkage_regularization_strength", "lr_power": "learning_rate_power"}
FUNCTIONS = {
    "gradient_descent": Function(op.ResourceApplyGradientDescent),
    "momentum": Function(op.ResourceApplyMomentum, MOMENTUM, {"accum": "m"}),
    "momentum_nesterov": Function(op.ResourceApplyMomentum, MOMENTUM, {"accum": "m"}, NESTEROV),
    "keras_momentum": Function(op.ResourceApplyKerasMomentum, MOMENTUM, {"accum": "m"}),
    "keras_momentum_nesterov": Function(op.ResourceApplyKerasMomentum, MOMENTUM, {"accum": "m"}, NESTEROV),
    "adagrad": Function(op.ResourceApplyAdagrad, {}, {"accum": "n"}),
    "adagrad_v2": Function(op.ResourceApplyAdagradV2, {"epsilon": "epsilon"}, {"accum": "n"}),
    "adadelta": Function(
        op.ResourceApplyAdadelta, {"rho": "rho", "epsilon": "epsilon"}, {"accum": "n", "accum_update": "u"}
    ),
    "rmsprop": Function(op.ResourceApplyRMSProp, ROOT, SQUARES | {"mom": ""}, {"momentum": 0.0}),
    "rmsprop_centered": Function(op.ResourceApplyCenteredRMSProp, ROOT, CENTERED | {"mom": ""}, {"momentum": 0.0}),
    "rmsprop_momentum": Function(op.ResourceApplyRMSProp, ROOT | MOMENTUM, SQUARES | {"mom": "b"}),
    "rmsprop_centered_momentum": Function(op.ResourceApplyCenteredRMSProp, ROOT | MOMENTUM, CENTERED | {"mom": "b"}),
    "adam": Function(op.ResourceApplyAdam, ADAM, MOMENTS),
    "adam_nesterov": Function(op.ResourceApplyAdam, ADAM, MOMENTS, NESTEROV),
    "adam_amsgrad": Function(op.ResourceApplyAdamWithAmsgrad, ADAM, MOMENTS | {"vhat": "v_max"}),
    "ada_max": Function(op.ResourceApplyAdaMax, ADAM, {"m": "m", "v": "u"}),
    "ftrl": Function(op.ResourceApplyFtrlV2, FTRL, {"accum": "n", "linear": "z"}),
    "proximal_adagrad": Function(op.ResourceApplyProximalAdagrad, PROXIMAL, {"accum": "n"}),
}


def ftrl(*numbers: float) -> dict[str, float]:
    return dict(zip((*FTRL.values(), "beta", "initial_accumulator_value"), numbers, strict=True))


def proximal(*numbers: float) -> dict[str, float]:
    return dict(zip((*PROXIMAL.values(), "initial_accumulator_value"), numbers, strict=True))


def adam(beta1: float, beta2: float, epsilon: float) -> dict[str, float]:
    return {"beta1": beta1, "beta2": beta2, "epsilon": epsilon}


# Operations have no defaults. The first case of a function has those of its class in tf.compat.v1.train or, where none
# leads to the operation (keras_momentum, adagrad_v2, adam_amsgrad, ada_max), in tf.keras.optimizers.legacy.
CASES = [
    Case("gradient_descent", 0.01),
    Case("gradient_descent", 0.25, later_lr=0.0625),
]
for name in ("momentum", "momentum_nesterov", "keras_momentum", "keras_momentum_nesterov"):
    CASES += [
        Case(name, 0.01, {"momentum": 0.9}),
        Case(name, 0.25, {"momentum": 0.5}, later_lr=0.0625),
    ]
for name in ("rmsprop", "rmsprop_centered", "rmsprop_momentum", "rmsprop_centered_momentum"):
    momentum, other = ({"momentum": 0.9}, {"momentum": 0.5}) if "momentum" in name else ({}, {})
    CASES += [
        Case(name, 0.001, {"decay": 0.9, "epsilon": 1e-10} | momentum),
        Case(name, 0.25, {"decay": 0.75, "epsilon": 1e-3} | other, later_lr=0.0625),
    ]
for name, epsilon in (("adam", 1e-8), ("adam_nesterov", 1e-8), ("adam_amsgrad", 1e-7), ("ada_max", 1e-7)):
    CASES += [
        Case(name, 0.001, adam(0.9, 0.999, epsilon)),
        Case(name, 0.25, adam(0.75, 0.9375, 1e-3), later_lr=0.0625),
    ]
CASES += [
    Case("adagrad", 0.001, {"initial_accumulator_value": 0.1}),
    Case("adagrad", 0.25, {"initial_accumulator_value": 1.0}, later_lr=0.0625),
    Case("adagrad_v2", 0.001, {"initial_accumulator_value": 0.1, "epsilon": 1e-7}),
    Case("adagrad_v2", 0.25, {"initial_accumulator_value": 0.0, "epsilon": 1e-3}, later_lr=0.0625),
    Case("adadelta", 0.001, {"rho": 0.95, "epsilon": 1e-8}),
    Case("adadelta", 1.0, {"rho": 0.875, "epsilon": 1e-3}, later_lr=0.5),
    Case("ftrl", 0.001, ftrl(0.0, 0.0, 0.0, -0.5, 0.0, 0.1)),
    Case("ftrl", 0.25, ftrl(0.125, 0.0625, 0.03125, -0.5, 0.5, 0.5), later_lr=0.125),
    Case("ftrl", 0.25, ftrl(0.5, 0.0, 0.0, -0.75, 0.0, 0.1), later_lr=0.125),
    Case("proximal_adagrad", 0.001, proximal(0.0, 0.0, 0.1)),
    Case("proximal_adagrad", 0.25, proximal(0.125, 0.0625, 1.0), later_lr=0.0625),
]


def initial(case: Case, slot: str) -> float:
    if slot == "n" and case.name.startswith("rmsprop"):
        return 1.0  # as RMSPropOptimizer has it
    return case.options.get("initial_accumulator_value", 0.0) if slot == "n" else 0.0


def numbers(case: Case, t: int, rate: float) -> dict[str, float]:
    """The scalar arguments of step t. Powers of beta are exact; the optimizers have running products in float32."""
    function = FUNCTIONS[case.name]
    given = {theirs: case.options[ours] for theirs, ours in function.options.items()}
    given["alpha" if case.name == "gradient_descent" else "lr"] = rate
    if "beta1" in given:
        given["beta1_power"] = given["beta1"] ** t
        if case.name != "ada_max":
            given["beta2_power"] = given["beta2"] ** t
    if "beta" in case.options:
        given["l2"] += case.options["beta"] / (2 * rate)  # as FtrlOptimizer does
    return given


def run(case: Case, weights: np.ndarray, gradients: np.ndarray) -> Iterator[State]:
    function = FUNCTIONS[case.name]
    variables = {"w": tf.Variable(weights)}
    variables |= {slot: tf.Variable(np.full_like(weights, initial(case, slot))) for slot in function.slots.values()}

    def state() -> State:
        return {slot: x.numpy() for slot, x in variables.items() if slot}

    handles = {theirs: variables[ours].handle for theirs, ours in ({"var": "w"} | function.slots).items()}
    yield state()
    for t, (rate, gradient) in enumerate(zip(case.rates(), gradients, strict=True), start=1):
        scalars = function.switches | numbers(case, t, rate)
        tensors = {k: x if isinstance(x, bool) else tf.constant(x, weights.dtype) for k, x in scalars.items()}
        tensors["delta" if case.name == "gradient_descent" else "grad"] = tf.constant(gradient)
        function.operation(**handles, **tensors)
        yield state()


if __name__ == "__main__":
    write("tensorflow", f"tensorflow {tf.__version__}", CASES, run)
