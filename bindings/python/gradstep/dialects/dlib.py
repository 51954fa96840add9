# Written by bindings/python/write_constructors.py from docs/reference/configuration.schema.json.
"""Configurations by the names of dlib: its arguments, defaults and numbers, a dialect of gradstep (docs/reference/presets.md#dlib)."""

from __future__ import annotations

from typing import Any, TYPE_CHECKING

from .._constructors import Options, Rate, configuration

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "adam",
    "sgd",
]


def adam(lr: Rate, *, momentum1: float = 0.9, momentum2: float = 0.999, **options: Unpack[Options]) -> dict[str, Any]:
    """adam with the arguments, defaults and numbers of dlib (docs/reference/presets.md#dlib).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    momentum1: decay of the first moment, per step (>= 0 and < 1).
    momentum2: decay of the second moment, per step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "dlib",
            "name": "adam",
            "momentum1": momentum1,
            "momentum2": momentum2,
        },
        lr,
        options,
    )


def sgd(lr: Rate, *, momentum: float = 0.9, **options: Unpack[Options]) -> dict[str, Any]:
    """sgd with the arguments, defaults and numbers of dlib (docs/reference/presets.md#dlib).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "dlib", "name": "sgd", "momentum": momentum}, lr, options)
