# Written by bindings/python/write_constructors.py from docs/reference/configuration.schema.json.
"""Averages of the values, the `average` of a configuration."""

from __future__ import annotations

from typing import Any

from ._constructors import Number, policy

__all__ = [
    "ema",
    "lookahead",
    "polyak",
    "towards_initial",
    "window",
]


def ema(*, decay: Number = 0.999, debias: bool = False, start: int = 0) -> dict[str, Any]:
    """The average `ema` (docs/how_to/averaging.md).

    decay: share of the average that remains after a step (>= 0 and < 1).
    debias: whether only weights after `start` count; otherwise the average starts from the weights.
    start: steps before the average begins; until then it equals the weights (>= 0).
    """
    return policy({"name": "ema", "decay": decay, "debias": debias, "start": start})


def lookahead(*, period: int = 5, alpha: Number = 0.5) -> dict[str, Any]:
    """The average `lookahead` (docs/how_to/averaging.md).

    period: steps after which the weights return to the slow weights (>= 1).
    alpha: share of the way to the weights that the slow weights go at the end of a period (> 0 and <= 1).
    """
    return policy({"name": "lookahead", "period": period, "alpha": alpha})


def polyak(*, start: int = 0) -> dict[str, Any]:
    """The average `polyak` (docs/how_to/averaging.md).

    start: steps before the average begins; until then it equals the weights (>= 0).
    """
    return policy({"name": "polyak", "start": start})


def towards_initial(rate: Number) -> dict[str, Any]:
    """The average `towards_initial` (docs/how_to/averaging.md).

    rate: strength: after the step, moves the weight by lr * rate of the way to its initial value (>= 0).
    """
    return policy({"name": "towards_initial", "rate": rate})


def window(rate: float, *, min: int = 10000, max: int = 10000) -> dict[str, Any]:
    """The average `window` (docs/how_to/averaging.md).

    rate: length of the window as a share of the steps so far (> 0 and <= 1).
    min: least length of the window, in steps (>= 1).
    max: greatest length of the window, in steps (>= 1).
    """
    return policy({"name": "window", "rate": rate, "min": min, "max": max})
