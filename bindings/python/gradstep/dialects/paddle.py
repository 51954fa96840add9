# Written by bindings/python/write_constructors.py from docs/reference/configuration.schema.json.
"""Configurations by the names of paddle: its arguments, defaults and numbers, a dialect of gradstep (docs/reference/presets.md#paddle)."""

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
    "decayed_adagrad",
    "ftrl",
    "lamb",
    "momentum",
    "momentum_nesterov",
    "nadam",
    "radam",
    "rmsprop",
    "rmsprop_centered",
    "rmsprop_centered_momentum",
    "rmsprop_momentum",
    "rprop",
    "sgd",
]


def adadelta(lr: Rate, *, epsilon: float = 1e-06, rho: float = 0.95, **options: Unpack[Options]) -> dict[str, Any]:
    """adadelta with the arguments, defaults and numbers of paddle (docs/reference/presets.md#paddle).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    epsilon: added to the divisor (>= 0).
    rho: decay of the average of the squared gradient, per step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "paddle", "name": "adadelta", "epsilon": epsilon, "rho": rho}, lr, options)


def adagrad(
    lr: Rate,
    *,
    epsilon: float = 1e-06,
    initial_accumulator_value: float = 0.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adagrad with the arguments, defaults and numbers of paddle (docs/reference/presets.md#paddle).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    epsilon: added to the divisor (>= 0).
    initial_accumulator_value: sum of squares before the first step (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "paddle",
            "name": "adagrad",
            "epsilon": epsilon,
            "initial_accumulator_value": initial_accumulator_value,
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
    """adam with the arguments, defaults and numbers of paddle (docs/reference/presets.md#paddle).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "paddle",
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
    epsilon: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adam_amsgrad with the arguments, defaults and numbers of paddle (docs/reference/presets.md#paddle).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "paddle",
            "name": "adam_amsgrad",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def adamax(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adamax with the arguments, defaults and numbers of paddle (docs/reference/presets.md#paddle).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "paddle",
            "name": "adamax",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def adamw(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adamw with the arguments, defaults and numbers of paddle (docs/reference/presets.md#paddle).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "paddle",
            "name": "adamw",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def adamw_amsgrad(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adamw_amsgrad with the arguments, defaults and numbers of paddle (docs/reference/presets.md#paddle).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "paddle",
            "name": "adamw_amsgrad",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def decayed_adagrad(
    lr: Rate,
    *,
    decay: float = 0.95,
    epsilon: float = 1e-06,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """decayed_adagrad with the arguments, defaults and numbers of paddle (docs/reference/presets.md#paddle).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    decay: decay of the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "paddle",
            "name": "decayed_adagrad",
            "decay": decay,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def ftrl(
    lr: Rate,
    *,
    l1: float = 0.0,
    l2: float = 0.0,
    lr_power: float = -0.5,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """ftrl with the arguments, defaults and numbers of paddle (docs/reference/presets.md#paddle).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    l1: strength of the L1 penalty (>= 0).
    l2: strength of the L2 penalty (>= 0).
    lr_power: minus the power of the sum of squares in the divisor (<= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "paddle", "name": "ftrl", "l1": l1, "l2": l2, "lr_power": lr_power}, lr, options)


def lamb(
    lr: Rate,
    *,
    lamb_weight_decay: float = 0.01,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-06,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """lamb with the arguments, defaults and numbers of paddle (docs/reference/presets.md#paddle).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    lamb_weight_decay: weight decay, which is part of the norm (>= 0).
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "paddle",
            "name": "lamb",
            "lamb_weight_decay": lamb_weight_decay,
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def momentum(lr: Rate, *, momentum: float = 0.9, **options: Unpack[Options]) -> dict[str, Any]:
    """momentum with the arguments, defaults and numbers of paddle (docs/reference/presets.md#paddle).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "paddle", "name": "momentum", "momentum": momentum}, lr, options)


def momentum_nesterov(lr: Rate, *, momentum: float = 0.9, **options: Unpack[Options]) -> dict[str, Any]:
    """momentum_nesterov with the arguments, defaults and numbers of paddle
    (docs/reference/presets.md#paddle).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "paddle", "name": "momentum_nesterov", "momentum": momentum}, lr, options)


def nadam(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-08,
    momentum_decay: float = 0.004,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """nadam with the arguments, defaults and numbers of paddle (docs/reference/presets.md#paddle).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    momentum_decay: speed at which the momentum rises, per step (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "paddle",
            "name": "nadam",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
            "momentum_decay": momentum_decay,
        },
        lr,
        options,
    )


def radam(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """radam with the arguments, defaults and numbers of paddle (docs/reference/presets.md#paddle).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "paddle",
            "name": "radam",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def rmsprop(lr: Rate, *, rho: float = 0.95, epsilon: float = 1e-06, **options: Unpack[Options]) -> dict[str, Any]:
    """rmsprop with the arguments, defaults and numbers of paddle (docs/reference/presets.md#paddle).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    rho: decay of the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "paddle", "name": "rmsprop", "rho": rho, "epsilon": epsilon}, lr, options)


def rmsprop_centered(
    lr: Rate,
    *,
    rho: float = 0.95,
    epsilon: float = 1e-06,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """rmsprop_centered with the arguments, defaults and numbers of paddle (docs/reference/presets.md#paddle).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    rho: decay of the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "paddle",
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
    rho: float = 0.95,
    epsilon: float = 1e-06,
    momentum: float = 0.9,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """rmsprop_centered_momentum with the arguments, defaults and numbers of paddle
    (docs/reference/presets.md#paddle).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    rho: decay of the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "paddle",
            "name": "rmsprop_centered_momentum",
            "rho": rho,
            "epsilon": epsilon,
            "momentum": momentum,
        },
        lr,
        options,
    )


def rmsprop_momentum(
    lr: Rate,
    *,
    rho: float = 0.95,
    epsilon: float = 1e-06,
    momentum: float = 0.9,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """rmsprop_momentum with the arguments, defaults and numbers of paddle (docs/reference/presets.md#paddle).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    rho: decay of the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "paddle",
            "name": "rmsprop_momentum",
            "rho": rho,
            "epsilon": epsilon,
            "momentum": momentum,
        },
        lr,
        options,
    )


def rprop(
    lr: Rate,
    *,
    initial_step: float = 0.001,
    learning_rate_min: float = 1e-05,
    learning_rate_max: float = 50.0,
    eta_minus: float = 0.5,
    eta_plus: float = 1.2,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """rprop with the arguments, defaults and numbers of paddle (docs/reference/presets.md#paddle).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    initial_step: step size of every weight at the first step; the learning rate of the framework (> 0).
    learning_rate_min: lower limit of the step size (> 0).
    learning_rate_max: upper limit of the step size (> 0).
    eta_minus: factor of the step size when the gradient changes its sign (> 0 and < 1).
    eta_plus: factor of the step size when the gradient keeps its sign (>= 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "paddle",
            "name": "rprop",
            "initial_step": initial_step,
            "learning_rate_min": learning_rate_min,
            "learning_rate_max": learning_rate_max,
            "eta_minus": eta_minus,
            "eta_plus": eta_plus,
        },
        lr,
        options,
    )


def sgd(lr: Rate, **options: Unpack[Options]) -> dict[str, Any]:
    """sgd with the arguments, defaults and numbers of paddle (docs/reference/presets.md#paddle).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "paddle", "name": "sgd"}, lr, options)
