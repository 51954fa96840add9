# Written by bindings/python/write_constructors.py from docs/reference/configuration.schema.json.
"""Schedules of the learning rate: `gradstep.adam(lr=schedules.cosine(1e-3, steps=1000))`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ._constructors import Policy, policy

__all__ = [
    "by_epochs",
    "by_samples",
    "chain",
    "clamped",
    "constant",
    "cosine",
    "cosine_restarts",
    "cyclic",
    "exponential",
    "external",
    "inverse_time",
    "linear",
    "natural_exp",
    "noam",
    "one_cycle",
    "piecewise",
    "poly",
    "polynomial",
    "scaled",
    "warmup",
    "warmup_stable_decay",
]


def by_epochs(inner: Policy) -> dict[str, Any]:
    """The schedule `by_epochs`: the rate at step t is inner at the samples or epochs of the clock
    (docs/reference/schedules.md#by_samples-by_epochs).

    inner: made by a function of `schedules`.
    """
    return policy({"name": "by_epochs", "inner": inner})


def by_samples(inner: Policy) -> dict[str, Any]:
    """The schedule `by_samples`: the rate at step t is inner at the samples or epochs of the clock
    (docs/reference/schedules.md#by_samples-by_epochs).

    inner: made by a function of `schedules`.
    """
    return policy({"name": "by_samples", "inner": inner})


def chain(schedules: Sequence[Policy], *, boundaries: Sequence[int] = ()) -> dict[str, Any]:
    """The schedule `chain`: the rate at step t is one schedule after the other
    (docs/reference/schedules.md#chain).

    schedules: each made by a function of `schedules`.
    boundaries: each >= 0.
    """
    return policy({"name": "chain", "schedules": schedules, "boundaries": boundaries})


def clamped(inner: Policy, low: float, high: float) -> dict[str, Any]:
    """The schedule `clamped`: the rate at step t is min(max(inner(t), low), high)
    (docs/reference/schedules.md#clamped).

    inner: made by a function of `schedules`.
    low: >= 0.
    high: >= 0.
    """
    return policy({"name": "clamped", "inner": inner, "low": low, "high": high})


def constant(rate: float) -> dict[str, Any]:
    """The schedule `constant`: the rate at step t is rate (docs/reference/schedules.md#constant).

    rate: >= 0.
    """
    return policy({"name": "constant", "rate": rate})


def cosine(rate: float, steps: int, *, end: float = 0.0) -> dict[str, Any]:
    """The schedule `cosine`: the rate at step t is end + (rate - end)/2 * (1 + cos(pi * min(t, steps)/steps))
    (docs/reference/schedules.md#cosine).

    rate: >= 0.
    steps: >= 1.
    end: >= 0.
    """
    return policy({"name": "cosine", "rate": rate, "steps": steps, "end": end})


def cosine_restarts(
    rate: float,
    steps: int,
    *,
    end: float = 0.0,
    multiply: float = 1.0,
    decay: float = 1.0,
) -> dict[str, Any]:
    """The schedule `cosine_restarts`: the rate at step t is a cosine that restarts
    (docs/reference/schedules.md#cosine_restarts).

    rate: >= 0.
    steps: >= 1.
    end: >= 0.
    multiply: >= 1.
    decay: >= 0.
    """
    return policy(
        {
            "name": "cosine_restarts",
            "rate": rate,
            "steps": steps,
            "end": end,
            "multiply": multiply,
            "decay": decay,
        }
    )


def cyclic(
    low: float,
    high: float,
    rise: int,
    fall: int,
    *,
    mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
    gamma: float = 1.0,
) -> dict[str, Any]:
    """The schedule `cyclic`: the rate at step t is a triangle wave (docs/reference/schedules.md#cyclic).

    low: >= 0.
    high: >= 0.
    rise: >= 1.
    fall: >= 1.
    gamma: > 0.
    """
    return policy(
        {
            "name": "cyclic",
            "low": low,
            "high": high,
            "rise": rise,
            "fall": fall,
            "mode": mode,
            "gamma": gamma,
        }
    )


def exponential(rate: float, decay: float, steps: int, *, staircase: bool = False) -> dict[str, Any]:
    """The schedule `exponential`: the rate at step t is rate * decay^(t/steps)
    (docs/reference/schedules.md#exponential).

    rate: >= 0.
    decay: > 0.
    steps: >= 1.
    """
    return policy({"name": "exponential", "rate": rate, "decay": decay, "steps": steps, "staircase": staircase})


def external() -> dict[str, Any]:
    """The schedule `external`: the rate at step t is the step option rate
    (docs/reference/schedules.md#external)."""
    return policy({"name": "external"})


def inverse_time(rate: float, decay: float, steps: int, *, staircase: bool = False) -> dict[str, Any]:
    """The schedule `inverse_time`: the rate at step t is rate / (1 + decay * t/steps)
    (docs/reference/schedules.md#inverse_time).

    rate: >= 0.
    decay: >= 0.
    steps: >= 1.
    """
    return policy({"name": "inverse_time", "rate": rate, "decay": decay, "steps": steps, "staircase": staircase})


def linear(rate: float, a: float, b: float) -> dict[str, Any]:
    """The schedule `linear`: the rate at step t is max(rate - a*t, b) (docs/reference/schedules.md#linear).

    rate: >= 0.
    a: >= 0.
    b: >= 0.
    """
    return policy({"name": "linear", "rate": rate, "a": a, "b": b})


def natural_exp(rate: float, decay: float, steps: int, *, staircase: bool = False) -> dict[str, Any]:
    """The schedule `natural_exp`: the rate at step t is rate * exp(-decay * t/steps)
    (docs/reference/schedules.md#natural_exp).

    rate: >= 0.
    decay: >= 0.
    steps: >= 1.
    """
    return policy({"name": "natural_exp", "rate": rate, "decay": decay, "steps": steps, "staircase": staircase})


def noam(rate: float, width: int, steps: int) -> dict[str, Any]:
    """The schedule `noam`: the rate at step t is rate * width^(-1/2) * min(t^(-1/2), t * steps^(-3/2))
    (docs/reference/schedules.md#noam).

    rate: >= 0.
    width: >= 1.
    steps: >= 1.
    """
    return policy({"name": "noam", "rate": rate, "width": width, "steps": steps})


def one_cycle(
    rate: float,
    steps: int,
    *,
    rise: float = 0.3,
    start_divisor: float = 25.0,
    end_divisor: float = 10000.0,
    shape: Literal["linear", "cosine", "sqrt"] = "cosine",
) -> dict[str, Any]:
    """The schedule `one_cycle`: the rate at step t is a rise, then a long fall
    (docs/reference/schedules.md#one_cycle).

    rate: >= 0.
    steps: >= 1.
    rise: >= 0 and <= 1.
    start_divisor: > 0.
    end_divisor: > 0.
    """
    return policy(
        {
            "name": "one_cycle",
            "rate": rate,
            "steps": steps,
            "rise": rise,
            "start_divisor": start_divisor,
            "end_divisor": end_divisor,
            "shape": shape,
        }
    )


def piecewise(*, boundaries: Sequence[int] = (), rates: Sequence[float] = ()) -> dict[str, Any]:
    """The schedule `piecewise`: the rate at step t is rates[i] for boundaries[i-1] < t <= boundaries[i]
    (docs/reference/schedules.md#piecewise).

    boundaries: each >= 0.
    rates: each >= 0.
    """
    return policy({"name": "piecewise", "boundaries": boundaries, "rates": rates})


def poly(rate: float, a: float, b: float) -> dict[str, Any]:
    """The schedule `poly`: the rate at step t is rate * (1 + a*t)^(-b) (docs/reference/schedules.md#poly).

    rate: >= 0.
    a: >= 0.
    b: >= 0.
    """
    return policy({"name": "poly", "rate": rate, "a": a, "b": b})


def polynomial(rate: float, steps: int, *, end: float = 0.0, power: float = 1.0) -> dict[str, Any]:
    """The schedule `polynomial`: the rate at step t is (rate - end) * (1 - min(t, steps)/steps)^power + end
    (docs/reference/schedules.md#polynomial).

    rate: >= 0.
    steps: >= 1.
    end: >= 0.
    power: >= 0.
    """
    return policy({"name": "polynomial", "rate": rate, "steps": steps, "end": end, "power": power})


def scaled(inner: Policy, factor: float) -> dict[str, Any]:
    """The schedule `scaled`: the rate at step t is factor * inner(t) (docs/reference/schedules.md#scaled).

    inner: made by a function of `schedules`.
    factor: >= 0.
    """
    return policy({"name": "scaled", "inner": inner, "factor": factor})


def warmup(
    after: Policy,
    steps: int,
    *,
    start: float = 0.0,
    shape: Literal["linear", "exponential", "constant"] = "linear",
    in_place: bool = False,
) -> dict[str, Any]:
    """The schedule `warmup`: the rate at step t is a ramp, then another schedule
    (docs/reference/schedules.md#warmup).

    after: made by a function of `schedules`.
    steps: >= 0.
    start: >= 0.
    """
    return policy(
        {
            "name": "warmup",
            "after": after,
            "steps": steps,
            "start": start,
            "shape": shape,
            "in_place": in_place,
        }
    )


def warmup_stable_decay(
    rate: float,
    warmup: int,
    stable: int,
    decay: int,
    *,
    start: float = 0.0,
    end: float = 0.0,
    shape: Literal["linear", "cosine", "sqrt"] = "linear",
) -> dict[str, Any]:
    """The schedule `warmup_stable_decay`: the rate at step t is a rise, a constant, then a fall
    (docs/reference/schedules.md#warmup_stable_decay).

    rate: >= 0.
    warmup: >= 0.
    stable: >= 0.
    decay: >= 0.
    start: >= 0.
    end: >= 0.
    """
    return policy(
        {
            "name": "warmup_stable_decay",
            "rate": rate,
            "warmup": warmup,
            "stable": stable,
            "decay": decay,
            "start": start,
            "end": end,
            "shape": shape,
        }
    )
