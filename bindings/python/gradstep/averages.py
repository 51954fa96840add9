# Written by bindings/python/write_constructors.py from docs/reference/configuration.schema.json.
"""Averages of the values, the `average` of a configuration."""

from __future__ import annotations

from typing import Any

from ._constructors import policy

__all__ = [
    "ema",
    "polyak",
    "window",
]


def ema(*, decay: float = 0.999, debias: bool = False, start: int = 0) -> dict[str, Any]:
    """The average `ema` (docs/how_to/averaging.md).

    decay: >= 0 and < 1.
    start: >= 0.
    """
    return policy({"name": "ema", "decay": decay, "debias": debias, "start": start})


def polyak(*, start: int = 0) -> dict[str, Any]:
    """The average `polyak` (docs/how_to/averaging.md).

    start: >= 0.
    """
    return policy({"name": "polyak", "start": start})


def window(rate: float, *, min: int = 10000, max: int = 10000) -> dict[str, Any]:
    """The average `window` (docs/how_to/averaging.md).

    rate: > 0 and <= 1.
    min: >= 1.
    max: >= 1.
    """
    return policy({"name": "window", "rate": rate, "min": min, "max": max})
