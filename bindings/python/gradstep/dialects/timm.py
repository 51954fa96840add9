# Written by bindings/python/write_constructors.py from docs/reference/configuration.schema.json.
"""Configurations by the names of timm: its arguments, defaults and numbers, a dialect of gradstep (docs/reference/presets.md#timm)."""

from __future__ import annotations

from typing import Any, TYPE_CHECKING

from .._constructors import Options, Rate, configuration

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "cadamw",
    "clion",
]


def cadamw(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """cadamw with the arguments, defaults and numbers of timm (docs/reference/presets.md#timm).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "timm",
            "name": "cadamw",
            "beta1": beta1,
            "beta2": beta2,
            "eps": eps,
        },
        lr,
        options,
    )


def clion(lr: Rate, *, beta1: float = 0.9, beta2: float = 0.99, **options: Unpack[Options]) -> dict[str, Any]:
    """clion with the arguments, defaults and numbers of timm (docs/reference/presets.md#timm).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, per step (>= 0 and < 1).
    beta2: decay of the second moment, per step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "timm", "name": "clion", "beta1": beta1, "beta2": beta2}, lr, options)
