# Written by bindings/python/write_constructors.py from docs/reference/configuration.schema.json.
"""Configurations by the names of dynamicemb: its arguments, defaults and numbers, a dialect of gradstep (docs/reference/presets.md#dynamicemb)."""

from __future__ import annotations

from typing import Any, TYPE_CHECKING

from .._constructors import Options, Rate, configuration

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "adam",
    "exact_adagrad",
    "exact_rowwise_adagrad",
    "exact_sgd",
    "ftrl",
]


def adam(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adam with the arguments, defaults and numbers of dynamicemb (docs/reference/presets.md#dynamicemb).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "dynamicemb",
            "name": "adam",
            "beta1": beta1,
            "beta2": beta2,
            "eps": eps,
        },
        lr,
        options,
    )


def exact_adagrad(
    lr: Rate,
    *,
    eps: float = 1e-08,
    initial_accumulator_value: float = 0.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """exact_adagrad with the arguments, defaults and numbers of dynamicemb
    (docs/reference/presets.md#dynamicemb).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    eps: added to the divisor (>= 0).
    initial_accumulator_value: sum of squares before the first step (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "dynamicemb",
            "name": "exact_adagrad",
            "eps": eps,
            "initial_accumulator_value": initial_accumulator_value,
        },
        lr,
        options,
    )


def exact_rowwise_adagrad(
    lr: Rate,
    *,
    eps: float = 1e-08,
    initial_accumulator_value: float = 0.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """exact_rowwise_adagrad with the arguments, defaults and numbers of dynamicemb
    (docs/reference/presets.md#dynamicemb).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    eps: added to the divisor (>= 0).
    initial_accumulator_value: sum of squares before the first step (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "dynamicemb",
            "name": "exact_rowwise_adagrad",
            "eps": eps,
            "initial_accumulator_value": initial_accumulator_value,
        },
        lr,
        options,
    )


def exact_sgd(lr: Rate, **options: Unpack[Options]) -> dict[str, Any]:
    """exact_sgd with the arguments, defaults and numbers of dynamicemb
    (docs/reference/presets.md#dynamicemb).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "dynamicemb", "name": "exact_sgd"}, lr, options)


def ftrl(
    lr: Rate,
    *,
    learning_rate_power: float = -0.5,
    ftrl_beta: float = 0.0,
    initial_accumulator_value: float = 0.0,
    l1_reg: float = 0.0,
    l2_reg: float = 0.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """ftrl with the arguments, defaults and numbers of dynamicemb (docs/reference/presets.md#dynamicemb).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    learning_rate_power: minus the power of the sum of squares in the divisor (<= 0).
    ftrl_beta: added to the root of the sum of squares (>= 0).
    initial_accumulator_value: sum of squares before the first step (>= 0).
    l1_reg: strength of the L1 penalty (>= 0).
    l2_reg: strength of the L2 penalty (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "dynamicemb",
            "name": "ftrl",
            "learning_rate_power": learning_rate_power,
            "ftrl_beta": ftrl_beta,
            "initial_accumulator_value": initial_accumulator_value,
            "l1_reg": l1_reg,
            "l2_reg": l2_reg,
        },
        lr,
        options,
    )
