# Written by bindings/python/write_constructors.py from docs/reference/configuration.schema.json.
"""Configurations by the names of fbgemm: its arguments, defaults and numbers, a dialect of gradstep (docs/reference/presets.md#fbgemm)."""

from __future__ import annotations

from typing import Any, TYPE_CHECKING

from .._constructors import Options, Rate, configuration

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "adam",
    "exact_adagrad",
    "exact_rowwise_adagrad",
    "exact_rowwise_adagrad_cowclip",
    "exact_sgd",
    "lamb",
    "lars_sgd",
    "partial_rowwise_adam",
    "rowwise_rmsprop_ar",
]


def adam(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adam with the arguments, defaults and numbers of fbgemm (docs/reference/presets.md#fbgemm).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "fbgemm",
            "name": "adam",
            "beta1": beta1,
            "beta2": beta2,
            "eps": eps,
        },
        lr,
        options,
    )


def exact_adagrad(lr: Rate, *, eps: float = 1e-08, **options: Unpack[Options]) -> dict[str, Any]:
    """exact_adagrad with the arguments, defaults and numbers of fbgemm (docs/reference/presets.md#fbgemm).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "fbgemm", "name": "exact_adagrad", "eps": eps}, lr, options)


def exact_rowwise_adagrad(lr: Rate, *, eps: float = 1e-08, **options: Unpack[Options]) -> dict[str, Any]:
    """exact_rowwise_adagrad with the arguments, defaults and numbers of fbgemm
    (docs/reference/presets.md#fbgemm).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "fbgemm", "name": "exact_rowwise_adagrad", "eps": eps}, lr, options)


def exact_rowwise_adagrad_cowclip(
    lr: Rate,
    *,
    counter_halflife: float = -1.0,
    weight_norm_coefficient: float = 0.0,
    lower_bound: float = 0.0,
    eps: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """exact_rowwise_adagrad_cowclip with the arguments, defaults and numbers of fbgemm
    (docs/reference/presets.md#fbgemm).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    counter_halflife: steps after which the count of a row's updates is halved; below 0: never; 0: the count
        is 1.
    weight_norm_coefficient: limit of the gradient's norm as a share of the weight's norm, for each counted
        update (>= 0).
    lower_bound: least value of that limit (>= 0).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "fbgemm",
            "name": "exact_rowwise_adagrad_cowclip",
            "counter_halflife": counter_halflife,
            "weight_norm_coefficient": weight_norm_coefficient,
            "lower_bound": lower_bound,
            "eps": eps,
        },
        lr,
        options,
    )


def exact_sgd(lr: Rate, **options: Unpack[Options]) -> dict[str, Any]:
    """exact_sgd with the arguments, defaults and numbers of fbgemm (docs/reference/presets.md#fbgemm).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "fbgemm", "name": "exact_sgd"}, lr, options)


def lamb(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    weight_decay: float = 0.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """lamb with the arguments, defaults and numbers of fbgemm (docs/reference/presets.md#fbgemm).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    weight_decay: weight decay, which is part of the norm (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "fbgemm",
            "name": "lamb",
            "beta1": beta1,
            "beta2": beta2,
            "eps": eps,
            "weight_decay": weight_decay,
        },
        lr,
        options,
    )


def lars_sgd(lr: Rate, *, eta: float = 0.001, momentum: float = 0.9, **options: Unpack[Options]) -> dict[str, Any]:
    """lars_sgd with the arguments, defaults and numbers of fbgemm (docs/reference/presets.md#fbgemm).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    eta: step length as a share of the weight's norm (> 0).
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "fbgemm", "name": "lars_sgd", "eta": eta, "momentum": momentum}, lr, options)


def partial_rowwise_adam(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """partial_rowwise_adam with the arguments, defaults and numbers of fbgemm
    (docs/reference/presets.md#fbgemm).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "fbgemm",
            "name": "partial_rowwise_adam",
            "beta1": beta1,
            "beta2": beta2,
            "eps": eps,
        },
        lr,
        options,
    )


def rowwise_rmsprop_ar(
    lr: Rate,
    *,
    ema_beta: float = 0.99,
    eps: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """rowwise_rmsprop_ar with the arguments, defaults and numbers of fbgemm
    (docs/reference/presets.md#fbgemm).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    ema_beta: decay of the average of the squared gradient, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "fbgemm",
            "name": "rowwise_rmsprop_ar",
            "ema_beta": ema_beta,
            "eps": eps,
        },
        lr,
        options,
    )
