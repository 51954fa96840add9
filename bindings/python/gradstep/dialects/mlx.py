# Written by bindings/python/write_constructors.py from docs/reference/configuration.schema.json.
"""Configurations by the names of mlx: its arguments, defaults and numbers, a dialect of gradstep (docs/reference/presets.md#mlx)."""

from __future__ import annotations

from typing import Any, TYPE_CHECKING

from .._constructors import Options, Rate, configuration

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "adadelta",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "lion",
    "rmsprop",
    "sgd",
    "sgd_momentum",
    "sgd_nesterov",
]


def adadelta(lr: Rate, *, rho: float = 0.9, eps: float = 1e-06, **options: Unpack[Options]) -> dict[str, Any]:
    """adadelta with the arguments, defaults and numbers of mlx (docs/reference/presets.md#mlx).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    rho: decay of the average of the squared gradient, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "mlx", "name": "adadelta", "rho": rho, "eps": eps}, lr, options)


def adagrad(lr: Rate, *, eps: float = 1e-08, **options: Unpack[Options]) -> dict[str, Any]:
    """adagrad with the arguments, defaults and numbers of mlx (docs/reference/presets.md#mlx).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "mlx", "name": "adagrad", "eps": eps}, lr, options)


def adam(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    bias_correction: bool = False,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adam with the arguments, defaults and numbers of mlx (docs/reference/presets.md#mlx).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    bias_correction: whether the averages are corrected for their beginning at 0.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "mlx",
            "name": "adam",
            "beta1": beta1,
            "beta2": beta2,
            "eps": eps,
            "bias_correction": bias_correction,
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
    """adamax with the arguments, defaults and numbers of mlx (docs/reference/presets.md#mlx).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "mlx",
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
    bias_correction: bool = False,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adamw with the arguments, defaults and numbers of mlx (docs/reference/presets.md#mlx).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    bias_correction: whether the averages are corrected for their beginning at 0.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "mlx",
            "name": "adamw",
            "beta1": beta1,
            "beta2": beta2,
            "eps": eps,
            "bias_correction": bias_correction,
        },
        lr,
        options,
    )


def lion(lr: Rate, *, beta1: float = 0.9, beta2: float = 0.99, **options: Unpack[Options]) -> dict[str, Any]:
    """lion with the arguments, defaults and numbers of mlx (docs/reference/presets.md#mlx).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "mlx", "name": "lion", "beta1": beta1, "beta2": beta2}, lr, options)


def rmsprop(lr: Rate, *, alpha: float = 0.99, eps: float = 1e-08, **options: Unpack[Options]) -> dict[str, Any]:
    """rmsprop with the arguments, defaults and numbers of mlx (docs/reference/presets.md#mlx).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    alpha: decay of the average of the squared gradient, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "mlx", "name": "rmsprop", "alpha": alpha, "eps": eps}, lr, options)


def sgd(lr: Rate, **options: Unpack[Options]) -> dict[str, Any]:
    """sgd with the arguments, defaults and numbers of mlx (docs/reference/presets.md#mlx).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "mlx", "name": "sgd"}, lr, options)


def sgd_momentum(lr: Rate, *, momentum: float = 0.9, **options: Unpack[Options]) -> dict[str, Any]:
    """sgd_momentum with the arguments, defaults and numbers of mlx (docs/reference/presets.md#mlx).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "mlx", "name": "sgd_momentum", "momentum": momentum}, lr, options)


def sgd_nesterov(lr: Rate, *, momentum: float = 0.9, **options: Unpack[Options]) -> dict[str, Any]:
    """sgd_nesterov with the arguments, defaults and numbers of mlx (docs/reference/presets.md#mlx).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "mlx", "name": "sgd_nesterov", "momentum": momentum}, lr, options)
