# Written by bindings/python/write_constructors.py from docs/reference/configuration.schema.json.
"""Configurations by rule: `gradstep.adam(lr=1e-3)` is `rules.adam(lr=1e-3)`.

A dict, for `Parameter`, `Table` and `Updater`. A hyperparameter can be a schedule of `gradstep.schedules` instead of a number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TYPE_CHECKING

from ._constructors import Number, Options, Rate, configuration

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "adabelief",
    "adabound",
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "adamax",
    "adan",
    "adapnm",
    "add_delta",
    "ademamix",
    "adopt",
    "amsgrad",
    "came",
    "cautious_adam",
    "cautious_lion",
    "centered_momentum_rmsprop",
    "centered_rmsprop",
    "cocob",
    "constant_rate_ftrl",
    "cowclip_adagrad",
    "dadapt_adam",
    "dadapt_sgd",
    "decayed_adagrad",
    "dgc_momentum",
    "dog",
    "dowg",
    "fromage",
    "ftml",
    "ftrl",
    "group_adagrad",
    "group_ftrl",
    "lamb",
    "laprop",
    "lars",
    "lion",
    "madgrad",
    "momentum",
    "momentum_rmsprop",
    "momentum_sm3",
    "momo",
    "momo_adam",
    "muon",
    "nadam",
    "nesterov",
    "nesterov_adam",
    "noisy_sgd",
    "novograd",
    "optimistic_adam",
    "optimistic_sgd",
    "pnm",
    "polyak_sgd",
    "prodigy",
    "proximal_adagrad",
    "qhadam",
    "qhm",
    "radam",
    "rmsprop",
    "rowwise_adagrad",
    "rowwise_adam",
    "rowwise_rmsprop",
    "rprop",
    "schedule_free_adam",
    "schedule_free_radam",
    "schedule_free_sgd",
    "sgd",
    "sgld",
    "sm3",
    "stable_adamw",
    "two_buffer_adagrad",
    "yogi",
]


def adabelief(
    lr: Rate,
    *,
    beta1: Number = 0.9,
    beta2: Number = 0.999,
    epsilon: Number = 1e-16,
    epsilon_root: Number = 1e-16,
    bias_correction: bool = True,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `adabelief`: Zhuang et al. 2020, arXiv:2010.07468, algorithm 2
    (docs/reference/rules.md#adabelief).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, the average of the gradient, per step (>= 0 and < 1).
    beta2: decay of the average of (g - m)^2, per step (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    epsilon_root: added to the average of (g - m)^2 in every step, and stays in it (>= 0).
    bias_correction: whether the averages are corrected for their beginning at 0; `false` in BERT's Adam and
        by default in mlx.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "adabelief",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
            "epsilon_root": epsilon_root,
            "bias_correction": bias_correction,
        },
        lr,
        options,
    )


def adabound(
    lr: Rate,
    *,
    beta1: Number = 0.9,
    beta2: Number = 0.999,
    epsilon: Number = 1e-08,
    gamma: Number = 0.001,
    final_ratio: Number = 100.0,
    bias_correction: bool = True,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `adabound`: Luo et al. 2019, arXiv:1902.09843, algorithm 2 (docs/reference/rules.md#adabound).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, the average of the gradient, per step (>= 0 and < 1).
    beta2: decay of the second moment, the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    gamma: speed at which the bounds of the rate narrow, per step (> 0).
    final_ratio: final rate of every weight, as a multiple of the learning rate (> 0).
    bias_correction: whether the averages are corrected for their beginning at 0; `false` in BERT's Adam and
        by default in mlx.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "adabound",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
            "gamma": gamma,
            "final_ratio": final_ratio,
            "bias_correction": bias_correction,
        },
        lr,
        options,
    )


def adadelta(lr: Rate, *, rho: Number = 0.95, epsilon: Number = 1e-06, **options: Unpack[Options]) -> dict[str, Any]:
    """The rule `adadelta`: Zeiler 2012, arXiv:1212.5701, algorithm 1 (docs/reference/rules.md#adadelta).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    rho: decay of the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added inside both roots; determines the size of the first steps (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"name": "adadelta", "rho": rho, "epsilon": epsilon}, lr, options)


def adafactor(
    lr: Rate,
    *,
    beta2_decay: Number = -0.8,
    epsilon: Number = 1e-30,
    clamp: Number = 0.0,
    epsilon2: Number = 0.001,
    d: Number = 1.0,
    relative_step: bool = True,
    scale_parameter: bool = True,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `adafactor`: Shazeer & Stern 2018, arXiv:1804.04235, algorithms 4 and 5
    (docs/reference/rules.md#adafactor).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta2_decay: power of the step's number that is the share of a new squared gradient in its average (<= 0).
    epsilon: added to the squared gradient (>= 0).
    clamp: lower bound of the root by which the gradient is divided, and of the mean of r (>= 0).
    epsilon2: least size of the weights by which the step is scaled (>= 0).
    d: largest root mean square of the divided gradient; larger ones are scaled down to it (> 0, or infinity).
    relative_step: whether 1 / sqrt(t) limits the learning rate.
    scale_parameter: whether the step is scaled by the root mean square of the weights.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "adafactor",
            "beta2_decay": beta2_decay,
            "epsilon": epsilon,
            "clamp": clamp,
            "epsilon2": epsilon2,
            "d": d,
            "relative_step": relative_step,
            "scale_parameter": scale_parameter,
        },
        lr,
        options,
    )


def adagrad(
    lr: Rate,
    *,
    epsilon: Number = 1e-10,
    initial_accumulator: float = 0.0,
    epsilon_place: Literal["outside", "inside"] = "outside",
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `adagrad`: Duchi, Hazan & Singer 2011, JMLR 12, section 5 (docs/reference/rules.md#adagrad).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    initial_accumulator: value of the sum or average of squares before the first step (>= 0).
    epsilon_place: where `epsilon` is added: `outside` the root, or `inside` it; `hat`, where it is allowed:
        outside, before bias correction.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "adagrad",
            "epsilon": epsilon,
            "initial_accumulator": initial_accumulator,
            "epsilon_place": epsilon_place,
        },
        lr,
        options,
    )


def adam(
    lr: Rate,
    *,
    beta1: Number = 0.9,
    beta2: Number = 0.999,
    epsilon: Number = 1e-08,
    epsilon_place: Literal["outside", "inside", "hat"] = "outside",
    bias_correction: bool = True,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `adam`: Kingma & Ba 2015, arXiv:1412.6980, algorithm 1 (docs/reference/rules.md#adam).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, the average of the gradient, per step (>= 0 and < 1).
    beta2: decay of the second moment, the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    epsilon_place: where `epsilon` is added: `outside` the root, or `inside` it; `hat`, where it is allowed:
        outside, before bias correction.
    bias_correction: whether the averages are corrected for their beginning at 0; `false` in BERT's Adam and
        by default in mlx.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "adam",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
            "epsilon_place": epsilon_place,
            "bias_correction": bias_correction,
        },
        lr,
        options,
    )


def adamax(
    lr: Rate,
    *,
    beta1: Number = 0.9,
    beta2: Number = 0.999,
    epsilon: Number = 1e-08,
    epsilon_place: Literal["outside", "inside", "accumulated"] = "outside",
    bias_correction: bool = True,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `adamax`: Kingma & Ba 2015, algorithm 2 (docs/reference/rules.md#adamax).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, the average of the gradient, per step (>= 0 and < 1).
    beta2: decay of the infinity norm u, per step (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    epsilon_place: where `epsilon` is added: `outside` the maximum, `inside` it (to abs(g)), or `accumulated`
        (to the stored u).
    bias_correction: whether the averages are corrected for their beginning at 0; `false` in BERT's Adam and
        by default in mlx.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "adamax",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
            "epsilon_place": epsilon_place,
            "bias_correction": bias_correction,
        },
        lr,
        options,
    )


def adan(
    lr: Rate,
    *,
    beta1: Number = 0.98,
    beta2: Number = 0.92,
    beta3: Number = 0.99,
    epsilon: Number = 1e-08,
    epsilon_root: Number = 0.0,
    difference_weight: Literal["beta2", "one_minus_beta2"] = "beta2",
    bias_correction: bool = True,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `adan`: Xie et al. 2022, arXiv:2208.06677, algorithm 1 (docs/reference/rules.md#adan).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, the average of the gradient, per step (>= 0 and < 1).
    beta2: decay of the average of the differences of gradients, per step (>= 0 and < 1).
    beta3: decay of the second moment, per step (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    epsilon_root: added inside the root (>= 0).
    difference_weight: weight of the difference of gradients in a step: `beta2`, as in the paper, or
        `one_minus_beta2`, as in optax.
    bias_correction: whether the averages are corrected for their beginning at 0; `false` in BERT's Adam and
        by default in mlx.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "adan",
            "beta1": beta1,
            "beta2": beta2,
            "beta3": beta3,
            "epsilon": epsilon,
            "epsilon_root": epsilon_root,
            "difference_weight": difference_weight,
            "bias_correction": bias_correction,
        },
        lr,
        options,
    )


def adapnm(
    lr: Rate,
    *,
    beta1: Number = 0.9,
    beta2: Number = 0.999,
    beta0: Number = 1.0,
    epsilon: Number = 1e-08,
    epsilon_place: Literal["outside", "inside", "hat"] = "outside",
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `adapnm`: Xie et al. 2021, arXiv:2103.17182 (docs/reference/rules.md#adapnm).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: its square is the decay of each momentum, per two steps (>= 0 and < 1).
    beta2: decay of the second moment, the average of the squared gradient, per step (>= 0 and < 1).
    beta0: weight of the negative momentum.
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    epsilon_place: where `epsilon` is added: `outside` the root, or `inside` it; `hat`, where it is allowed:
        outside, before bias correction.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "adapnm",
            "beta1": beta1,
            "beta2": beta2,
            "beta0": beta0,
            "epsilon": epsilon,
            "epsilon_place": epsilon_place,
        },
        lr,
        options,
    )


def add_delta(lr: Rate, **options: Unpack[Options]) -> dict[str, Any]:
    """The rule `add_delta` (docs/reference/rules.md#add_delta).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"name": "add_delta"}, lr, options)


def ademamix(
    lr: Rate,
    *,
    beta1: Number = 0.9,
    beta2: Number = 0.999,
    beta3: Number = 0.9999,
    alpha: Number = 5.0,
    epsilon: Number = 1e-08,
    warmup: int = 0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `ademamix`: Pagliardini, Ablin & Grangier 2024, arXiv:2409.03137, algorithm 1
    (docs/reference/rules.md#ademamix).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the fast average of the gradient, per step (>= 0 and < 1).
    beta2: decay of the second moment, the average of the squared gradient, per step (>= 0 and < 1).
    beta3: decay of the slow average of the gradient, per step (>= 0 and < 1).
    alpha: weight of the slow average (>= 0).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    warmup: steps in which `alpha` rises from 0 and the slow decay from `beta1`; 0: none (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "ademamix",
            "beta1": beta1,
            "beta2": beta2,
            "beta3": beta3,
            "alpha": alpha,
            "epsilon": epsilon,
            "warmup": warmup,
        },
        lr,
        options,
    )


def adopt(
    lr: Rate,
    *,
    beta1: Number = 0.9,
    beta2: Number = 0.9999,
    epsilon: Number = 1e-06,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `adopt`: Taniguchi et al. 2024, arXiv:2411.02853, algorithm 2 (docs/reference/rules.md#adopt).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, the average of the gradient, per step (>= 0 and < 1).
    beta2: decay of the second moment, the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: smallest divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"name": "adopt", "beta1": beta1, "beta2": beta2, "epsilon": epsilon}, lr, options)


def amsgrad(
    lr: Rate,
    *,
    beta1: Number = 0.9,
    beta2: Number = 0.999,
    epsilon: Number = 1e-08,
    epsilon_place: Literal["outside", "inside", "hat"] = "outside",
    maximum_of: Literal["raw", "corrected"] = "raw",
    bias_correction: bool = True,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `amsgrad`: Reddi, Kale & Kumar 2018, algorithm 2 (docs/reference/rules.md#amsgrad).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, the average of the gradient, per step (>= 0 and < 1).
    beta2: decay of the second moment, the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    epsilon_place: where `epsilon` is added: `outside` the root, or `inside` it; `hat`, where it is allowed:
        outside, before bias correction.
    maximum_of: what the maximum is taken of: the `raw` second moment, or the bias-`corrected` one.
    bias_correction: whether the averages are corrected for their beginning at 0; `false` in BERT's Adam and
        by default in mlx.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "amsgrad",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
            "epsilon_place": epsilon_place,
            "maximum_of": maximum_of,
            "bias_correction": bias_correction,
        },
        lr,
        options,
    )


def came(
    lr: Rate,
    *,
    beta1: Number = 0.9,
    beta2: Number = 0.999,
    beta3: Number = 0.9999,
    epsilon1: Number = 1e-30,
    epsilon2: Number = 1e-16,
    d: Number = 1.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `came`: Luo et al. 2023, arXiv:2307.02047, algorithm 2 (docs/reference/rules.md#came).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the average of the divided gradient, per step (>= 0 and < 1).
    beta2: decay of the second moment, the average of the squared gradient, per step (>= 0 and < 1).
    beta3: decay of the instability, per step (>= 0 and < 1).
    epsilon1: added to the squared gradient (> 0).
    epsilon2: added to the instability (> 0).
    d: largest root mean square of the divided gradient; larger ones are scaled down to it (> 0, or infinity).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "came",
            "beta1": beta1,
            "beta2": beta2,
            "beta3": beta3,
            "epsilon1": epsilon1,
            "epsilon2": epsilon2,
            "d": d,
        },
        lr,
        options,
    )


def cautious_adam(
    lr: Rate,
    *,
    beta1: Number = 0.9,
    beta2: Number = 0.999,
    epsilon: Number = 1e-08,
    epsilon_place: Literal["outside", "inside", "hat"] = "outside",
    bias_correction: bool = True,
    rescale: Literal["mean", "count", "none"] = "mean",
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `cautious_adam`: Liang et al. 2024, arXiv:2411.16085, algorithm 1
    (docs/reference/rules.md#cautious_adam).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, the average of the gradient, per step (>= 0 and < 1).
    beta2: decay of the second moment, the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    epsilon_place: where `epsilon` is added: `outside` the root, or `inside` it; `hat`, where it is allowed:
        outside, before bias correction.
    bias_correction: whether the averages are corrected for their beginning at 0; `false` in BERT's Adam and
        by default in mlx.
    rescale: how much longer the other steps become: by n / max(k, 0.001 n) (`mean`), by n / (k + 1)
        (`count`), or not (`none`), where k of n elements take their step.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "cautious_adam",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
            "epsilon_place": epsilon_place,
            "bias_correction": bias_correction,
            "rescale": rescale,
        },
        lr,
        options,
    )


def cautious_lion(
    lr: Rate,
    *,
    beta1: Number = 0.9,
    beta2: Number = 0.99,
    rescale: Literal["mean", "count", "none"] = "mean",
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `cautious_lion`: Liang et al. 2024, arXiv:2411.16085, algorithm 1
    (docs/reference/rules.md#cautious_lion).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, the average of the gradient, per step (>= 0 and < 1).
    beta2: decay of the second moment, the average of the squared gradient, per step (>= 0 and < 1).
    rescale: how much longer the other steps become: by n / max(k, 0.001 n) (`mean`), by n / (k + 1)
        (`count`), or not (`none`), where k of n elements take their step.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"name": "cautious_lion", "beta1": beta1, "beta2": beta2, "rescale": rescale}, lr, options)


def centered_momentum_rmsprop(
    lr: Rate,
    *,
    rho: Number = 0.99,
    epsilon: Number = 1e-08,
    mu: Number = 0.9,
    epsilon_place: Literal["outside", "inside"] = "outside",
    initial_accumulator: float = 0.0,
    rate_place: Literal["outside", "inside"] = "outside",
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `centered_momentum_rmsprop`: Graves 2013, arXiv:1308.0850, eq. 38-45
    (docs/reference/rules.md#centered_momentum_rmsprop).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    rho: decay of the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    mu: momentum: share of the buffer that remains after a step (>= 0 and < 1).
    epsilon_place: where `epsilon` is added: `outside` the root, or `inside` it; `hat`, where it is allowed:
        outside, before bias correction.
    initial_accumulator: value of the sum or average of squares before the first step (>= 0).
    rate_place: `outside`: the rate multiplies the buffer when it is read; `inside`: what enters the buffer.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "centered_momentum_rmsprop",
            "rho": rho,
            "epsilon": epsilon,
            "mu": mu,
            "epsilon_place": epsilon_place,
            "initial_accumulator": initial_accumulator,
            "rate_place": rate_place,
        },
        lr,
        options,
    )


def centered_rmsprop(
    lr: Rate,
    *,
    rho: Number = 0.99,
    epsilon: Number = 1e-08,
    epsilon_place: Literal["outside", "inside"] = "outside",
    initial_accumulator: float = 0.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `centered_rmsprop`: Graves 2013, arXiv:1308.0850, eq. 38-41
    (docs/reference/rules.md#centered_rmsprop).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    rho: decay of the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    epsilon_place: where `epsilon` is added: `outside` the root, or `inside` it; `hat`, where it is allowed:
        outside, before bias correction.
    initial_accumulator: value of the sum or average of squares before the first step (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "centered_rmsprop",
            "rho": rho,
            "epsilon": epsilon,
            "epsilon_place": epsilon_place,
            "initial_accumulator": initial_accumulator,
        },
        lr,
        options,
    )


def cocob(lr: Rate, *, alpha: float = 100.0, epsilon: float = 1e-08, **options: Unpack[Options]) -> dict[str, Any]:
    """The rule `cocob`: Orabona & Tommasi 2017, arXiv:1705.07795, algorithm 2
    (docs/reference/rules.md#cocob).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    alpha: limits the first bets: larger values give smaller first steps (> 0).
    epsilon: value of the largest gradient before the first step (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"name": "cocob", "alpha": alpha, "epsilon": epsilon}, lr, options)


def constant_rate_ftrl(
    lr: Rate,
    *,
    l1: Number = 0.0,
    l2: Number = 0.0,
    beta: Number = 1.0,
    lr_power: Number = -0.5,
    initial_accumulator: float = 0.0,
    l2_shrinkage: Number = 0.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `constant_rate_ftrl` (docs/reference/rules.md#constant_rate_ftrl).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    l1: strength of the L1 penalty, which makes weights exactly 0 (>= 0).
    l2: strength of the L2 penalty (>= 0).
    beta: added to the root of the sum of squares: lowers the rates of the first steps (>= 0).
    lr_power: minus the power of the sum of squares in the divisor; -0.5 is the square root (<= 0).
    initial_accumulator: value of the sum or average of squares before the first step (>= 0).
    l2_shrinkage: L2 penalty that enters the gradient, but not the sum of squares (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "constant_rate_ftrl",
            "l1": l1,
            "l2": l2,
            "beta": beta,
            "lr_power": lr_power,
            "initial_accumulator": initial_accumulator,
            "l2_shrinkage": l2_shrinkage,
        },
        lr,
        options,
    )


def cowclip_adagrad(
    lr: Rate,
    *,
    clip_ratio: Number = 1.0,
    lower_bound: Number = 1e-05,
    count_decay: Number = 0.0,
    epsilon: Number = 1e-08,
    initial_accumulator: float = 0.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `cowclip_adagrad`: Zheng et al. 2022, arXiv:2204.06240, algorithm 1; FBGEMM
    (docs/reference/rules.md#cowclip_adagrad).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    clip_ratio: largest norm of a row's gradient, as a share of the row's norm, for each counted update (>=
        0).
    lower_bound: smallest value of that limit, for rows near 0 (>= 0).
    count_decay: what remains of the count of a row's updates after a step (>= 0 and <= 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    initial_accumulator: value of the sum or average of squares before the first step (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "cowclip_adagrad",
            "clip_ratio": clip_ratio,
            "lower_bound": lower_bound,
            "count_decay": count_decay,
            "epsilon": epsilon,
            "initial_accumulator": initial_accumulator,
        },
        lr,
        options,
    )


def dadapt_adam(
    lr: Rate,
    *,
    beta1: Number = 0.9,
    beta2: Number = 0.999,
    epsilon: Number = 1e-08,
    d0: float = 1e-06,
    growth_rate: Number = math.inf,
    use_bias_correction: bool = False,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `dadapt_adam`: Defazio & Mishchenko 2023, arXiv:2301.07733, algorithm 5
    (docs/reference/rules.md#dadapt_adam).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, the average of the gradient, per step (>= 0 and < 1).
    beta2: decay of the second moment, the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    d0: the first estimate of the learning rate (> 0).
    growth_rate: largest factor by which the estimate grows in a step (>= 1, or infinity).
    use_bias_correction: whether the moments are corrected for their beginning at 0, as in Adam.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "dadapt_adam",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
            "d0": d0,
            "growth_rate": growth_rate,
            "use_bias_correction": use_bias_correction,
        },
        lr,
        options,
    )


def dadapt_sgd(
    lr: Rate,
    *,
    mu: Number = 0.0,
    d0: float = 1e-06,
    growth_rate: Number = math.inf,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `dadapt_sgd`: Defazio & Mishchenko 2023, arXiv:2301.07733, algorithm 4
    (docs/reference/rules.md#dadapt_sgd).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    mu: momentum: share of the buffer that remains after a step (>= 0 and < 1).
    d0: the first estimate of the learning rate, times the norm of the first gradient (> 0).
    growth_rate: largest factor by which the estimate grows in a step (>= 1, or infinity).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"name": "dadapt_sgd", "mu": mu, "d0": d0, "growth_rate": growth_rate}, lr, options)


def decayed_adagrad(
    lr: Rate,
    *,
    rho: Number = 0.95,
    epsilon: Number = 1e-06,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `decayed_adagrad` (docs/reference/rules.md#decayed_adagrad).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    rho: decay of the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"name": "decayed_adagrad", "rho": rho, "epsilon": epsilon}, lr, options)


def dgc_momentum(
    lr: Rate,
    *,
    mu: Number = 0.9,
    rampup_begin_step: int = 0,
    rampup_step: int = 1,
    sparsity: Sequence[float] = (0.999,),
    nesterov: bool = False,
    local_grad_clip_norm: Number = math.inf,
    num_trainers: int = 1,
    dense_below: int = 16384,
    selected: Literal["exact", "sampled"] = "exact",
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `dgc_momentum`: Lin, Han, Mao, Wang & Dally 2018, arXiv:1712.01887, algorithm 4
    (docs/reference/rules.md#dgc_momentum).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    mu: momentum: share of the buffer that remains after a step (>= 0 and < 1).
    rampup_begin_step: steps before compression begins (>= 0).
    rampup_step: steps over which the list `sparsity` is run through (>= 1).
    sparsity: share of the entries that are not sent: one item after the other during the ramp, then the last
        (each >= 0 and < 1).
    nesterov: Nesterov's look-ahead instead of the heavy ball.
    local_grad_clip_norm: limit of the gradient's norm, for all trainers together; each trainer clips to limit
        / sqrt(num_trainers) (> 0, or infinity).
    num_trainers: trainers that exchange gradients (>= 1).
    dense_below: tensors with fewer elements are always sent whole (>= 0).
    selected: how the largest entries are found: `exact`, or `sampled` (an estimated threshold, at most twice
        as many entries).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "dgc_momentum",
            "mu": mu,
            "rampup_begin_step": rampup_begin_step,
            "rampup_step": rampup_step,
            "sparsity": sparsity,
            "nesterov": nesterov,
            "local_grad_clip_norm": local_grad_clip_norm,
            "num_trainers": num_trainers,
            "dense_below": dense_below,
            "selected": selected,
        },
        lr,
        options,
    )


def dog(
    lr: Rate,
    *,
    initial: float = 1e-06,
    epsilon: Number = 1e-08,
    initial_is: Literal["relative_distance", "distance", "step_size"] = "relative_distance",
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `dog`: Ivgi, Hinder & Carmon 2023, arXiv:2302.12022, eq. 3 (docs/reference/rules.md#dog).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    initial: the first distance or step size, in the unit of `initial_is` (> 0).
    epsilon: added to the sum of all squared gradients (>= 0).
    initial_is: what `initial` is: the distance divided by 1 + the norm of the initial weights, the
        `distance`, or the `step_size` of step 1.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "dog",
            "initial": initial,
            "epsilon": epsilon,
            "initial_is": initial_is,
        },
        lr,
        options,
    )


def dowg(lr: Rate, *, initial: float = 0.0001, epsilon: Number = 0.0001, **options: Unpack[Options]) -> dict[str, Any]:
    """The rule `dowg`: Khaled, Mishchenko & Jin 2023, arXiv:2305.16284, algorithm 1
    (docs/reference/rules.md#dowg).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    initial: square of the first distance (> 0).
    epsilon: added to the root of the weighted sum of squared gradients (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"name": "dowg", "initial": initial, "epsilon": epsilon}, lr, options)


def fromage(lr: Rate, *, min_norm: Number = 0.0, **options: Unpack[Options]) -> dict[str, Any]:
    """The rule `fromage`: Bernstein et al. 2020, arXiv:2002.03432, algorithm 1
    (docs/reference/rules.md#fromage).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    min_norm: lower limit of both norms (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"name": "fromage", "min_norm": min_norm}, lr, options)


def ftml(
    lr: Rate,
    *,
    beta1: Number = 0.6,
    beta2: Number = 0.999,
    epsilon: Number = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `ftml`: Zheng & Kwok 2017 (ICML), algorithm 1 (docs/reference/rules.md#ftml).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: lowers the rate of the first steps from lr to (1 - beta1) * lr (>= 0 and < 1).
    beta2: decay of the second moment, the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"name": "ftml", "beta1": beta1, "beta2": beta2, "epsilon": epsilon}, lr, options)


def ftrl(
    lr: Rate,
    *,
    l1: float = 0.0,
    l2: float = 0.0,
    beta: float = 1.0,
    lr_power: float = -0.5,
    initial_accumulator: float = 0.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `ftrl`: McMahan et al. 2013 (KDD), algorithm 1 (docs/reference/rules.md#ftrl).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    l1: strength of the L1 penalty, which makes weights exactly 0 (>= 0).
    l2: strength of the L2 penalty (>= 0).
    beta: added to the root of the sum of squares: lowers the rates of the first steps (>= 0).
    lr_power: minus the power of the sum of squares in the divisor; -0.5 is the square root (<= 0).
    initial_accumulator: value of the sum or average of squares before the first step (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "ftrl",
            "l1": l1,
            "l2": l2,
            "beta": beta,
            "lr_power": lr_power,
            "initial_accumulator": initial_accumulator,
        },
        lr,
        options,
    )


def group_adagrad(
    lr: Rate,
    *,
    l21: Number = 0.0,
    beta: Number = 0.0,
    initial_accumulator: float = 0.1,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `group_adagrad`: Monolith's group_adagrad (docs/reference/rules.md#group_adagrad).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    l21: strength of the group lasso, which takes all weights of a row to 0 together (>= 0).
    beta: added to the root of the sum of squares: lowers the rates of the first steps (>= 0).
    initial_accumulator: value of the sum or average of squares before the first step (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "group_adagrad",
            "l21": l21,
            "beta": beta,
            "initial_accumulator": initial_accumulator,
        },
        lr,
        options,
    )


def group_ftrl(
    lr: Rate,
    *,
    l1: Number = 0.0,
    l2: Number = 0.0,
    l21: Number = 0.0,
    beta: Number = 1.0,
    initial_accumulator: float = 0.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `group_ftrl`: Yue et al. 2021, arXiv:2107.14432 (docs/reference/rules.md#group_ftrl).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    l1: strength of the L1 penalty, which makes weights exactly 0 (>= 0).
    l2: strength of the L2 penalty (>= 0).
    l21: strength of the group lasso, which takes all weights of a row to 0 together (>= 0).
    beta: added to the root of the sum of squares: lowers the rates of the first steps (>= 0).
    initial_accumulator: value of the sum or average of squares before the first step (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "group_ftrl",
            "l1": l1,
            "l2": l2,
            "l21": l21,
            "beta": beta,
            "initial_accumulator": initial_accumulator,
        },
        lr,
        options,
    )


def lamb(
    lr: Rate,
    *,
    beta1: Number = 0.9,
    beta2: Number = 0.999,
    epsilon: Number = 1e-06,
    decay: Number = 0.0,
    bias_correction: bool = True,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `lamb`: You et al. 2020, arXiv:1904.00962, algorithm 2 (docs/reference/rules.md#lamb).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, the average of the gradient, per step (>= 0 and < 1).
    beta2: decay of the second moment, the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    decay: weight decay, which is part of the norm (>= 0).
    bias_correction: whether the averages are corrected for their beginning at 0; `false` in BERT's Adam and
        by default in mlx.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "lamb",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
            "decay": decay,
            "bias_correction": bias_correction,
        },
        lr,
        options,
    )


def laprop(
    lr: Rate,
    *,
    beta1: Number = 0.9,
    beta2: Number = 0.999,
    epsilon: Number = 1e-15,
    bias_correction: bool = True,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `laprop`: Ziyin, Wang & Ueda 2020, arXiv:2002.04839, algorithm 1
    (docs/reference/rules.md#laprop).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, the average of the gradient, per step (>= 0 and < 1).
    beta2: decay of the second moment, the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    bias_correction: whether the averages are corrected for their beginning at 0; `false` in BERT's Adam and
        by default in mlx.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "laprop",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
            "bias_correction": bias_correction,
        },
        lr,
        options,
    )


def lars(
    lr: Rate,
    *,
    mu: Number = 0.9,
    trust: Number = 0.001,
    epsilon: Number = 0.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `lars`: You, Gitman & Ginsburg 2017, arXiv:1708.03888, algorithm 1
    (docs/reference/rules.md#lars).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    mu: momentum: share of the buffer that remains after a step (>= 0 and < 1).
    trust: step length as a share of the weight's norm, at a learning rate of 1 (> 0).
    epsilon: added to the gradient's norm in the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"name": "lars", "mu": mu, "trust": trust, "epsilon": epsilon}, lr, options)


def lion(lr: Rate, *, beta1: Number = 0.9, beta2: Number = 0.99, **options: Unpack[Options]) -> dict[str, Any]:
    """The rule `lion`: Chen et al. 2023, arXiv:2302.06675, algorithm 2 (docs/reference/rules.md#lion).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: share of the momentum in the direction whose sign is taken (>= 0 and < 1).
    beta2: decay of the momentum, per step (>= 0 and < 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"name": "lion", "beta1": beta1, "beta2": beta2}, lr, options)


def madgrad(lr: Rate, *, mu: Number = 0.9, epsilon: Number = 1e-06, **options: Unpack[Options]) -> dict[str, Any]:
    """The rule `madgrad`: Defazio & Jelassi 2021, arXiv:2101.11075, algorithm 1
    (docs/reference/rules.md#madgrad).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    mu: momentum: share of the weight that remains in a step; the rest moves to z (>= 0 and < 1).
    epsilon: added to the cube root in the divisor (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"name": "madgrad", "mu": mu, "epsilon": epsilon}, lr, options)


def momentum(
    lr: Rate,
    *,
    mu: Number = 0.9,
    dampening: Number = 0.0,
    rate_place: Literal["outside", "inside"] = "outside",
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `momentum`: Polyak 1964; Sutskever et al. 2013, section 2 (docs/reference/rules.md#momentum).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    mu: momentum: share of the buffer that remains after a step (>= 0 and < 1).
    dampening: share of the gradient that does not enter the buffer, from the second step on (>= 0 and < 1).
    rate_place: `outside`: the rate multiplies the buffer when it is read; `inside`: what enters the buffer.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "momentum",
            "mu": mu,
            "dampening": dampening,
            "rate_place": rate_place,
        },
        lr,
        options,
    )


def momentum_rmsprop(
    lr: Rate,
    *,
    rho: Number = 0.99,
    epsilon: Number = 1e-08,
    mu: Number = 0.9,
    epsilon_place: Literal["outside", "inside"] = "outside",
    initial_accumulator: float = 0.0,
    rate_place: Literal["outside", "inside"] = "outside",
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `momentum_rmsprop`: Tieleman & Hinton 2012 (docs/reference/rules.md#momentum_rmsprop).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    rho: decay of the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    mu: momentum: share of the buffer that remains after a step (>= 0 and < 1).
    epsilon_place: where `epsilon` is added: `outside` the root, or `inside` it; `hat`, where it is allowed:
        outside, before bias correction.
    initial_accumulator: value of the sum or average of squares before the first step (>= 0).
    rate_place: `outside`: the rate multiplies the buffer when it is read; `inside`: what enters the buffer.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "momentum_rmsprop",
            "rho": rho,
            "epsilon": epsilon,
            "mu": mu,
            "epsilon_place": epsilon_place,
            "initial_accumulator": initial_accumulator,
            "rate_place": rate_place,
        },
        lr,
        options,
    )


def momentum_sm3(
    lr: Rate,
    *,
    beta1: Number = 0.9,
    beta2: Number = 1.0,
    epsilon: Number = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `momentum_sm3`: Anil et al. 2019, arXiv:1901.11150, section 5
    (docs/reference/rules.md#momentum_sm3).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the average of the divided gradient, per step (>= 0 and < 1).
    beta2: share of the accumulator that remains after a step; 1: a sum (> 0 and <= 1).
    epsilon: added to the accumulator, inside the root (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"name": "momentum_sm3", "beta1": beta1, "beta2": beta2, "epsilon": epsilon}, lr, options)


def momo(
    lr: Rate,
    *,
    beta: Number = 0.9,
    lower_bound: float = 0.0,
    decay: Number = 0.0,
    bias_correction: bool = False,
    adapt_lower_bound: bool = False,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `momo`: Schaipp et al. 2023, arXiv:2305.07583, algorithm 1 (docs/reference/rules.md#momo).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta: decay of the averages of gradient and loss, per step (>= 0 and < 1).
    lower_bound: lower bound of the loss; the first one, if it is estimated.
    decay: weight decay, which is part of the step size (>= 0).
    bias_correction: whether the averages begin at 0 and are corrected for it, instead of at the first
        gradient and loss.
    adapt_lower_bound: whether the lower bound is estimated from step to step.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "momo",
            "beta": beta,
            "lower_bound": lower_bound,
            "decay": decay,
            "bias_correction": bias_correction,
            "adapt_lower_bound": adapt_lower_bound,
        },
        lr,
        options,
    )


def momo_adam(
    lr: Rate,
    *,
    beta1: Number = 0.9,
    beta2: Number = 0.999,
    epsilon: Number = 1e-08,
    lower_bound: float = 0.0,
    decay: Number = 0.0,
    adapt_lower_bound: bool = False,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `momo_adam`: Schaipp et al. 2023, arXiv:2305.07583, algorithm 2
    (docs/reference/rules.md#momo_adam).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, the average of the gradient, per step (>= 0 and < 1).
    beta2: decay of the second moment, the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    lower_bound: lower bound of the loss; the first one, if it is estimated.
    decay: weight decay, which is part of the step size (>= 0).
    adapt_lower_bound: whether the lower bound is estimated from step to step.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "momo_adam",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
            "lower_bound": lower_bound,
            "decay": decay,
            "adapt_lower_bound": adapt_lower_bound,
        },
        lr,
        options,
    )


def muon(
    lr: Rate,
    *,
    mu: Number = 0.95,
    nesterov: bool = True,
    scale: Literal["original", "match_rms_adamw", "spectral_unclamped"] = "original",
    ns_steps: int = 5,
    a: Number = 3.4445,
    b: Number = -4.775,
    c: Number = 2.0315,
    epsilon: Number = 1e-07,
    momentum: Literal["average", "sum"] = "average",
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `muon`: Jordan et al. 2024; Liu et al. 2025, arXiv:2502.16982 (docs/reference/rules.md#muon).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    mu: momentum: share of the buffer that remains after a step (>= 0 and < 1).
    nesterov: Nesterov's look-ahead in the direction.
    scale: factor of the step by the shape: `original` sqrt(max(1, rows / cols)), `match_rms_adamw` 0.2
        sqrt(max(rows, cols)), or `spectral_unclamped` sqrt(rows / cols).
    ns_steps: number of Newton-Schulz iterations (>= 1).
    a: factor of X in an iteration.
    b: factor of X Xt X in an iteration.
    c: factor of (X Xt)^2 X in an iteration.
    epsilon: least norm by which the direction is divided (>= 0).
    momentum: `average`: the gradient enters the buffer by 1 - `mu`; `sum`: as it is.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "muon",
            "mu": mu,
            "nesterov": nesterov,
            "scale": scale,
            "ns_steps": ns_steps,
            "a": a,
            "b": b,
            "c": c,
            "epsilon": epsilon,
            "momentum": momentum,
        },
        lr,
        options,
    )


def nadam(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: Number = 0.999,
    epsilon: Number = 1e-08,
    momentum_decay: float = 0.004,
    epsilon_place: Literal["outside", "inside", "hat"] = "outside",
    bias_correction: bool = True,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `nadam`: Dozat 2016 (docs/reference/rules.md#nadam).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, the average of the gradient, per step (>= 0 and < 1).
    beta2: decay of the second moment, the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    momentum_decay: speed at which the momentum rises towards `beta1`, per step (>= 0).
    epsilon_place: where `epsilon` is added: `outside` the root, or `inside` it; `hat`, where it is allowed:
        outside, before bias correction.
    bias_correction: whether the averages are corrected for their beginning at 0; `false` in BERT's Adam and
        by default in mlx.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "nadam",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
            "momentum_decay": momentum_decay,
            "epsilon_place": epsilon_place,
            "bias_correction": bias_correction,
        },
        lr,
        options,
    )


def nesterov(
    lr: Rate,
    *,
    mu: Number = 0.9,
    dampening: Number = 0.0,
    rate_place: Literal["outside", "inside"] = "outside",
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `nesterov`: Nesterov 1983; Sutskever et al. 2013, eq. 3-4; Bengio et al. 2013,
    arXiv:1212.0901, eq. 7 (docs/reference/rules.md#nesterov).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    mu: momentum: share of the buffer that remains after a step (>= 0 and < 1).
    dampening: share of the gradient that does not enter the buffer, from the second step on (>= 0 and < 1).
    rate_place: `outside`: the rate multiplies the buffer when it is read; `inside`: what enters the buffer.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "nesterov",
            "mu": mu,
            "dampening": dampening,
            "rate_place": rate_place,
        },
        lr,
        options,
    )


def nesterov_adam(
    lr: Rate,
    *,
    beta1: Number = 0.9,
    beta2: Number = 0.999,
    epsilon: Number = 1e-08,
    epsilon_place: Literal["outside", "inside", "hat"] = "outside",
    momentum_bias: Literal["this_step", "next_step"] = "this_step",
    bias_correction: bool = True,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `nesterov_adam`: Dozat 2016, with a constant momentum (docs/reference/rules.md#nesterov_adam).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, the average of the gradient, per step (>= 0 and < 1).
    beta2: decay of the second moment, the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    epsilon_place: where `epsilon` is added: `outside` the root, or `inside` it; `hat`, where it is allowed:
        outside, before bias correction.
    momentum_bias: step of the momentum's bias correction: `this_step` or `next_step`.
    bias_correction: whether the averages are corrected for their beginning at 0; `false` in BERT's Adam and
        by default in mlx.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "nesterov_adam",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
            "epsilon_place": epsilon_place,
            "momentum_bias": momentum_bias,
            "bias_correction": bias_correction,
        },
        lr,
        options,
    )


def noisy_sgd(lr: Rate, *, eta: Number = 0.01, gamma: Number = 0.55, **options: Unpack[Options]) -> dict[str, Any]:
    """The rule `noisy_sgd`: Neelakantan et al. 2015, arXiv:1511.06807 (docs/reference/rules.md#noisy_sgd).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    eta: variance of the noise in the gradient at step 1 (>= 0).
    gamma: power of the step number by which the variance falls (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"name": "noisy_sgd", "eta": eta, "gamma": gamma}, lr, options)


def novograd(
    lr: Rate,
    *,
    beta1: Number = 0.95,
    beta2: Number = 0.98,
    epsilon: Number = 1e-08,
    weight_decay: Number = 0.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `novograd`: Ginsburg et al. 2019, arXiv:1905.11286, algorithm 1
    (docs/reference/rules.md#novograd).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, the average of the gradient, per step (>= 0 and < 1).
    beta2: decay of the average of the gradient's squared norm, per step (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    weight_decay: weight decay, which enters the momentum (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "novograd",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
            "weight_decay": weight_decay,
        },
        lr,
        options,
    )


def optimistic_adam(
    lr: Rate,
    *,
    alpha: Number = 1.0,
    beta: Number = 1.0,
    beta1: Number = 0.9,
    beta2: Number = 0.999,
    epsilon: Number = 1e-08,
    nesterov: bool = False,
    epsilon_place: Literal["outside", "inside", "hat"] = "outside",
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `optimistic_adam`: Daskalakis et al. 2018, arXiv:1711.00141, algorithm 1
    (docs/reference/rules.md#optimistic_adam).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    alpha: weight of the direction (>= 0).
    beta: weight of the difference between the direction and the previous one (>= 0).
    beta1: decay of the first moment, the average of the gradient, per step (>= 0 and < 1).
    beta2: decay of the second moment, the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    nesterov: Nesterov's look-ahead in the direction.
    epsilon_place: where `epsilon` is added: `outside` the root, or `inside` it; `hat`, where it is allowed:
        outside, before bias correction.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "optimistic_adam",
            "alpha": alpha,
            "beta": beta,
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
            "nesterov": nesterov,
            "epsilon_place": epsilon_place,
        },
        lr,
        options,
    )


def optimistic_sgd(lr: Rate, *, alpha: Number = 1.0, beta: Number = 1.0, **options: Unpack[Options]) -> dict[str, Any]:
    """The rule `optimistic_sgd`: Popov 1980; Mokhtari et al. 2019, arXiv:1901.08511
    (docs/reference/rules.md#optimistic_sgd).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    alpha: weight of the gradient (>= 0).
    beta: weight of the difference between the gradient and the previous one (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"name": "optimistic_sgd", "alpha": alpha, "beta": beta}, lr, options)


def pnm(lr: Rate, *, beta1: Number = 0.9, beta0: Number = 1.0, **options: Unpack[Options]) -> dict[str, Any]:
    """The rule `pnm`: Xie et al. 2021, arXiv:2103.17182 (docs/reference/rules.md#pnm).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: its square is the decay of each momentum, per two steps (>= 0 and < 1).
    beta0: weight of the negative momentum.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"name": "pnm", "beta1": beta1, "beta0": beta0}, lr, options)


def polyak_sgd(
    lr: Rate,
    *,
    f_min: Number = 0.0,
    max_learning_rate: Number = 1.0,
    epsilon: Number = 0.0,
    variant: Literal["sps", "sps_plus"] = "sps",
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `polyak_sgd`: Polyak 1987; Loizou et al. 2021, arXiv:2002.10542
    (docs/reference/rules.md#polyak_sgd).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    f_min: the smallest loss.
    max_learning_rate: largest step size (> 0, or infinity).
    epsilon: added to the squared norm of the gradient (>= 0).
    variant: what a loss below `f_min` does: `sps` steps backwards, `sps_plus` does not move.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "polyak_sgd",
            "f_min": f_min,
            "max_learning_rate": max_learning_rate,
            "epsilon": epsilon,
            "variant": variant,
        },
        lr,
        options,
    )


def prodigy(
    lr: Rate,
    *,
    beta1: Number = 0.9,
    beta2: Number = 0.999,
    beta3: Number = 0.0,
    epsilon: Number = 1e-08,
    d0: float = 1e-06,
    d_coef: Number = 1.0,
    growth_rate: Number = math.inf,
    use_bias_correction: bool = False,
    safeguard_warmup: bool = False,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `prodigy`: Mishchenko & Defazio 2023, arXiv:2306.06101, algorithm 4
    (docs/reference/rules.md#prodigy).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, the average of the gradient, per step (>= 0 and < 1).
    beta2: decay of the second moment, the average of the squared gradient, per step (>= 0 and < 1).
    beta3: decay of the sums of which the estimate is a quotient, per step; 0 stands for the root of `beta2`
        (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    d0: the first estimate of the learning rate (> 0).
    d_coef: factor of the estimate (> 0).
    growth_rate: largest factor by which the estimate grows in a step (>= 1, or infinity).
    use_bias_correction: whether the moments are corrected for their beginning at 0, as in Adam.
    safeguard_warmup: leaves the learning rate out of the divisor of the estimate, for schedules that warm up.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "prodigy",
            "beta1": beta1,
            "beta2": beta2,
            "beta3": beta3,
            "epsilon": epsilon,
            "d0": d0,
            "d_coef": d_coef,
            "growth_rate": growth_rate,
            "use_bias_correction": use_bias_correction,
            "safeguard_warmup": safeguard_warmup,
        },
        lr,
        options,
    )


def proximal_adagrad(
    lr: Rate,
    *,
    l1: Number = 0.0,
    l2: Number = 0.0,
    initial_accumulator: float = 0.1,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `proximal_adagrad`: Duchi & Singer 2009; Duchi, Hazan & Singer 2011, section 5.1
    (docs/reference/rules.md#proximal_adagrad).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    l1: strength of the L1 penalty, which makes weights exactly 0 (>= 0).
    l2: strength of the L2 penalty (>= 0).
    initial_accumulator: value of the sum or average of squares before the first step (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "proximal_adagrad",
            "l1": l1,
            "l2": l2,
            "initial_accumulator": initial_accumulator,
        },
        lr,
        options,
    )


def qhadam(
    lr: Rate,
    *,
    beta1: Number = 0.995,
    beta2: Number = 0.999,
    nu1: Number = 0.7,
    nu2: Number = 1.0,
    epsilon: Number = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `qhadam`: Ma & Yarats 2019, arXiv:1810.06801, section 4 (docs/reference/rules.md#qhadam).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, the average of the gradient, per step (>= 0 and < 1).
    beta2: decay of the second moment, the average of the squared gradient, per step (>= 0 and < 1).
    nu1: share of the average of the gradient in a step; the rest is the gradient (>= 0 and <= 1).
    nu2: share of the second moment under the root; the rest is the squared gradient (>= 0 and <= 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "qhadam",
            "beta1": beta1,
            "beta2": beta2,
            "nu1": nu1,
            "nu2": nu2,
            "epsilon": epsilon,
        },
        lr,
        options,
    )


def qhm(lr: Rate, *, beta: Number = 0.999, nu: Number = 0.7, **options: Unpack[Options]) -> dict[str, Any]:
    """The rule `qhm`: Ma & Yarats 2019, arXiv:1810.06801, eq. 3-4 (docs/reference/rules.md#qhm).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta: decay of the average of the gradient, per step (>= 0 and < 1).
    nu: share of the average in a step; the rest is the gradient (>= 0 and <= 1).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"name": "qhm", "beta": beta, "nu": nu}, lr, options)


def radam(
    lr: Rate,
    *,
    beta1: Number = 0.9,
    beta2: Number = 0.999,
    epsilon: Number = 1e-08,
    epsilon_place: Literal["outside", "inside", "hat"] = "outside",
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `radam`: Liu et al. 2020, arXiv:1908.03265, algorithm 2 (docs/reference/rules.md#radam).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, the average of the gradient, per step (>= 0 and < 1).
    beta2: decay of the second moment, the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    epsilon_place: where `epsilon` is added: `outside` the root, or `inside` it; `hat`, where it is allowed:
        outside, before bias correction.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "radam",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
            "epsilon_place": epsilon_place,
        },
        lr,
        options,
    )


def rmsprop(
    lr: Rate,
    *,
    rho: Number = 0.99,
    epsilon: Number = 1e-08,
    epsilon_place: Literal["outside", "inside"] = "outside",
    initial_accumulator: float = 0.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `rmsprop`: Tieleman & Hinton 2012, lecture 6.5 (docs/reference/rules.md#rmsprop).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    rho: decay of the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    epsilon_place: where `epsilon` is added: `outside` the root, or `inside` it; `hat`, where it is allowed:
        outside, before bias correction.
    initial_accumulator: value of the sum or average of squares before the first step (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "rmsprop",
            "rho": rho,
            "epsilon": epsilon,
            "epsilon_place": epsilon_place,
            "initial_accumulator": initial_accumulator,
        },
        lr,
        options,
    )


def rowwise_adagrad(
    lr: Rate,
    *,
    epsilon: Number = 1e-10,
    initial_accumulator: float = 0.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `rowwise_adagrad`: Mudigere et al. 2022, arXiv:2104.05158, section 4.1.4
    (docs/reference/rules.md#rowwise_adagrad).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    initial_accumulator: value of the sum or average of squares before the first step (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "rowwise_adagrad",
            "epsilon": epsilon,
            "initial_accumulator": initial_accumulator,
        },
        lr,
        options,
    )


def rowwise_adam(
    lr: Rate,
    *,
    beta1: Number = 0.9,
    beta2: Number = 0.999,
    epsilon: Number = 1e-08,
    bias_correction: bool = True,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `rowwise_adam` (docs/reference/rules.md#rowwise_adam).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, the average of the gradient, per step (>= 0 and < 1).
    beta2: decay of the second moment, the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    bias_correction: whether the averages are corrected for their beginning at 0; `false` in BERT's Adam and
        by default in mlx.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "rowwise_adam",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
            "bias_correction": bias_correction,
        },
        lr,
        options,
    )


def rowwise_rmsprop(
    lr: Rate,
    *,
    beta: Number = 0.99,
    epsilon: Number = 1e-08,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `rowwise_rmsprop` (docs/reference/rules.md#rowwise_rmsprop).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta: decay of the average of the squared gradient, per step with a gradient (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"name": "rowwise_rmsprop", "beta": beta, "epsilon": epsilon}, lr, options)


def rprop(
    lr: Rate,
    *,
    initial_step: float = 0.01,
    shrink: Number = 0.5,
    grow: Number = 1.2,
    smallest_step: Number = 1e-06,
    largest_step: Number = 50.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `rprop`: Riedmiller & Braun 1993; Igel & Huesken 2003 (docs/reference/rules.md#rprop).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    initial_step: step size of every weight at the first step; the learning rate of torch (> 0).
    shrink: factor of the step size when the gradient changes its sign (> 0 and < 1).
    grow: factor of the step size when the gradient keeps its sign (>= 1).
    smallest_step: lower limit of the step size (>= 0).
    largest_step: upper limit of the step size (> 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "rprop",
            "initial_step": initial_step,
            "shrink": shrink,
            "grow": grow,
            "smallest_step": smallest_step,
            "largest_step": largest_step,
        },
        lr,
        options,
    )


def schedule_free_adam(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: Number = 0.999,
    epsilon: Number = 1e-08,
    decay: Number = 0.0,
    step_power: Number = 0.0,
    rate_power: Number = 2.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `schedule_free_adam`: Defazio et al. 2024, arXiv:2405.15682, algorithm 1
    (docs/reference/rules.md#schedule_free_adam).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: share of the average x in the weight y at which gradients are taken (> 0 and <= 1).
    beta2: decay of the second moment, the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    decay: weight decay, which is part of the step at y (>= 0).
    step_power: power of the step number in the weights of the average; more than 0: later steps have larger
        weights (>= 0).
    rate_power: power of the highest rate so far in the weights of the average; 0: all steps have the same
        weight (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "schedule_free_adam",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
            "decay": decay,
            "step_power": step_power,
            "rate_power": rate_power,
        },
        lr,
        options,
    )


def schedule_free_radam(
    lr: Rate,
    *,
    beta1: float = 0.9,
    beta2: Number = 0.999,
    epsilon: Number = 1e-08,
    decay: Number = 0.0,
    step_power: Number = 0.0,
    rate_power: Number = 2.0,
    sgd_phase: bool = False,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `schedule_free_radam`: Defazio et al. 2024, with Liu et al. 2020
    (docs/reference/rules.md#schedule_free_radam).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: share of the average x in the weight y at which gradients are taken (> 0 and <= 1).
    beta2: decay of the second moment, the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    decay: weight decay, which is part of the step at y (>= 0).
    step_power: power of the step number in the weights of the average; more than 0: later steps have larger
        weights (>= 0).
    rate_power: power of the highest rate so far in the weights of the average; 0: all steps have the same
        weight (>= 0).
    sgd_phase: whether the first steps, before the second moment is used, are steps of SGD; otherwise only v
        changes.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "schedule_free_radam",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
            "decay": decay,
            "step_power": step_power,
            "rate_power": rate_power,
            "sgd_phase": sgd_phase,
        },
        lr,
        options,
    )


def schedule_free_sgd(
    lr: Rate,
    *,
    beta: float = 0.9,
    step_power: Number = 0.0,
    rate_power: Number = 2.0,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `schedule_free_sgd`: Defazio et al. 2024, arXiv:2405.15682, eq. 2-4
    (docs/reference/rules.md#schedule_free_sgd).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta: share of the average x in the weight y at which gradients are taken (> 0 and <= 1).
    step_power: power of the step number in the weights of the average; more than 0: later steps have larger
        weights (>= 0).
    rate_power: power of the highest rate so far in the weights of the average; 0: all steps have the same
        weight (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "schedule_free_sgd",
            "beta": beta,
            "step_power": step_power,
            "rate_power": rate_power,
        },
        lr,
        options,
    )


def sgd(lr: Rate, **options: Unpack[Options]) -> dict[str, Any]:
    """The rule `sgd`: Robbins & Monro 1951 (docs/reference/rules.md#sgd).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"name": "sgd"}, lr, options)


def sgld(lr: Rate, *, temperature: Number = 1.0, **options: Unpack[Options]) -> dict[str, Any]:
    """The rule `sgld`: Welling & Teh 2011 (ICML), eq. 4 (docs/reference/rules.md#sgld).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    temperature: temperature of the distribution that the weights are samples of: noise of the variance 2 * lr
        * temperature (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"name": "sgld", "temperature": temperature}, lr, options)


def sm3(lr: Rate, *, beta2: Number = 1.0, epsilon: Number = 0.0, **options: Unpack[Options]) -> dict[str, Any]:
    """The rule `sm3`: Anil et al. 2019, arXiv:1901.11150, algorithm SM3-II (docs/reference/rules.md#sm3).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta2: share of the accumulator that remains after a step; 1: a sum (> 0 and <= 1).
    epsilon: added to the accumulator, inside the root (>= 0).
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration({"name": "sm3", "beta2": beta2, "epsilon": epsilon}, lr, options)


def stable_adamw(
    lr: Rate,
    *,
    beta1: Number = 0.9,
    beta2: Number = 0.99,
    epsilon: Number = 1e-08,
    weight_decay: Number = 0.0,
    bias_correction: bool = True,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `stable_adamw`: Wortsman et al. 2023, arXiv:2304.13013, algorithm 2
    (docs/reference/rules.md#stable_adamw).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, the average of the gradient, per step (>= 0 and < 1).
    beta2: decay of the second moment, the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    weight_decay: weight decay, at the lowered rate (>= 0).
    bias_correction: whether the averages are corrected for their beginning at 0; `false` in BERT's Adam and
        by default in mlx.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "stable_adamw",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
            "weight_decay": weight_decay,
            "bias_correction": bias_correction,
        },
        lr,
        options,
    )


def two_buffer_adagrad(
    lr: Rate,
    *,
    epsilon: Number = 1e-10,
    initial_accumulator: float = 0.0,
    period: int = 16384,
    epsilon_place: Literal["outside", "inside"] = "outside",
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `two_buffer_adagrad` (docs/reference/rules.md#two_buffer_adagrad).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    initial_accumulator: value of the sum or average of squares before the first step (>= 0).
    period: steps after which the second buffer is added to the sum (>= 1).
    epsilon_place: where `epsilon` is added: `outside` the root, or `inside` it; `hat`, where it is allowed:
        outside, before bias correction.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "two_buffer_adagrad",
            "epsilon": epsilon,
            "initial_accumulator": initial_accumulator,
            "period": period,
            "epsilon_place": epsilon_place,
        },
        lr,
        options,
    )


def yogi(
    lr: Rate,
    *,
    beta1: Number = 0.9,
    beta2: Number = 0.999,
    epsilon: Number = 0.001,
    initial_accumulator: float = 1e-06,
    bias_correction: bool = True,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """The rule `yogi`: Zaheer et al. 2018, algorithm 2 (docs/reference/rules.md#yogi).

    lr: the learning rate, a number or a schedule of `gradstep.schedules`.
    beta1: decay of the first moment, the average of the gradient, per step (>= 0 and < 1).
    beta2: decay of the second moment, the average of the squared gradient, per step (>= 0 and < 1).
    epsilon: added to the divisor, so that small gradients do not give unbounded steps (>= 0).
    initial_accumulator: value of both moments before the first step (>= 0).
    bias_correction: whether the averages are corrected for their beginning at 0; `false` in BERT's Adam and
        by default in mlx.
    options: what else a configuration has, as `gradstep.Options` lists it.
    """
    return configuration(
        {
            "name": "yogi",
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
            "initial_accumulator": initial_accumulator,
            "bias_correction": bias_correction,
        },
        lr,
        options,
    )
