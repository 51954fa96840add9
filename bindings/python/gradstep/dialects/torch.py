# Written by bindings/python/write_constructors.py from docs/reference/configuration.schema.json.
"""Configurations by the names of torch: its arguments, defaults and numbers, a dialect of gradstep (docs/reference/presets.md#torch)."""

from __future__ import annotations

from typing import Any, TYPE_CHECKING

from .._constructors import Options, Rate, configuration

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "adam_amsgrad",
    "adamax",
    "adamw",
    "adamw_amsgrad",
    "nadam",
    "radam",
    "rmsprop",
    "rmsprop_centered",
    "rmsprop_centered_momentum",
    "rmsprop_momentum",
    "rprop",
    "sgd",
    "sgd_momentum",
    "sgd_nesterov",
    "sparse_adam",
]


def adadelta(lr: Rate, *, rho: float = 0.9, eps: float = 1e-06, **options: Unpack[Options]) -> dict[str, Any]:
    """adadelta with the arguments, defaults and numbers of torch (docs/reference/presets.md#torch).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    rho: decay of the average of the squared gradient, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "torch", "name": "adadelta", "rho": rho, "eps": eps}, lr, options)


def adafactor(
    lr: Rate,
    *,
    beta2_decay: float = -0.8,
    eps1: float = 1.1920928955078125e-07,
    eps2: float = 0.001,
    d: float = 1.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adafactor with the arguments, defaults and numbers of torch (docs/reference/presets.md#torch).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta2_decay: power of the step's number that is the share of a new squared gradient in its average (<= 0).
    eps1: lower bound of the root by which the gradient is divided, and of the mean over rows (>= 0).
    eps2: least size of the weights by which the step is scaled (>= 0).
    d: largest root mean square of the divided gradient; larger ones are scaled down to it (>= 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "torch",
            "name": "adafactor",
            "beta2_decay": beta2_decay,
            "eps1": eps1,
            "eps2": eps2,
            "d": d,
        },
        lr,
        options,
    )


def adagrad(
    lr: Rate,
    *,
    initial_accumulator_value: float = 0.0,
    eps: float = 1e-10,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adagrad with the arguments, defaults and numbers of torch (docs/reference/presets.md#torch).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    initial_accumulator_value: sum of squares before the first step (>= 0).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "torch",
            "name": "adagrad",
            "initial_accumulator_value": initial_accumulator_value,
            "eps": eps,
        },
        lr,
        options,
    )


def adam(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adam with the arguments, defaults and numbers of torch (docs/reference/presets.md#torch).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "torch",
            "name": "adam",
            "beta1": beta1,
            "beta2": beta2,
            "eps": eps,
        },
        lr,
        options,
    )


def adam_amsgrad(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adam_amsgrad with the arguments, defaults and numbers of torch (docs/reference/presets.md#torch).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "torch",
            "name": "adam_amsgrad",
            "beta1": beta1,
            "beta2": beta2,
            "eps": eps,
        },
        lr,
        options,
    )


def adamax(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adamax with the arguments, defaults and numbers of torch (docs/reference/presets.md#torch).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "torch",
            "name": "adamax",
            "beta1": beta1,
            "beta2": beta2,
            "eps": eps,
        },
        lr,
        options,
    )


def adamw(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adamw with the arguments, defaults and numbers of torch (docs/reference/presets.md#torch).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "torch",
            "name": "adamw",
            "beta1": beta1,
            "beta2": beta2,
            "eps": eps,
        },
        lr,
        options,
    )


def adamw_amsgrad(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adamw_amsgrad with the arguments, defaults and numbers of torch (docs/reference/presets.md#torch).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "torch",
            "name": "adamw_amsgrad",
            "beta1": beta1,
            "beta2": beta2,
            "eps": eps,
        },
        lr,
        options,
    )


def nadam(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    momentum_decay: float = 0.004,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """nadam with the arguments, defaults and numbers of torch (docs/reference/presets.md#torch).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    momentum_decay: speed at which the momentum rises, per step (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "torch",
            "name": "nadam",
            "beta1": beta1,
            "beta2": beta2,
            "eps": eps,
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
    eps: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """radam with the arguments, defaults and numbers of torch (docs/reference/presets.md#torch).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "torch",
            "name": "radam",
            "beta1": beta1,
            "beta2": beta2,
            "eps": eps,
        },
        lr,
        options,
    )


def rmsprop(lr: Rate, *, alpha: float = 0.99, eps: float = 1e-08, **options: Unpack[Options]) -> dict[str, Any]:
    """rmsprop with the arguments, defaults and numbers of torch (docs/reference/presets.md#torch).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    alpha: decay of the average of the squared gradient, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "torch", "name": "rmsprop", "alpha": alpha, "eps": eps}, lr, options)


def rmsprop_centered(
    lr: Rate,
    *,
    alpha: float = 0.99,
    eps: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """rmsprop_centered with the arguments, defaults and numbers of torch (docs/reference/presets.md#torch).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    alpha: decay of the average of the squared gradient, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "torch", "name": "rmsprop_centered", "alpha": alpha, "eps": eps}, lr, options)


def rmsprop_centered_momentum(
    lr: Rate,
    *,
    alpha: float = 0.99,
    eps: float = 1e-08,
    momentum: float = 0.9,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """rmsprop_centered_momentum with the arguments, defaults and numbers of torch
    (docs/reference/presets.md#torch).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    alpha: decay of the average of the squared gradient, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "torch",
            "name": "rmsprop_centered_momentum",
            "alpha": alpha,
            "eps": eps,
            "momentum": momentum,
        },
        lr,
        options,
    )


def rmsprop_momentum(
    lr: Rate,
    *,
    alpha: float = 0.99,
    eps: float = 1e-08,
    momentum: float = 0.9,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """rmsprop_momentum with the arguments, defaults and numbers of torch (docs/reference/presets.md#torch).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    alpha: decay of the average of the squared gradient, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "torch",
            "name": "rmsprop_momentum",
            "alpha": alpha,
            "eps": eps,
            "momentum": momentum,
        },
        lr,
        options,
    )


def rprop(
    lr: Rate,
    *,
    initial_step: float = 0.01,
    etaminus: float = 0.5,
    etaplus: float = 1.2,
    step_size_min: float = 1e-06,
    step_size_max: float = 50.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """rprop with the arguments, defaults and numbers of torch (docs/reference/presets.md#torch).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    initial_step: step size of every weight at the first step; the learning rate of the framework (> 0).
    etaminus: factor of the step size when the gradient changes its sign (> 0 and < 1).
    etaplus: factor of the step size when the gradient keeps its sign (>= 1).
    step_size_min: lower limit of the step size (>= 0).
    step_size_max: upper limit of the step size (> 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "torch",
            "name": "rprop",
            "initial_step": initial_step,
            "etaminus": etaminus,
            "etaplus": etaplus,
            "step_size_min": step_size_min,
            "step_size_max": step_size_max,
        },
        lr,
        options,
    )


def sgd(lr: Rate, **options: Unpack[Options]) -> dict[str, Any]:
    """sgd with the arguments, defaults and numbers of torch (docs/reference/presets.md#torch).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "torch", "name": "sgd"}, lr, options)


def sgd_momentum(
    lr: Rate,
    *,
    momentum: float = 0.9,
    dampening: float = 0.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """sgd_momentum with the arguments, defaults and numbers of torch (docs/reference/presets.md#torch).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    dampening: share of the gradient that does not enter the buffer (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "torch",
            "name": "sgd_momentum",
            "momentum": momentum,
            "dampening": dampening,
        },
        lr,
        options,
    )


def sgd_nesterov(lr: Rate, *, momentum: float = 0.9, **options: Unpack[Options]) -> dict[str, Any]:
    """sgd_nesterov with the arguments, defaults and numbers of torch (docs/reference/presets.md#torch).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    momentum: share of the buffer that remains after a step (> 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "torch", "name": "sgd_nesterov", "momentum": momentum}, lr, options)


def sparse_adam(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """sparse_adam with the arguments, defaults and numbers of torch (docs/reference/presets.md#torch).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (> 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "torch",
            "name": "sparse_adam",
            "beta1": beta1,
            "beta2": beta2,
            "eps": eps,
        },
        lr,
        options,
    )
