# Written by bindings/python/write_constructors.py from docs/reference/configuration.schema.json.
"""Configurations by the names of ensmallen: its arguments, defaults and numbers, a dialect of gradstep (docs/reference/presets.md#ensmallen)."""

from __future__ import annotations

from typing import Any, TYPE_CHECKING

from .._constructors import Options, Rate, configuration

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "ada_belief",
    "ada_delta",
    "ada_grad",
    "adam",
    "adamax",
    "amsgrad",
    "momentum_sgd",
    "nadam",
    "nesterov_momentum_sgd",
    "qhadam",
    "qhsgd",
    "rmsprop",
    "standard_sgd",
]


def ada_belief(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-12,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """ada_belief with the arguments, defaults and numbers of ensmallen (docs/reference/presets.md#ensmallen).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "ensmallen",
            "name": "ada_belief",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def ada_delta(lr: Rate, *, rho: float = 0.95, epsilon: float = 1e-06, **options: Unpack[Options]) -> dict[str, Any]:
    """ada_delta with the arguments, defaults and numbers of ensmallen (docs/reference/presets.md#ensmallen).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    rho: decay of the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "ensmallen", "name": "ada_delta", "rho": rho, "epsilon": epsilon}, lr, options)


def ada_grad(lr: Rate, *, epsilon: float = 1e-08, **options: Unpack[Options]) -> dict[str, Any]:
    """ada_grad with the arguments, defaults and numbers of ensmallen (docs/reference/presets.md#ensmallen).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "ensmallen", "name": "ada_grad", "epsilon": epsilon}, lr, options)


def adam(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adam with the arguments, defaults and numbers of ensmallen (docs/reference/presets.md#ensmallen).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "ensmallen",
            "name": "adam",
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
    """adamax with the arguments, defaults and numbers of ensmallen (docs/reference/presets.md#ensmallen).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "ensmallen",
            "name": "adamax",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def amsgrad(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """amsgrad with the arguments, defaults and numbers of ensmallen (docs/reference/presets.md#ensmallen).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "ensmallen",
            "name": "amsgrad",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def momentum_sgd(lr: Rate, *, momentum: float = 0.5, **options: Unpack[Options]) -> dict[str, Any]:
    """momentum_sgd with the arguments, defaults and numbers of ensmallen
    (docs/reference/presets.md#ensmallen).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "ensmallen", "name": "momentum_sgd", "momentum": momentum}, lr, options)


def nadam(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-08,
    schedule_decay: float = 0.004,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """nadam with the arguments, defaults and numbers of ensmallen (docs/reference/presets.md#ensmallen).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    schedule_decay: speed at which the momentum rises, per step (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "ensmallen",
            "name": "nadam",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
            "schedule_decay": schedule_decay,
        },
        lr,
        options,
    )


def nesterov_momentum_sgd(lr: Rate, *, momentum: float = 0.5, **options: Unpack[Options]) -> dict[str, Any]:
    """nesterov_momentum_sgd with the arguments, defaults and numbers of ensmallen
    (docs/reference/presets.md#ensmallen).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "ensmallen", "name": "nesterov_momentum_sgd", "momentum": momentum}, lr, options)


def qhadam(
    lr: Rate,
    *,
    v1: float = 0.7,
    v2: float = 1.0,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """qhadam with the arguments, defaults and numbers of ensmallen (docs/reference/presets.md#ensmallen).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    v1: share of the average of the gradient in a step; the rest is the gradient (>= 0 and <= 1).
    v2: share of the second moment under the root; the rest is the squared gradient (>= 0 and <= 1).
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "ensmallen",
            "name": "qhadam",
            "v1": v1,
            "v2": v2,
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def qhsgd(lr: Rate, *, v: float = 0.7, momentum: float = 0.999, **options: Unpack[Options]) -> dict[str, Any]:
    """qhsgd with the arguments, defaults and numbers of ensmallen (docs/reference/presets.md#ensmallen).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    v: share of the average in a step; the rest is the gradient (>= 0 and <= 1).
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "ensmallen", "name": "qhsgd", "v": v, "momentum": momentum}, lr, options)


def rmsprop(lr: Rate, *, alpha: float = 0.99, epsilon: float = 1e-08, **options: Unpack[Options]) -> dict[str, Any]:
    """rmsprop with the arguments, defaults and numbers of ensmallen (docs/reference/presets.md#ensmallen).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    alpha: decay of the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "ensmallen", "name": "rmsprop", "alpha": alpha, "epsilon": epsilon}, lr, options)


def standard_sgd(lr: Rate, **options: Unpack[Options]) -> dict[str, Any]:
    """standard_sgd with the arguments, defaults and numbers of ensmallen
    (docs/reference/presets.md#ensmallen).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "ensmallen", "name": "standard_sgd"}, lr, options)
