# Written by bindings/python/write_constructors.py from docs/reference/configuration.schema.json.
"""Weight decay, penalties and clips of elements, the `regularizer` of a configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ._constructors import Number, Policy, policy

__all__ = [
    "after_step",
    "all_of",
    "cautious_decay",
    "clamp_weight",
    "clip_value",
    "decoupled",
    "elastic_net",
    "l1",
    "l2",
    "none",
    "proximal",
    "zero_nonfinite",
]


def after_step(decay: Policy) -> dict[str, Any]:
    """The regularizer `after_step` (docs/reference/regularizers.md#after_step).

    decay: the weight decay that is applied after the step instead of before it (made by `decoupled`).
    """
    return policy({"name": "after_step", "decay": decay})


def all_of(regularizers: Sequence[Policy]) -> dict[str, Any]:
    """The regularizer `all_of` (docs/reference/regularizers.md#all_of).

    regularizers: the regularizers, applied in this order (each made by a function of `regularizers`).
    """
    return policy({"name": "all_of", "regularizers": regularizers})


def cautious_decay(rate: Number, *, scaled_by: Literal["learning_rate", "one"] = "learning_rate") -> dict[str, Any]:
    """The regularizer `cautious_decay` (docs/reference/regularizers.md#cautious_decay).

    rate: strength of the weight decay, for weights that the rule does not move away from zero (>= 0).
    scaled_by: factor of `rate`: the `learning_rate` of the step, or `one`.
    """
    return policy({"name": "cautious_decay", "rate": rate, "scaled_by": scaled_by})


def clamp_weight(low: Number, high: Number) -> dict[str, Any]:
    """The regularizer `clamp_weight` (docs/reference/regularizers.md#clamp_weight).

    low: smallest weight after a step; `-infinity` for no bound (any number, or -infinity).
    high: largest weight after a step; `infinity` for no bound (any number, or infinity).
    """
    return policy({"name": "clamp_weight", "low": low, "high": high})


def clip_value(limit: Number) -> dict[str, Any]:
    """The regularizer `clip_value` (docs/reference/regularizers.md#clip_value).

    limit: largest magnitude of an element of the gradient (> 0).
    """
    return policy({"name": "clip_value", "limit": limit})


def decoupled(rate: Number, *, scaled_by: Literal["learning_rate", "one"] = "learning_rate") -> dict[str, Any]:
    """The regularizer `decoupled` (docs/reference/regularizers.md#decoupled).

    rate: strength of the weight decay (>= 0).
    scaled_by: factor of `rate`: the `learning_rate` of the step, or `one`.
    """
    return policy({"name": "decoupled", "rate": rate, "scaled_by": scaled_by})


def elastic_net(l1: Number, l2: Number) -> dict[str, Any]:
    """The regularizer `elastic_net` (docs/reference/regularizers.md#elastic_net).

    l1: strength of the L1 part (>= 0).
    l2: strength of the L2 part (>= 0).
    """
    return policy({"name": "elastic_net", "l1": l1, "l2": l2})


def l1(rate: Number) -> dict[str, Any]:
    """The regularizer `l1` (docs/reference/regularizers.md#l1).

    rate: strength: adds rate * sign(w) to the gradient (>= 0).
    """
    return policy({"name": "l1", "rate": rate})


def l2(rate: Number) -> dict[str, Any]:
    """The regularizer `l2` (docs/reference/regularizers.md#l2).

    rate: strength: adds rate * w to the gradient (>= 0).
    """
    return policy({"name": "l2", "rate": rate})


def none() -> dict[str, Any]:
    """The regularizer `none` (docs/reference/regularizers.md#none)."""
    return policy({"name": "none"})


def proximal(penalty: Policy) -> dict[str, Any]:
    """The regularizer `proximal` (docs/reference/regularizers.md#proximal).

    penalty: the penalty that is applied to the weight after the step, with the learning rate as its threshold
        (made by `l1`, `l2`, `elastic_net`).
    """
    return policy({"name": "proximal", "penalty": penalty})


def zero_nonfinite() -> dict[str, Any]:
    """The regularizer `zero_nonfinite` (docs/reference/regularizers.md#zero_nonfinite)."""
    return policy({"name": "zero_nonfinite"})
