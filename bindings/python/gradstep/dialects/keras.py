# Written by bindings/python/write_constructors.py from docs/reference/configuration.schema.json.
"""Configurations by the names of keras: its arguments, defaults and numbers, a dialect of gradstep (docs/reference/presets.md#keras)."""

from __future__ import annotations

from typing import Any, TYPE_CHECKING

from .._constructors import Options, Rate, configuration

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "adadelta",
    "adagrad",
    "adam",
    "adam_amsgrad",
    "adamax",
    "adamw",
    "adamw_amsgrad",
    "ftrl",
    "lamb",
    "lion",
    "nadam",
    "rmsprop",
    "rmsprop_centered",
    "rmsprop_centered_momentum",
    "rmsprop_momentum",
    "sgd",
    "sgd_momentum",
    "sgd_nesterov",
]


def adadelta(lr: Rate, *, rho: float = 0.95, epsilon: float = 1e-07, **options: Unpack[Options]) -> dict[str, Any]:
    """adadelta with the arguments, defaults and numbers of keras (docs/reference/presets.md#keras).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    rho: decay of the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "keras", "name": "adadelta", "rho": rho, "epsilon": epsilon}, lr, options)


def adagrad(
    lr: Rate,
    *,
    initial_accumulator_value: float = 0.1,
    epsilon: float = 1e-07,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adagrad with the arguments, defaults and numbers of keras (docs/reference/presets.md#keras).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    initial_accumulator_value: sum of squares before the first step (>= 0).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "keras",
            "name": "adagrad",
            "initial_accumulator_value": initial_accumulator_value,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def adam(
    lr: Rate,
    *,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-07,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adam with the arguments, defaults and numbers of keras (docs/reference/presets.md#keras).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta_1: decay of the first moment, per step (>= 0 and < 1).
    beta_2: decay of the second moment, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "keras",
            "name": "adam",
            "beta_1": beta_1,
            "beta_2": beta_2,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def adam_amsgrad(
    lr: Rate,
    *,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-07,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adam_amsgrad with the arguments, defaults and numbers of keras (docs/reference/presets.md#keras).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta_1: decay of the first moment, per step (>= 0 and < 1).
    beta_2: decay of the second moment, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "keras",
            "name": "adam_amsgrad",
            "beta_1": beta_1,
            "beta_2": beta_2,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def adamax(
    lr: Rate,
    *,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-07,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adamax with the arguments, defaults and numbers of keras (docs/reference/presets.md#keras).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta_1: decay of the first moment, per step (>= 0 and < 1).
    beta_2: decay of the second moment, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "keras",
            "name": "adamax",
            "beta_1": beta_1,
            "beta_2": beta_2,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def adamw(
    lr: Rate,
    *,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-07,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adamw with the arguments, defaults and numbers of keras (docs/reference/presets.md#keras).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta_1: decay of the first moment, per step (>= 0 and < 1).
    beta_2: decay of the second moment, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "keras",
            "name": "adamw",
            "beta_1": beta_1,
            "beta_2": beta_2,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def adamw_amsgrad(
    lr: Rate,
    *,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-07,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adamw_amsgrad with the arguments, defaults and numbers of keras (docs/reference/presets.md#keras).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta_1: decay of the first moment, per step (>= 0 and < 1).
    beta_2: decay of the second moment, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "keras",
            "name": "adamw_amsgrad",
            "beta_1": beta_1,
            "beta_2": beta_2,
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
    """ftrl with the arguments, defaults and numbers of keras (docs/reference/presets.md#keras).

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
            "dialect": "keras",
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


def lamb(
    lr: Rate,
    *,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-07,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """lamb with the arguments, defaults and numbers of keras (docs/reference/presets.md#keras).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta_1: decay of the first moment, per step (>= 0 and < 1).
    beta_2: decay of the second moment, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "keras",
            "name": "lamb",
            "beta_1": beta_1,
            "beta_2": beta_2,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def lion(lr: Rate, *, beta_1: float = 0.9, beta_2: float = 0.99, **options: Unpack[Options]) -> dict[str, Any]:
    """lion with the arguments, defaults and numbers of keras (docs/reference/presets.md#keras).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta_1: decay of the first moment, per step (> 0 and < 1).
    beta_2: decay of the second moment, per step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "keras", "name": "lion", "beta_1": beta_1, "beta_2": beta_2}, lr, options)


def nadam(
    lr: Rate,
    *,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-07,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """nadam with the arguments, defaults and numbers of keras (docs/reference/presets.md#keras).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta_1: decay of the first moment, per step (>= 0 and < 1).
    beta_2: decay of the second moment, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "keras",
            "name": "nadam",
            "beta_1": beta_1,
            "beta_2": beta_2,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def rmsprop(lr: Rate, *, rho: float = 0.9, epsilon: float = 1e-07, **options: Unpack[Options]) -> dict[str, Any]:
    """rmsprop with the arguments, defaults and numbers of keras (docs/reference/presets.md#keras).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    rho: decay of the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "keras", "name": "rmsprop", "rho": rho, "epsilon": epsilon}, lr, options)


def rmsprop_centered(
    lr: Rate,
    *,
    rho: float = 0.9,
    epsilon: float = 1e-07,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """rmsprop_centered with the arguments, defaults and numbers of keras (docs/reference/presets.md#keras).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    rho: decay of the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "keras",
            "name": "rmsprop_centered",
            "rho": rho,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def rmsprop_centered_momentum(
    lr: Rate,
    *,
    rho: float = 0.9,
    momentum: float = 0.9,
    epsilon: float = 1e-07,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """rmsprop_centered_momentum with the arguments, defaults and numbers of keras
    (docs/reference/presets.md#keras).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    rho: decay of the average of the squared gradient, per step (>= 0 and < 1).
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "keras",
            "name": "rmsprop_centered_momentum",
            "rho": rho,
            "momentum": momentum,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def rmsprop_momentum(
    lr: Rate,
    *,
    rho: float = 0.9,
    momentum: float = 0.9,
    epsilon: float = 1e-07,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """rmsprop_momentum with the arguments, defaults and numbers of keras (docs/reference/presets.md#keras).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    rho: decay of the average of the squared gradient, per step (>= 0 and < 1).
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "keras",
            "name": "rmsprop_momentum",
            "rho": rho,
            "momentum": momentum,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def sgd(lr: Rate, **options: Unpack[Options]) -> dict[str, Any]:
    """sgd with the arguments, defaults and numbers of keras (docs/reference/presets.md#keras).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "keras", "name": "sgd"}, lr, options)


def sgd_momentum(lr: Rate, *, momentum: float = 0.9, **options: Unpack[Options]) -> dict[str, Any]:
    """sgd_momentum with the arguments, defaults and numbers of keras (docs/reference/presets.md#keras).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "keras", "name": "sgd_momentum", "momentum": momentum}, lr, options)


def sgd_nesterov(lr: Rate, *, momentum: float = 0.9, **options: Unpack[Options]) -> dict[str, Any]:
    """sgd_nesterov with the arguments, defaults and numbers of keras (docs/reference/presets.md#keras).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "keras", "name": "sgd_nesterov", "momentum": momentum}, lr, options)
