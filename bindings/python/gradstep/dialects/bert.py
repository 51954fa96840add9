# Written by bindings/python/write_constructors.py from docs/reference/configuration.schema.json.
"""Configurations by the names of bert: its arguments, defaults and numbers, a dialect of gradstep (docs/reference/presets.md#bert)."""

from __future__ import annotations

from typing import Any, TYPE_CHECKING

from .._constructors import Options, Rate, configuration

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "adam_weight_decay",
    "bert_adam",
]


def adam_weight_decay(
    lr: Rate,
    *,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-06,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adam_weight_decay with the arguments, defaults and numbers of bert (docs/reference/presets.md#bert).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta_1: decay of the first moment, per step (>= 0 and < 1).
    beta_2: decay of the second moment, per step (>= 0 and < 1).
    epsilon: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "bert",
            "name": "adam_weight_decay",
            "beta_1": beta_1,
            "beta_2": beta_2,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def bert_adam(
    lr: Rate,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    e: float = 1e-06,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """bert_adam with the arguments, defaults and numbers of bert (docs/reference/presets.md#bert).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    b1: decay of the first moment, per step (>= 0 and < 1).
    b2: decay of the second moment, per step (>= 0 and < 1).
    e: what is added to the root in the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "bert", "name": "bert_adam", "b1": b1, "b2": b2, "e": e}, lr, options)
