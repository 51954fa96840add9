#!/usr/bin/env python3
"""Writes keras.txt: Keras on its TensorFlow backend, every operation run on its own."""

import inspect
import os
from collections.abc import Iterator
from typing import NamedTuple

os.environ |= {"KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}

import keras
import numpy as np
import tensorflow as tf
from common import Case, State, write
from keras.optimizers import SGD, Adadelta, Adagrad, Adam, Adamax, AdamW, Ftrl, Lamb, Lion, Nadam, RMSprop


class Function(NamedTuple):
    """A function of the dialect: the class, what of its options makes this function, its state by our names."""

    optimizer: type[keras.Optimizer]
    options: tuple[str, ...] = ()
    slots: dict[str, str] = {}
    switches: dict[str, bool] = {}


ROOT = ("rho", "epsilon")
BETAS = ("beta_1", "beta_2")
ADAM = (*BETAS, "epsilon")
MOMENTS = {"m": "_momentums", "v": "_velocities"}
MAXIMUM = MOMENTS | {"v_max": "_velocity_hats"}
SQUARES = {"n": "_velocities"}
CENTERED = SQUARES | {"a": "_average_gradients"}
STEPS_OF_RMSPROP = {"b": "_momentums"}
FTRL = (
    "l1_regularization_strength",
    "l2_regularization_strength",
    "l2_shrinkage_regularization_strength",
    "beta",
    "learning_rate_power",
    "initial_accumulator_value",
)
FUNCTIONS = {
    "sgd": Function(SGD),
    "sgd_momentum": Function(SGD, ("momentum",), {"m": "momentums"}),
    "sgd_nesterov": Function(SGD, ("momentum",), {"m": "momentums"}, {"nesterov": True}),
    "rmsprop": Function(RMSprop, ROOT, SQUARES),
    "rmsprop_centered": Function(RMSprop, ROOT, CENTERED, {"centered": True}),
    "rmsprop_momentum": Function(RMSprop, (*ROOT, "momentum"), SQUARES | STEPS_OF_RMSPROP),
    "rmsprop_centered_momentum": Function(
        RMSprop, (*ROOT, "momentum"), CENTERED | STEPS_OF_RMSPROP, {"centered": True}
    ),
    "adam": Function(Adam, ADAM, MOMENTS),
    "adam_amsgrad": Function(Adam, ADAM, MAXIMUM, {"amsgrad": True}),
    "adamw": Function(AdamW, (*ADAM, "weight_decay"), MOMENTS),
    "adamw_amsgrad": Function(AdamW, (*ADAM, "weight_decay"), MAXIMUM, {"amsgrad": True}),
    "adadelta": Function(Adadelta, ROOT, {"n": "_accumulated_grads", "u": "_accumulated_delta_vars"}),
    "adagrad": Function(Adagrad, ("initial_accumulator_value", "epsilon"), {"n": "_accumulators"}),
    "adamax": Function(Adamax, ADAM, {"m": "_m", "u": "_u"}),
    "nadam": Function(Nadam, ADAM, MOMENTS),
    "ftrl": Function(Ftrl, FTRL, {"z": "_linears", "n": "_accumulators"}),
    "lion": Function(Lion, BETAS, {"m": "_momentums"}),
    "lamb": Function(Lamb, ADAM, MOMENTS),
    "adam_ema": Function(
        Adam, (*ADAM, "ema_momentum"), MOMENTS | {"average": "_model_variables_moving_average"}, {"use_ema": True}
    ),
}


def default(name: str, **chosen: float) -> list[Case]:
    """The cases of a function's own defaults, but for those chosen.

    Keras passes Python's numbers to TensorFlow through float32, in a float64 run as well: there the options are such
    numbers from the start. Nadam does so with a number that is no option.
    """
    parameters = inspect.signature(FUNCTIONS[name].optimizer).parameters.values()
    given = {p.name: p.default for p in parameters} | chosen
    options = {option: given[option] for option in FUNCTIONS[name].options}
    rounded = {option: float(np.float32(value)) for option, value in options.items()}
    in_float = Case(name, given["learning_rate"], options, dtypes=("float32",))
    in_double = Case(name, given["learning_rate"], rounded, dtypes=("float64",))
    return [in_float] if name == "nadam" else [in_float, in_double]


# For each function its defaults come first; Keras' momentum is 0, which is another function here.
OTHER_ROOT = {"rho": 0.75, "epsilon": 1e-3}
OTHER_BETAS = {"beta_1": 0.75, "beta_2": 0.9375}
OTHER_ADAM = OTHER_BETAS | {"epsilon": 1e-3}
CASES = [
    *default("sgd"),
    Case("sgd", 0.25, later_lr=0.0625),
    *default("sgd_momentum", momentum=0.9),
    Case("sgd_momentum", 0.25, {"momentum": 0.5}, later_lr=0.0625),
    *default("sgd_nesterov", momentum=0.9),
    Case("sgd_nesterov", 0.25, {"momentum": 0.5}, later_lr=0.0625),
    *default("rmsprop"),
    Case("rmsprop", 0.25, OTHER_ROOT, later_lr=0.0625),
    *default("rmsprop_centered"),
    Case("rmsprop_centered", 0.25, OTHER_ROOT, later_lr=0.0625),
    *default("rmsprop_momentum", momentum=0.9),
    Case("rmsprop_momentum", 0.25, OTHER_ROOT | {"momentum": 0.5}, later_lr=0.0625),
    *default("rmsprop_centered_momentum", momentum=0.9),
    Case("rmsprop_centered_momentum", 0.25, OTHER_ROOT | {"momentum": 0.5}, later_lr=0.0625),
    *default("adam"),
    Case("adam", 0.25, OTHER_ADAM, later_lr=0.0625),
    *default("adam_amsgrad"),
    Case("adam_amsgrad", 0.25, OTHER_ADAM, later_lr=0.0625),
    *default("adamw"),
    Case("adamw", 0.25, OTHER_ADAM | {"weight_decay": 0.5}, later_lr=0.0625),
    *default("adamw_amsgrad"),
    Case("adamw_amsgrad", 0.25, OTHER_ADAM | {"weight_decay": 0.5}, later_lr=0.0625),
    *default("adadelta"),
    Case("adadelta", 1.0, {"rho": 0.875, "epsilon": 1e-3}, later_lr=0.5),
    *default("adagrad"),
    Case("adagrad", 0.25, {"initial_accumulator_value": 0.0, "epsilon": 1e-3}, later_lr=0.0625),
    *default("adamax"),
    Case("adamax", 0.25, OTHER_ADAM, later_lr=0.0625),
    *default("nadam"),
    Case("nadam", 0.25, OTHER_ADAM, later_lr=0.0625, dtypes=("float32",)),
    *default("ftrl"),
    Case("ftrl", 0.25, dict(zip(FTRL, (0.125, 0.0625, 0.03125, 0.5, -0.5, 0.5), strict=True)), later_lr=0.125),
    Case("ftrl", 0.25, dict(zip(FTRL, (0.5, 0.0, 0.0, 0.0, -0.75, 0.125), strict=True)), later_lr=0.125),
    *default("lion"),
    Case("lion", 0.25, OTHER_BETAS, later_lr=0.0625),
    *default("lamb"),
    Case("lamb", 0.25, OTHER_ADAM, later_lr=0.0625),
    *default("adam_ema"),
    Case("adam_ema", 0.25, OTHER_ADAM | {"ema_momentum": 0.75}, later_lr=0.0625),
]


def run(case: Case, weights: np.ndarray, gradients: np.ndarray) -> Iterator[State]:
    keras.backend.set_floatx(weights.dtype.name)
    function = FUNCTIONS[case.name]
    variable = keras.Variable(weights)
    optimizer = function.optimizer(learning_rate=case.lr, **function.switches, **case.options)
    optimizer.build([variable])

    def state() -> State:
        slots = {ours: getattr(optimizer, theirs)[0] for ours, theirs in function.slots.items()}
        if "average" in slots and optimizer.iterations == 0:
            slots["average"] = variable  # Keras' is 0 so far, which the first step does not look at
        return {name: keras.ops.convert_to_numpy(x) for name, x in ({"w": variable} | slots).items()}

    yield state()
    for rate, gradient in zip(case.rates(), gradients, strict=True):
        optimizer.learning_rate = rate
        optimizer.apply([tf.constant(gradient)], [variable])
        yield state()


if __name__ == "__main__":
    write("keras", f"keras {keras.__version__} on tensorflow {tf.__version__}", CASES, run)
