# Written by bindings/python/write_constructors.py from docs/reference/configuration.schema.json.
"""Configurations by the names of optax: its arguments, defaults and numbers, a dialect of gradstep (docs/reference/presets.md#optax)."""

from __future__ import annotations

from typing import Any, TYPE_CHECKING

from .._constructors import Options, Rate, configuration

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "adabelief",
    "adadelta",
    "adagrad",
    "adam",
    "adamax",
    "adamaxw",
    "adamw",
    "adan",
    "ademamix",
    "adopt",
    "amsgrad",
    "cocob",
    "fromage",
    "lamb",
    "lars",
    "lion",
    "madgrad",
    "nadam",
    "nadamw",
    "noisy_sgd",
    "novograd",
    "optimistic_adam_v2",
    "optimistic_gradient_descent",
    "radam",
    "rmsprop",
    "rmsprop_centered",
    "rmsprop_centered_momentum",
    "rmsprop_momentum",
    "schedule_free_adamw",
    "schedule_free_sgd",
    "sgd",
    "sgd_momentum",
    "sgd_nesterov",
    "signum",
    "yogi",
]


def adabelief(
    lr: Rate,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-16,
    eps_root: float = 1e-16,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adabelief with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    b1: decay of the first moment, per step (>= 0 and < 1).
    b2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    eps_root: added to the average of (g - m)^2 in every step (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "optax",
            "name": "adabelief",
            "b1": b1,
            "b2": b2,
            "eps": eps,
            "eps_root": eps_root,
        },
        lr,
        options,
    )


def adadelta(lr: Rate, *, rho: float = 0.9, eps: float = 1e-06, **options: Unpack[Options]) -> dict[str, Any]:
    """adadelta with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    rho: decay of the average of the squared gradient, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "optax", "name": "adadelta", "rho": rho, "eps": eps}, lr, options)


def adagrad(
    lr: Rate,
    *,
    initial_accumulator_value: float = 0.1,
    eps: float = 1e-07,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adagrad with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    initial_accumulator_value: sum of squares before the first step (>= 0).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "optax",
            "name": "adagrad",
            "initial_accumulator_value": initial_accumulator_value,
            "eps": eps,
        },
        lr,
        options,
    )


def adam(
    lr: Rate,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adam with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    b1: decay of the first moment, per step (>= 0 and < 1).
    b2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "optax", "name": "adam", "b1": b1, "b2": b2, "eps": eps}, lr, options)


def adamax(
    lr: Rate,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adamax with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    b1: decay of the first moment, per step (>= 0 and < 1).
    b2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "optax", "name": "adamax", "b1": b1, "b2": b2, "eps": eps}, lr, options)


def adamaxw(
    lr: Rate,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adamaxw with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    b1: decay of the first moment, per step (>= 0 and < 1).
    b2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "optax", "name": "adamaxw", "b1": b1, "b2": b2, "eps": eps}, lr, options)


def adamw(
    lr: Rate,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adamw with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    b1: decay of the first moment, per step (>= 0 and < 1).
    b2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "optax", "name": "adamw", "b1": b1, "b2": b2, "eps": eps}, lr, options)


def adan(
    lr: Rate,
    *,
    b1: float = 0.98,
    b2: float = 0.92,
    b3: float = 0.99,
    eps: float = 1e-08,
    eps_root: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adan with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    b1: decay of the first moment, per step (>= 0 and < 1).
    b2: decay of the average of the differences of gradients, per step (>= 0 and < 1).
    b3: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    eps_root: added inside the root (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "optax",
            "name": "adan",
            "b1": b1,
            "b2": b2,
            "b3": b3,
            "eps": eps,
            "eps_root": eps_root,
        },
        lr,
        options,
    )


def ademamix(
    lr: Rate,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    b3: float = 0.9999,
    alpha: float = 5.0,
    eps: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """ademamix with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    b1: decay of the fast average of the gradient, per step (>= 0 and < 1).
    b2: decay of the second moment, per step (>= 0 and < 1).
    b3: decay of the slow average of the gradient, per step (>= 0 and < 1).
    alpha: weight of the slow average (>= 0).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "optax",
            "name": "ademamix",
            "b1": b1,
            "b2": b2,
            "b3": b3,
            "alpha": alpha,
            "eps": eps,
        },
        lr,
        options,
    )


def adopt(
    lr: Rate,
    *,
    b1: float = 0.9,
    b2: float = 0.9999,
    eps: float = 1e-06,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """adopt with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    b1: decay of the first moment, per step (>= 0 and < 1).
    b2: decay of the second moment, per step (>= 0 and < 1).
    eps: smallest divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "optax", "name": "adopt", "b1": b1, "b2": b2, "eps": eps}, lr, options)


def amsgrad(
    lr: Rate,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """amsgrad with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    b1: decay of the first moment, per step (>= 0 and < 1).
    b2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "optax", "name": "amsgrad", "b1": b1, "b2": b2, "eps": eps}, lr, options)


def cocob(lr: Rate, *, alpha: float = 100.0, eps: float = 1e-08, **options: Unpack[Options]) -> dict[str, Any]:
    """cocob with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    alpha: limits the first bets: larger values give smaller first steps (> 0).
    eps: value of the largest gradient before the first step (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "optax", "name": "cocob", "alpha": alpha, "eps": eps}, lr, options)


def fromage(lr: Rate, *, min_norm: float = 1e-06, **options: Unpack[Options]) -> dict[str, Any]:
    """fromage with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    min_norm: lower limit of both norms (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "optax", "name": "fromage", "min_norm": min_norm}, lr, options)


def lamb(
    lr: Rate,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-06,
    weight_decay: float = 0.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """lamb with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    b1: decay of the first moment, per step (>= 0 and < 1).
    b2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    weight_decay: weight decay, which is part of the norm (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "optax",
            "name": "lamb",
            "b1": b1,
            "b2": b2,
            "eps": eps,
            "weight_decay": weight_decay,
        },
        lr,
        options,
    )


def lars(
    lr: Rate,
    *,
    trust_coefficient: float = 0.001,
    eps: float = 0.0,
    momentum: float = 0.9,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """lars with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    trust_coefficient: step length as a share of the weight's norm (> 0).
    eps: added to the divisor (>= 0).
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "optax",
            "name": "lars",
            "trust_coefficient": trust_coefficient,
            "eps": eps,
            "momentum": momentum,
        },
        lr,
        options,
    )


def lion(lr: Rate, *, b1: float = 0.9, b2: float = 0.99, **options: Unpack[Options]) -> dict[str, Any]:
    """lion with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    b1: decay of the first moment, per step (>= 0 and < 1).
    b2: decay of the second moment, per step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "optax", "name": "lion", "b1": b1, "b2": b2}, lr, options)


def madgrad(lr: Rate, *, momentum: float = 0.9, eps: float = 1e-06, **options: Unpack[Options]) -> dict[str, Any]:
    """madgrad with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    momentum: share of the weight that remains in a step; the rest moves to z (>= 0 and < 1).
    eps: added to the cube root in the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "optax", "name": "madgrad", "momentum": momentum, "eps": eps}, lr, options)


def nadam(
    lr: Rate,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """nadam with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    b1: decay of the first moment, per step (>= 0 and < 1).
    b2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "optax", "name": "nadam", "b1": b1, "b2": b2, "eps": eps}, lr, options)


def nadamw(
    lr: Rate,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """nadamw with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    b1: decay of the first moment, per step (>= 0 and < 1).
    b2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "optax", "name": "nadamw", "b1": b1, "b2": b2, "eps": eps}, lr, options)


def noisy_sgd(lr: Rate, *, eta: float = 0.01, gamma: float = 0.55, **options: Unpack[Options]) -> dict[str, Any]:
    """noisy_sgd with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    eta: variance of the noise in the gradient at step 1 (>= 0).
    gamma: power of the step number by which the variance falls (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "optax", "name": "noisy_sgd", "eta": eta, "gamma": gamma}, lr, options)


def novograd(
    lr: Rate,
    *,
    b1: float = 0.9,
    b2: float = 0.25,
    eps: float = 1e-06,
    weight_decay: float = 0.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """novograd with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    b1: decay of the first moment, per step (>= 0 and < 1).
    b2: decay of the average of the gradient's squared norm, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    weight_decay: weight decay, which enters the momentum (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "optax",
            "name": "novograd",
            "b1": b1,
            "b2": b2,
            "eps": eps,
            "weight_decay": weight_decay,
        },
        lr,
        options,
    )


def optimistic_adam_v2(
    lr: Rate,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-08,
    nesterov: bool = True,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """optimistic_adam_v2 with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    alpha: weight of the direction (>= 0).
    beta: weight of the difference between the direction and the previous one (>= 0).
    b1: decay of the first moment, per step (>= 0 and < 1).
    b2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    nesterov: whether the direction has Nesterov's look-ahead.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "optax",
            "name": "optimistic_adam_v2",
            "alpha": alpha,
            "beta": beta,
            "b1": b1,
            "b2": b2,
            "eps": eps,
            "nesterov": nesterov,
        },
        lr,
        options,
    )


def optimistic_gradient_descent(
    lr: Rate,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """optimistic_gradient_descent with the arguments, defaults and numbers of optax
    (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    alpha: weight of the gradient (>= 0).
    beta: weight of the difference between the gradient and the previous one (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "optax",
            "name": "optimistic_gradient_descent",
            "alpha": alpha,
            "beta": beta,
        },
        lr,
        options,
    )


def radam(
    lr: Rate,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """radam with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    b1: decay of the first moment, per step (>= 0 and < 1).
    b2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "optax", "name": "radam", "b1": b1, "b2": b2, "eps": eps}, lr, options)


def rmsprop(
    lr: Rate,
    *,
    decay: float = 0.9,
    eps: float = 1e-08,
    initial_scale: float = 0.0,
    eps_in_sqrt: bool = True,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """rmsprop with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    decay: decay of the average of the squared gradient, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    initial_scale: average of squares before the first step (>= 0).
    eps_in_sqrt: whether `eps` is added inside the root.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "optax",
            "name": "rmsprop",
            "decay": decay,
            "eps": eps,
            "initial_scale": initial_scale,
            "eps_in_sqrt": eps_in_sqrt,
        },
        lr,
        options,
    )


def rmsprop_centered(
    lr: Rate,
    *,
    decay: float = 0.9,
    eps: float = 1e-08,
    initial_scale: float = 0.0,
    eps_in_sqrt: bool = True,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """rmsprop_centered with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    decay: decay of the average of the squared gradient, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    initial_scale: average of squares before the first step (>= 0).
    eps_in_sqrt: whether `eps` is added inside the root.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "optax",
            "name": "rmsprop_centered",
            "decay": decay,
            "eps": eps,
            "initial_scale": initial_scale,
            "eps_in_sqrt": eps_in_sqrt,
        },
        lr,
        options,
    )


def rmsprop_centered_momentum(
    lr: Rate,
    *,
    decay: float = 0.9,
    eps: float = 1e-08,
    initial_scale: float = 0.0,
    eps_in_sqrt: bool = True,
    momentum: float = 0.9,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """rmsprop_centered_momentum with the arguments, defaults and numbers of optax
    (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    decay: decay of the average of the squared gradient, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    initial_scale: average of squares before the first step (>= 0).
    eps_in_sqrt: whether `eps` is added inside the root.
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "optax",
            "name": "rmsprop_centered_momentum",
            "decay": decay,
            "eps": eps,
            "initial_scale": initial_scale,
            "eps_in_sqrt": eps_in_sqrt,
            "momentum": momentum,
        },
        lr,
        options,
    )


def rmsprop_momentum(
    lr: Rate,
    *,
    decay: float = 0.9,
    eps: float = 1e-08,
    initial_scale: float = 0.0,
    eps_in_sqrt: bool = True,
    momentum: float = 0.9,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """rmsprop_momentum with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    decay: decay of the average of the squared gradient, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    initial_scale: average of squares before the first step (>= 0).
    eps_in_sqrt: whether `eps` is added inside the root.
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "optax",
            "name": "rmsprop_momentum",
            "decay": decay,
            "eps": eps,
            "initial_scale": initial_scale,
            "eps_in_sqrt": eps_in_sqrt,
            "momentum": momentum,
        },
        lr,
        options,
    )


def schedule_free_adamw(
    lr: Rate,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-08,
    weight_decay: float = 0.0,
    weight_lr_power: float = 2.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """schedule_free_adamw with the arguments, defaults and numbers of optax
    (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    b1: where between z and the average the gradients are taken: 1 at the average (> 0 and <= 1).
    b2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    weight_decay: weight decay, at the point where the gradients are taken (>= 0).
    weight_lr_power: power of the highest rate so far in the weight of a step in the average (>= 0 and <= 16).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "optax",
            "name": "schedule_free_adamw",
            "b1": b1,
            "b2": b2,
            "eps": eps,
            "weight_decay": weight_decay,
            "weight_lr_power": weight_lr_power,
        },
        lr,
        options,
    )


def schedule_free_sgd(
    lr: Rate,
    *,
    b1: float = 0.9,
    weight_lr_power: float = 2.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """schedule_free_sgd with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    b1: where between z and the average the gradients are taken: 1 at the average (> 0 and <= 1).
    weight_lr_power: power of the highest rate so far in the weight of a step in the average (>= 0 and <= 16).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "dialect": "optax",
            "name": "schedule_free_sgd",
            "b1": b1,
            "weight_lr_power": weight_lr_power,
        },
        lr,
        options,
    )


def sgd(lr: Rate, **options: Unpack[Options]) -> dict[str, Any]:
    """sgd with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "optax", "name": "sgd"}, lr, options)


def sgd_momentum(lr: Rate, *, momentum: float = 0.9, **options: Unpack[Options]) -> dict[str, Any]:
    """sgd_momentum with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "optax", "name": "sgd_momentum", "momentum": momentum}, lr, options)


def sgd_nesterov(lr: Rate, *, momentum: float = 0.9, **options: Unpack[Options]) -> dict[str, Any]:
    """sgd_nesterov with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    momentum: share of the buffer that remains after a step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "optax", "name": "sgd_nesterov", "momentum": momentum}, lr, options)


def signum(lr: Rate, *, beta: float = 0.9, **options: Unpack[Options]) -> dict[str, Any]:
    """signum with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta: decay of the average of the gradient, per step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "optax", "name": "signum", "beta": beta}, lr, options)


def yogi(
    lr: Rate,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 0.001,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """yogi with the arguments, defaults and numbers of optax (docs/reference/presets.md#optax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    b1: decay of the first moment, per step (>= 0 and < 1).
    b2: decay of the second moment, per step (>= 0 and < 1).
    eps: added to the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"dialect": "optax", "name": "yogi", "b1": b1, "b2": b2, "eps": eps}, lr, options)
