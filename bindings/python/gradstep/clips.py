# Written by bindings/python/write_constructors.py from docs/reference/configuration.schema.json.
"""Gradient clipping, the `clip` of a configuration."""

from __future__ import annotations

from typing import Any

from ._constructors import policy

__all__ = [
    "clip_adaptive",
    "clip_global_norm",
    "clip_norm",
    "clip_value",
    "none",
]


def clip_adaptive(*, ratio: float = 0.01, epsilon: float = 0.001) -> dict[str, Any]:
    """The clip `clip_adaptive` (docs/how_to/configuration.md#clipping).

    ratio: largest norm of the gradient, as a multiple of the norm of the weights (> 0).
    epsilon: smallest norm of the weights that counts (>= 0).
    """
    return policy({"name": "clip_adaptive", "ratio": ratio, "epsilon": epsilon})


def clip_global_norm(limit: float) -> dict[str, Any]:
    """The clip `clip_global_norm` (docs/how_to/configuration.md#clipping).

    limit: largest Euclidean norm of all gradients of a step together (> 0).
    """
    return policy({"name": "clip_global_norm", "limit": limit})


def clip_norm(limit: float) -> dict[str, Any]:
    """The clip `clip_norm` (docs/how_to/configuration.md#clipping).

    limit: largest Euclidean norm of the gradient of a parameter (> 0).
    """
    return policy({"name": "clip_norm", "limit": limit})


def clip_value(limit: float) -> dict[str, Any]:
    """The clip `clip_value` (docs/how_to/configuration.md#clipping).

    limit: largest magnitude of an element of the gradient (> 0).
    """
    return policy({"name": "clip_value", "limit": limit})


def none() -> dict[str, Any]:
    """The clip `none` (docs/how_to/configuration.md#clipping)."""
    return policy({"name": "none"})
