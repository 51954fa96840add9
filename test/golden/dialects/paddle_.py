#!/usr/bin/env python3
"""Writes paddle.txt: paddle.optimizer in dynamic mode, and the operations that no class leads to."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import paddle
from common import Case, State, write
from paddle import _C_ops
from paddle.incubate import ModelAverage
from paddle.optimizer import (
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Lamb,
    Momentum,
    NAdam,
    Optimizer,
    RAdam,
    RMSProp,
    Rprop,
)


class Function(NamedTuple):
    """A function of the dialect: the class, what of its options makes this function, its state by our names."""

    optimizer: type[Optimizer]
    options: tuple[str, ...] = ()
    slots: dict[str, str] = {}
    switches: dict[str, bool] = {}


ROOT = ("rho", "epsilon")
ADAM = ("beta1", "beta2", "epsilon")
MOMENTS = {"m": "moment1", "v": "moment2"}
MAXIMUM = MOMENTS | {"v_max": "moment2_max"}
SQUARES = {"n": "mean_square"}
WINDOW = ("average_window_rate", "min_average_window", "max_average_window")
SUMS = {name: name for name in ("sum_1", "sum_2", "sum_3")}
RANGE, ETAS = ("learning_rate_min", "learning_rate_max"), ("eta_minus", "eta_plus")
CENTERED = SQUARES | {"a": "mean_grad"}
STEPS_OF_RMSPROP = {"b": "momentum"}
FUNCTIONS = {
    "sgd": Function(SGD),
    "momentum": Function(Momentum, ("momentum",), {"m": "velocity"}),
    "momentum_nesterov": Function(Momentum, ("momentum",), {"m": "velocity"}, {"use_nesterov": True}),
    "adagrad": Function(Adagrad, ("epsilon", "initial_accumulator_value"), {"n": "moment"}),
    "adadelta": Function(Adadelta, ROOT, {"n": "_avg_squared_grad", "u": "_avg_squared_update"}),
    "rmsprop": Function(RMSProp, ROOT, SQUARES),
    "rmsprop_centered": Function(RMSProp, ROOT, CENTERED, {"centered": True}),
    "rmsprop_momentum": Function(RMSProp, (*ROOT, "momentum"), SQUARES | STEPS_OF_RMSPROP),
    "rmsprop_centered_momentum": Function(
        RMSProp, (*ROOT, "momentum"), CENTERED | STEPS_OF_RMSPROP, {"centered": True}
    ),
    "adam": Function(Adam, ADAM, MOMENTS),
    "adam_amsgrad": Function(Adam, ADAM, MAXIMUM, {"amsgrad": True}),
    "adamw": Function(AdamW, (*ADAM, "weight_decay"), MOMENTS),
    "adamw_amsgrad": Function(AdamW, (*ADAM, "weight_decay"), MAXIMUM, {"amsgrad": True}),
    "adamax": Function(Adamax, ADAM, {"m": "moment", "u": "inf_norm"}),
    "nadam": Function(NAdam, (*ADAM, "momentum_decay"), MOMENTS),
    "radam": Function(RAdam, ADAM, MOMENTS),
    "lamb": Function(Lamb, (*ADAM, "lamb_weight_decay"), MOMENTS),
    "sgd_model_average": Function(SGD, WINDOW, SUMS),
    "rprop": Function(Rprop, ("initial_step", *RANGE, *ETAS), {"eta": "learning_rates", "p": "prevs"}),
}

Tensors = tuple[paddle.Tensor, ...]


class Operation(NamedTuple):
    """A function of the dialect without a class: (w, the slots, gradient, rate, options) -> (w, the slots)."""

    apply: Callable[..., Tensors]
    slots: tuple[str, ...]


def decayed_adagrad(
    w: paddle.Tensor, n: paddle.Tensor, gradient: paddle.Tensor, rate: paddle.Tensor, decay: float, epsilon: float
) -> Tensors:
    return _C_ops.decayed_adagrad(w, gradient, n, rate, decay, epsilon)


def ftrl(
    w: paddle.Tensor,
    z: paddle.Tensor,
    n: paddle.Tensor,
    gradient: paddle.Tensor,
    rate: paddle.Tensor,
    l1: float,
    l2: float,
    lr_power: float,
) -> Tensors:
    w, n, z = _C_ops.ftrl(w, n, z, gradient, rate, l1, l2, lr_power)
    return w, z, n


OPERATIONS = {"decayed_adagrad": Operation(decayed_adagrad, ("n",)), "ftrl": Operation(ftrl, ("z", "n"))}
FLOAT = ("float32",)


def default(name: str, **chosen: float) -> Case:
    """The case of a function's own defaults, but for those chosen."""
    parameters = inspect.signature(FUNCTIONS[name].optimizer).parameters.values()
    given = {p.name: p.default for p in parameters} | chosen
    if "etas" in given:  # of Rprop, whose rate is a start
        given |= zip((*RANGE, *ETAS), (*given["learning_rate_range"], *given["etas"]), strict=True)
        given["initial_step"], given["learning_rate"] = given["learning_rate"], 1.0
    return Case(name, given["learning_rate"], {option: given[option] for option in FUNCTIONS[name].options})


def by_type(case: Case) -> list[Case]:
    """The same in float64 with numbers of float32.

    An option that is a number of float to the operation is not so where Python keeps the powers of beta.
    """
    rounded = {option: float(np.float32(value)) for option, value in case.options.items()}
    return [replace(case, dtypes=FLOAT), replace(case, options=rounded, dtypes=("float64",))]


# For each function its defaults come first; Paddle's momentum in RMSProp is 0, which is another function here, and
# Adagrad and RMSProp have no rate of their own. The operations without a class know float32 only.
OTHER_ROOT = {"rho": 0.75, "epsilon": 1e-3}
OTHER_ADAM = {"beta1": 0.75, "beta2": 0.9375, "epsilon": 1e-3}
CASES = [
    default("sgd"),
    Case("sgd", 0.25, later_lr=0.0625),
    default("momentum"),
    Case("momentum", 0.25, {"momentum": 0.5}, later_lr=0.0625),
    default("momentum_nesterov"),
    Case("momentum_nesterov", 0.25, {"momentum": 0.5}, later_lr=0.0625),
    default("adagrad", learning_rate=0.01),
    Case("adagrad", 0.25, {"epsilon": 1e-3, "initial_accumulator_value": 0.125}, later_lr=0.0625),
    Case("decayed_adagrad", 0.01, {"decay": 0.95, "epsilon": 1e-6}, dtypes=FLOAT),
    Case("decayed_adagrad", 0.25, {"decay": 0.75, "epsilon": 1e-3}, later_lr=0.0625, dtypes=FLOAT),
    default("adadelta"),
    Case("adadelta", 1.0, {"rho": 0.875, "epsilon": 1e-3}, later_lr=0.5),
    default("rmsprop", learning_rate=0.01),
    Case("rmsprop", 0.25, OTHER_ROOT, later_lr=0.0625),
    default("rmsprop_centered", learning_rate=0.01),
    Case("rmsprop_centered", 0.25, OTHER_ROOT, later_lr=0.0625),
    default("rmsprop_momentum", learning_rate=0.01, momentum=0.9),
    Case("rmsprop_momentum", 0.25, OTHER_ROOT | {"momentum": 0.5}, later_lr=0.0625),
    default("rmsprop_centered_momentum", learning_rate=0.01, momentum=0.9),
    Case("rmsprop_centered_momentum", 0.25, OTHER_ROOT | {"momentum": 0.5}, later_lr=0.0625),
    default("adam"),
    Case("adam", 0.25, OTHER_ADAM, later_lr=0.0625),
    default("adam_amsgrad"),
    Case("adam_amsgrad", 0.25, OTHER_ADAM, later_lr=0.0625),
    default("adamw", weight_decay=0.015625),  # not Paddle's 0.01, which is no number of float
    Case("adamw", 0.25, OTHER_ADAM | {"weight_decay": 0.5}, later_lr=0.0625),
    default("adamw_amsgrad", weight_decay=0.015625),
    Case("adamw_amsgrad", 0.25, OTHER_ADAM | {"weight_decay": 0.5}, later_lr=0.0625),
    *by_type(default("adamax")),
    Case("adamax", 0.25, OTHER_ADAM, later_lr=0.0625),
    default("nadam"),
    Case("nadam", 0.25, OTHER_ADAM | {"momentum_decay": 0.25}, later_lr=0.0625),
    default("radam"),
    Case("radam", 0.25, OTHER_ADAM, later_lr=0.0625),
    *by_type(default("lamb")),
    Case("lamb", 0.25, OTHER_ADAM | {"lamb_weight_decay": 0.5}, later_lr=0.0625),
    Case("ftrl", 0.01, {"l1": 0.0, "l2": 0.0, "lr_power": -0.5}, dtypes=FLOAT),
    Case("ftrl", 0.25, {"l1": 0.125, "l2": 0.0625, "lr_power": -0.5}, later_lr=0.125, dtypes=FLOAT),
    Case("ftrl", 0.25, {"l1": 0.5, "l2": 0.0, "lr_power": -0.75}, later_lr=0.125, dtypes=FLOAT),
    # Windows of 10 000 steps; of 4, the last of which closes; of 1 and then 8. Where rate * step is not a whole number,
    # Paddle rounds it down, and closes windows earlier than gradstep.
    Case("sgd_model_average", 0.001, dict(zip(WINDOW, (0.15, 10_000, 10_000), strict=True))),
    Case("sgd_model_average", 0.25, dict(zip(WINDOW, (0.5, 4, 4), strict=True)), later_lr=0.0625),
    Case("sgd_model_average", 0.25, dict(zip(WINDOW, (1.0, 1, 8), strict=True)), later_lr=0.0625),
    default("rprop"),
    Case("rprop", 1.0, {"initial_step": 0.1} | dict(zip((*RANGE, *ETAS), (0.05, 0.3, 0.3, 1.5), strict=True))),
]


def run_operation(case: Case, weights: np.ndarray, gradients: np.ndarray) -> Iterator[State]:
    operation = OPERATIONS[case.name]
    tensors: Tensors = tuple(map(paddle.to_tensor, (weights, *(np.zeros_like(weights) for _ in operation.slots))))

    def state() -> State:
        return {slot: x.numpy().copy() for slot, x in zip(("w", *operation.slots), tensors, strict=True)}

    yield state()
    for rate, gradient in zip(case.rates(), gradients, strict=True):
        scalars = paddle.to_tensor(gradient), paddle.to_tensor([rate], dtype=weights.dtype.name)
        tensors = operation.apply(*tensors, *scalars, **case.options)
        yield state()


def run_optimizer(case: Case, weights: np.ndarray, gradients: np.ndarray) -> Iterator[State]:
    function = FUNCTIONS[case.name]
    variable = paddle.base.framework.EagerParamBase.from_tensor(paddle.to_tensor(weights))
    options = {name: value for name, value in case.options.items() if name not in WINDOW}
    rate = options.pop("initial_step", case.lr)
    if "eta_minus" in options:
        options["learning_rate_range"] = tuple(options.pop(name) for name in RANGE)
        options["etas"] = tuple(options.pop(name) for name in ETAS)
    optimizer = function.optimizer(learning_rate=rate, parameters=[variable], **function.switches, **options)
    window = {name: case.options[name] for name in WINDOW if name in case.options}
    average = ModelAverage(**window, parameters=[variable]) if window else None
    keeper = average or optimizer
    keeper._create_accumulators(paddle.base.default_main_program().global_block(), [variable])

    def state() -> State:
        slots = {ours: keeper._get_accumulator(theirs, variable) for ours, theirs in function.slots.items()}
        out = {slot: x.numpy().copy() for slot, x in ({"w": variable} | slots).items()}
        # Of other types Paddle's average is float32 as well; of no step it is 0 / 0.
        if average and variable.grad is not None and weights.dtype == np.float32:
            with average.apply():
                out["average"] = variable.numpy().copy()
        return out

    yield state()
    for rate, gradient in zip(case.rates(), gradients, strict=True):
        optimizer.set_lr(rate)
        variable.grad = paddle.to_tensor(gradient)
        optimizer.step()
        if average:
            average.step()
        yield state()


def run(case: Case, weights: np.ndarray, gradients: np.ndarray) -> Iterator[State]:
    paddle.set_default_dtype(weights.dtype.name)  # in which optimizers keep the rate
    return (run_operation if case.name in OPERATIONS else run_optimizer)(case, weights, gradients)


if __name__ == "__main__":
    paddle.set_device("cpu")
    write("paddle", f"paddlepaddle {paddle.__version__}", CASES, run)
