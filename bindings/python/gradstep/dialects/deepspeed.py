# Written by bindings/python/write_constructors.py from docs/reference/configuration.schema.json.
"""Configurations by the names of deepspeed: its arguments, defaults and numbers, a dialect of gradstep (docs/reference/presets.md#deepspeed)."""

from __future__ import annotations

from typing import Any, TYPE_CHECKING

from .._constructors import Options, Rate, configuration

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "cpu_adam",
    "fused_adam",
]


def cpu_adam(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    bias_correction: bool = True,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """cpu_adam with the arguments, defaults and numbers of deepspeed (docs/reference/presets.md#deepspeed).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    bias_correction: whether the averages are corrected for their beginning at 0.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "deepspeed",
            "name": "cpu_adam",
            "beta1": beta1,
            "beta2": beta2,
            "eps": eps,
            "bias_correction": bias_correction,
        },
        lr,
        options,
    )


def fused_adam(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    bias_correction: bool = True,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """fused_adam with the arguments, defaults and numbers of deepspeed (docs/reference/presets.md#deepspeed).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    bias_correction: whether the averages are corrected for their beginning at 0.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "deepspeed",
            "name": "fused_adam",
            "beta1": beta1,
            "beta2": beta2,
            "eps": eps,
            "bias_correction": bias_correction,
        },
        lr,
        options,
    )
