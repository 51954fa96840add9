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
    "one_cycle_momentum",
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

    inner: the schedule inside (made by a function of `schedules`).
    """
    return policy({"name": "by_epochs", "inner": inner})


def by_samples(inner: Policy) -> dict[str, Any]:
    """The schedule `by_samples`: the rate at step t is inner at the samples or epochs of the clock
    (docs/reference/schedules.md#by_samples-by_epochs).

    inner: the schedule inside (made by a function of `schedules`).
    """
    return policy({"name": "by_samples", "inner": inner})


def chain(schedules: Sequence[Policy], *, boundaries: Sequence[int] = ()) -> dict[str, Any]:
    """The schedule `chain`: the rate at step t is one schedule after the other
    (docs/reference/schedules.md#chain).

    schedules: the schedules, one after the other; each begins at its own step 0 (each made by a function of
        `schedules`).
    boundaries: steps at which the next schedule begins (each >= 0).
    """
    return policy({"name": "chain", "schedules": schedules, "boundaries": boundaries})


def clamped(inner: Policy, low: float, high: float) -> dict[str, Any]:
    """The schedule `clamped`: the rate at step t is min(max(inner(t), low), high)
    (docs/reference/schedules.md#clamped).

    inner: the schedule inside (made by a function of `schedules`).
    low: smallest learning rate (>= 0).
    high: largest learning rate (>= 0).
    """
    return policy({"name": "clamped", "inner": inner, "low": low, "high": high})


def constant(rate: float) -> dict[str, Any]:
    """The schedule `constant`: the rate at step t is rate (docs/reference/schedules.md#constant).

    rate: learning rate (>= 0).
    """
    return policy({"name": "constant", "rate": rate})


def cosine(rate: float, steps: int, *, end: float = 0.0) -> dict[str, Any]:
    """The schedule `cosine`: the rate at step t is end + (rate - end)/2 * (1 + cos(pi * min(t, steps)/steps))
    (docs/reference/schedules.md#cosine).

    rate: learning rate at the beginning (>= 0).
    steps: length, in steps (>= 1).
    end: learning rate at the end, and after it (>= 0).
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

    rate: learning rate at the beginning of the first cycle (>= 0).
    steps: length of the first cycle, in steps (>= 1).
    end: learning rate at the end of each cycle (>= 0).
    multiply: length of a cycle divided by the length of the one before (>= 1).
    decay: height of a cycle above `end` divided by the height of the one before (>= 0).
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

    low: learning rate at the ends of a cycle (>= 0).
    high: learning rate in the middle of the first cycle (>= 0).
    rise: steps from `low` to `high` (>= 1).
    fall: steps from `high` back to `low` (>= 1).
    mode: how cycles shrink: `triangular` not at all, `triangular2` by half in each cycle, `exp_range` by
        `gamma` in each step.
    gamma: factor per step of `exp_range` (> 0).
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

    rate: learning rate at the beginning (>= 0).
    decay: factor of the rate in `steps` steps (> 0).
    steps: steps in which the rate is multiplied by `decay` (>= 1).
    staircase: whether the rate changes only once per `steps` steps.
    """
    return policy({"name": "exponential", "rate": rate, "decay": decay, "steps": steps, "staircase": staircase})


def external() -> dict[str, Any]:
    """The schedule `external`: the rate at step t is the step option rate
    (docs/reference/schedules.md#external)."""
    return policy({"name": "external"})


def inverse_time(rate: float, decay: float, steps: int, *, staircase: bool = False) -> dict[str, Any]:
    """The schedule `inverse_time`: the rate at step t is rate / (1 + decay * t/steps)
    (docs/reference/schedules.md#inverse_time).

    rate: learning rate at the beginning (>= 0).
    decay: how much the divisor grows in `steps` steps (>= 0).
    steps: unit of time, in steps (>= 1).
    staircase: whether the rate changes only once per `steps` steps.
    """
    return policy({"name": "inverse_time", "rate": rate, "decay": decay, "steps": steps, "staircase": staircase})


def linear(rate: float, a: float, b: float) -> dict[str, Any]:
    """The schedule `linear`: the rate at step t is max(rate - a*t, b) (docs/reference/schedules.md#linear).

    rate: learning rate at the beginning (>= 0).
    a: decrease of the rate per step (>= 0).
    b: smallest learning rate (>= 0).
    """
    return policy({"name": "linear", "rate": rate, "a": a, "b": b})


def natural_exp(rate: float, decay: float, steps: int, *, staircase: bool = False) -> dict[str, Any]:
    """The schedule `natural_exp`: the rate at step t is rate * exp(-decay * t/steps)
    (docs/reference/schedules.md#natural_exp).

    rate: learning rate at the beginning (>= 0).
    decay: decrease of the rate's logarithm in `steps` steps (>= 0).
    steps: unit of time, in steps (>= 1).
    staircase: whether the rate changes only once per `steps` steps.
    """
    return policy({"name": "natural_exp", "rate": rate, "decay": decay, "steps": steps, "staircase": staircase})


def noam(rate: float, width: int, steps: int) -> dict[str, Any]:
    """The schedule `noam`: the rate at step t is rate * width^(-1/2) * min(t^(-1/2), t * steps^(-3/2))
    (docs/reference/schedules.md#noam).

    rate: factor of the learning rate (>= 0).
    width: width of the model (>= 1).
    steps: length of the warm-up, in steps (>= 1).
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

    rate: largest learning rate (>= 0).
    steps: length of the cycle, in steps (>= 1).
    rise: share of the steps in which the rate rises (>= 0 and <= 1).
    start_divisor: largest rate divided by the rate of the first step (> 0).
    end_divisor: rate of the first step divided by the rate of the last step (> 0).
    shape: curve of both phases.
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


def one_cycle_momentum(
    steps: int,
    *,
    low: float = 0.85,
    high: float = 0.95,
    rise: float = 0.3,
    shape: Literal["linear", "cosine", "sqrt"] = "cosine",
) -> dict[str, Any]:
    """The schedule `one_cycle_momentum`: the rate at step t is of a momentum: a fall, then a rise
    (docs/reference/schedules.md#one_cycle_momentum).

    steps: length of the cycle, in steps (>= 1).
    low: smallest momentum, where the rate of `one_cycle` is largest (>= 0 and <= 1).
    high: momentum at both ends of the cycle (>= 0 and <= 1).
    rise: share of the steps in which the rate of `one_cycle` rises, and the momentum falls (>= 0 and <= 1).
    shape: curve of both phases.
    """
    return policy(
        {
            "name": "one_cycle_momentum",
            "steps": steps,
            "low": low,
            "high": high,
            "rise": rise,
            "shape": shape,
        }
    )


def piecewise(*, boundaries: Sequence[int] = (), rates: Sequence[float] = ()) -> dict[str, Any]:
    """The schedule `piecewise`: the rate at step t is rates[i] for boundaries[i-1] < t <= boundaries[i]
    (docs/reference/schedules.md#piecewise).

    boundaries: last steps of the rates, except the last rate (each >= 0).
    rates: learning rates, one more than boundaries (each >= 0).
    """
    return policy({"name": "piecewise", "boundaries": boundaries, "rates": rates})


def poly(rate: float, a: float, b: float) -> dict[str, Any]:
    """The schedule `poly`: the rate at step t is rate * (1 + a*t)^(-b) (docs/reference/schedules.md#poly).

    rate: learning rate at the beginning (>= 0).
    a: growth of the base per step (>= 0).
    b: power of the decay (>= 0).
    """
    return policy({"name": "poly", "rate": rate, "a": a, "b": b})


def polynomial(rate: float, steps: int, *, end: float = 0.0, power: float = 1.0) -> dict[str, Any]:
    """The schedule `polynomial`: the rate at step t is (rate - end) * (1 - min(t, steps)/steps)^power + end
    (docs/reference/schedules.md#polynomial).

    rate: learning rate at the beginning (>= 0).
    steps: length, in steps (>= 1).
    end: learning rate at the end, and after it (>= 0).
    power: power of the curve; 1 is a straight line (>= 0).
    """
    return policy({"name": "polynomial", "rate": rate, "steps": steps, "end": end, "power": power})


def scaled(inner: Policy, factor: float) -> dict[str, Any]:
    """The schedule `scaled`: the rate at step t is factor * inner(t) (docs/reference/schedules.md#scaled).

    inner: the schedule inside (made by a function of `schedules`).
    factor: factor of the learning rate (>= 0).
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

    after: the schedule after the warm-up (made by a function of `schedules`).
    steps: length of the warm-up, in steps (>= 0).
    start: learning rate of the first step (>= 0).
    shape: curve of the warm-up: `linear`, `exponential`, or `constant` (at `start`).
    in_place: whether the warm-up replaces the first steps of `after` instead of delaying it.
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

    rate: learning rate of the stable phase (>= 0).
    warmup: length of the warm-up, in steps (>= 0).
    stable: length of the stable phase, in steps (>= 0).
    decay: length of the decay, in steps (>= 0).
    start: learning rate of the first step (>= 0).
    end: learning rate after the decay (>= 0).
    shape: curve of the decay.
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
