# Written by bindings/python/write_constructors.py from docs/reference/configuration.schema.json.
"""Configurations by the names of tensorflow: its arguments, defaults and numbers, a dialect of gradstep (docs/reference/presets.md#tensorflow)."""

from __future__ import annotations

from typing import Any, TYPE_CHECKING

from .._constructors import Options, Rate, configuration

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "ada_max",
    "adadelta",
    "adagrad",
    "adagrad_v2",
    "adam",
    "adam_amsgrad",
    "adam_nesterov",
    "ftrl",
    "gradient_descent",
    "keras_momentum",
    "keras_momentum_nesterov",
    "momentum",
    "momentum_nesterov",
    "proximal_adagrad",
    "rmsprop",
    "rmsprop_centered",
    "rmsprop_centered_momentum",
    "rmsprop_momentum",
]


def ada_max(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-07,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """ada_max with the arguments, defaults and numbers of tensorflow (docs/reference/presets.md#tensorflow).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "tensorflow",
            "name": "ada_max",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def adadelta(lr: Rate, *, rho: float = 0.95, epsilon: float = 1e-08, **options: Unpack[Options]) -> dict[str, Any]:
    """adadelta with the arguments, defaults and numbers of tensorflow (docs/reference/presets.md#tensorflow).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    rho: decay of the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "tensorflow", "name": "adadelta", "rho": rho, "epsilon": epsilon}, lr, options)


def adagrad(lr: Rate, *, initial_accumulator_value: float = 0.1, **options: Unpack[Options]) -> dict[str, Any]:
    """adagrad with the arguments, defaults and numbers of tensorflow (docs/reference/presets.md#tensorflow).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    initial_accumulator_value: sum of squares before the first step (> 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "tensorflow",
            "name": "adagrad",
            "initial_accumulator_value": initial_accumulator_value,
        },
        lr,
        options,
    )


def adagrad_v2(
    lr: Rate,
    *,
    initial_accumulator_value: float = 0.1,
    epsilon: float = 1e-07,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adagrad_v2 with the arguments, defaults and numbers of tensorflow
    (docs/reference/presets.md#tensorflow).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    initial_accumulator_value: sum of squares before the first step (>= 0).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "tensorflow",
            "name": "adagrad_v2",
            "initial_accumulator_value": initial_accumulator_value,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def adam(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adam with the arguments, defaults and numbers of tensorflow (docs/reference/presets.md#tensorflow).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "tensorflow",
            "name": "adam",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def adam_amsgrad(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-07,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adam_amsgrad with the arguments, defaults and numbers of tensorflow
    (docs/reference/presets.md#tensorflow).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "tensorflow",
            "name": "adam_amsgrad",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def adam_nesterov(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adam_nesterov with the arguments, defaults and numbers of tensorflow
    (docs/reference/presets.md#tensorflow).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "tensorflow",
            "name": "adam_nesterov",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def ftrl(
    lr: Rate,
    *,
    learning_rate_power: float = -0.5,
    initial_accumulator_value: float = 0.1,
    l1_regularization_strength: float = 0.0,
    l2_regularization_strength: float = 0.0,
    l2_shrinkage_regularization_strength: float = 0.0,
    beta: float = 0.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """ftrl with the arguments, defaults and numbers of tensorflow (docs/reference/presets.md#tensorflow).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    learning_rate_power: minus the power of the sum of squares in the divisor (<= 0).
    initial_accumulator_value: sum of squares before the first step (>= 0).
    l1_regularization_strength: strength of the L1 penalty (>= 0).
    l2_regularization_strength: strength of the L2 penalty (>= 0).
    l2_shrinkage_regularization_strength: L2 penalty that enters the gradient only (>= 0).
    beta: added to the root of the sum of squares (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "tensorflow",
            "name": "ftrl",
            "learning_rate_power": learning_rate_power,
            "initial_accumulator_value": initial_accumulator_value,
            "l1_regularization_strength": l1_regularization_strength,
            "l2_regularization_strength": l2_regularization_strength,
            "l2_shrinkage_regularization_strength": l2_shrinkage_regularization_strength,
            "beta": beta,
        },
        lr,
        options,
    )


def gradient_descent(lr: Rate, **options: Unpack[Options]) -> dict[str, Any]:
    """gradient_descent with the arguments, defaults and numbers of tensorflow
    (docs/reference/presets.md#tensorflow).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "tensorflow", "name": "gradient_descent"}, lr, options)


def keras_momentum(lr: Rate, *, momentum: float = 0.9, **options: Unpack[Options]) -> dict[str, Any]:
    """keras_momentum with the arguments, defaults and numbers of tensorflow
    (docs/reference/presets.md#tensorflow).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "tensorflow", "name": "keras_momentum", "momentum": momentum}, lr, options)


def keras_momentum_nesterov(lr: Rate, *, momentum: float = 0.9, **options: Unpack[Options]) -> dict[str, Any]:
    """keras_momentum_nesterov with the arguments, defaults and numbers of tensorflow
    (docs/reference/presets.md#tensorflow).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "tensorflow",
            "name": "keras_momentum_nesterov",
            "momentum": momentum,
        },
        lr,
        options,
    )


def momentum(lr: Rate, *, momentum: float = 0.9, **options: Unpack[Options]) -> dict[str, Any]:
    """momentum with the arguments, defaults and numbers of tensorflow (docs/reference/presets.md#tensorflow).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "tensorflow", "name": "momentum", "momentum": momentum}, lr, options)


def momentum_nesterov(lr: Rate, *, momentum: float = 0.9, **options: Unpack[Options]) -> dict[str, Any]:
    """momentum_nesterov with the arguments, defaults and numbers of tensorflow
    (docs/reference/presets.md#tensorflow).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "tensorflow", "name": "momentum_nesterov", "momentum": momentum}, lr, options)


def proximal_adagrad(
    lr: Rate,
    *,
    initial_accumulator_value: float = 0.1,
    l1_regularization_strength: float = 0.0,
    l2_regularization_strength: float = 0.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """proximal_adagrad with the arguments, defaults and numbers of tensorflow
    (docs/reference/presets.md#tensorflow).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    initial_accumulator_value: sum of squares before the first step (> 0).
    l1_regularization_strength: strength of the L1 penalty (>= 0).
    l2_regularization_strength: strength of the L2 penalty (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "tensorflow",
            "name": "proximal_adagrad",
            "initial_accumulator_value": initial_accumulator_value,
            "l1_regularization_strength": l1_regularization_strength,
            "l2_regularization_strength": l2_regularization_strength,
        },
        lr,
        options,
    )


def rmsprop(lr: Rate, *, decay: float = 0.9, epsilon: float = 1e-10, **options: Unpack[Options]) -> dict[str, Any]:
    """rmsprop with the arguments, defaults and numbers of tensorflow (docs/reference/presets.md#tensorflow).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    decay: decay of the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "tensorflow",
            "name": "rmsprop",
            "decay": decay,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def rmsprop_centered(
    lr: Rate,
    *,
    decay: float = 0.9,
    epsilon: float = 1e-10,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """rmsprop_centered with the arguments, defaults and numbers of tensorflow
    (docs/reference/presets.md#tensorflow).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    decay: decay of the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "tensorflow",
            "name": "rmsprop_centered",
            "decay": decay,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def rmsprop_centered_momentum(
    lr: Rate,
    *,
    decay: float = 0.9,
    momentum: float = 0.9,
    epsilon: float = 1e-10,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """rmsprop_centered_momentum with the arguments, defaults and numbers of tensorflow
    (docs/reference/presets.md#tensorflow).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    decay: decay of the average of the squared gradient, per step (>= 0 and < 1).
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "tensorflow",
            "name": "rmsprop_centered_momentum",
            "decay": decay,
            "momentum": momentum,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def rmsprop_momentum(
    lr: Rate,
    *,
    decay: float = 0.9,
    momentum: float = 0.9,
    epsilon: float = 1e-10,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """rmsprop_momentum with the arguments, defaults and numbers of tensorflow
    (docs/reference/presets.md#tensorflow).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    decay: decay of the average of the squared gradient, per step (>= 0 and < 1).
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "tensorflow",
            "name": "rmsprop_momentum",
            "decay": decay,
            "momentum": momentum,
            "epsilon": epsilon,
        },
        lr,
        options,
    )
