"""More optimizers with torch's names. They accept only dense gradients and count their steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from .._library import Status, error
from ._classes import _LATER, _TorchOptimizer
from ._updaters import Updater, number

_OPTIONS = {**{name: x for name, x in _LATER.items() if name != "fused"}, "capturable": False}


class _Dense(_TorchOptimizer):
    """The base class of the optimizers in this module."""

    @classmethod
    def _torch_name(cls) -> str:
        return next(x.__name__ for x in cls.__mro__ if x.__module__ == __name__)


class Adadelta(_Dense):
    """Drop-in replacement for torch.optim.Adadelta, for dense gradients.

    The arguments `foreach`, `capturable`, `differentiable` and `threads` are as in `Adam`.
    """

    _names = {"n": "square_avg", "u": "acc_delta"}
    _preset = "adadelta"
    _later_options = _OPTIONS

    def __init__(
        self,
        params: Any,
        lr: float | torch.Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
        threads: int = 0,
    ) -> None:
        self._begin_as_torch(locals())


class Adamax(_Dense):
    """Drop-in replacement for torch.optim.Adamax, for dense gradients.

    The arguments `foreach`, `capturable`, `differentiable` and `threads` are as in `Adam`.
    """

    _names = {"m": "exp_avg", "u": "exp_inf"}
    _preset = "adamax"
    _later_options = _OPTIONS

    def __init__(
        self,
        params: Any,
        lr: float | torch.Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
        threads: int = 0,
    ) -> None:
        self._begin_as_torch(locals())


class RAdam(_Dense):
    """Drop-in replacement for torch.optim.RAdam, for dense gradients.

    The arguments `foreach`, `capturable`, `differentiable` and `threads` are as in `Adam`.
    """

    _names = {"m": "exp_avg", "v": "exp_avg_sq"}
    _preset = "radam"
    _later_options = {**_OPTIONS, "decoupled_weight_decay": False}

    def __init__(
        self,
        params: Any,
        lr: float | torch.Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        threads: int = 0,
    ) -> None:
        self._begin_as_torch(locals())


class Muon(_Dense):
    """Drop-in replacement for torch.optim.Muon, for matrices of float32, bfloat16 and float16.

    Give embeddings, biases and the output layer to another optimizer, such as `AdamW`. The iterations run in float32, while torch
    runs them in bfloat16. The products of matrices run on one thread.
    """

    _names = {"m": "momentum_buffer"}
    _counts = False
    _decoupled = True
    _later_options = {"maximize": False}

    def __init__(
        self,
        params: Any,
        lr: float | torch.Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
        *,
        threads: int = 0,
    ) -> None:
        self._begin_as_torch(locals(), {"maximize": False})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group of matrices. Raises if a parameter has another number of dimensions than two, or is complex."""
        super().add_param_group(param_group)
        for parameter in self.param_groups[-1]["params"]:
            if parameter.is_complex():
                self.param_groups.pop()
                raise NotImplementedError("Muon does not support complex parameters; expected a real matrix")
            if parameter.ndim != 2:
                self.param_groups.pop()
                raise error(
                    Status.BAD_VALUE,
                    f"Muon only supports 2D parameters whereas we found a parameter with size: {parameter.size()}",
                )

    def _policies(self, group: Mapping[str, Any]) -> dict[str, Any]:
        a, b, c = map(number, group["ns_coefficients"])
        rule = {
            "name": "muon",
            "mu": number(group["momentum"]),
            "nesterov": bool(group["nesterov"]),
            "scale": group["adjust_lr_fn"] or "original",
            "ns_steps": int(group["ns_steps"]),
            "a": a,
            "b": b,
            "c": c,
            "epsilon": number(group["eps"]),
        }
        return self._with_decay(rule, group)


class Adafactor(_Dense):
    """Drop-in replacement for torch.optim.Adafactor, for tensors with at most two dimensions.

    The state of a matrix is `row_var` and `col_var`, and the state of other tensors `variance`. torch factors the last two dimensions
    of a tensor with more than two, and this class raises an error. `Optimizer` with the rule `adafactor` updates such tensors: it
    joins the dimensions after the first one. `foreach` has no effect, because every step is fused. A step runs on one thread.
    """

    _names = {"r": "row_var", "c": "col_var", "v": "variance"}
    _preset = "adafactor"
    _decoupled = True
    _later_options = {"foreach": None}

    def __init__(
        self,
        params: Any,
        lr: float | torch.Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        threads: int = 0,
    ) -> None:
        self._begin_as_torch(locals())

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group of parameters. Raises if one has more than two dimensions, or is complex."""
        super().add_param_group(param_group)
        for position, parameter in enumerate(self.param_groups[-1]["params"]):
            if parameter.is_complex():
                self.param_groups.pop()
                raise RuntimeError("Adafactor does not support complex parameters; expected a real tensor")
            if parameter.ndim > 2:
                self.param_groups.pop()
                raise error(
                    Status.BAD_SIZE,
                    f"parameter {position} of group {len(self.param_groups)}: has the shape {tuple(parameter.shape)}; expected at most "
                    "two dimensions, or gradstep.torch.Optimizer with the rule adafactor",
                )

    def _policies(self, group: Mapping[str, Any]) -> dict[str, Any]:
        eps1, eps2 = group["eps"]
        policies = super()._policies({**group, "eps1": 0 if eps1 is None else eps1, "eps2": eps2})
        if eps1 is None:
            policies["rule"]["eps1"] = None
        return policies

    def _of_dtype(self, policies: Mapping[str, Any], dtype: torch.dtype) -> Mapping[str, Any]:
        rule = policies["rule"]
        if rule["eps1"] is None and dtype.is_floating_point:  # the machine epsilon of the parameter's dtype
            return {**policies, "rule": {**rule, "eps1": torch.finfo(dtype).eps}}
        return policies


class _WithDerived(_Dense):
    """For optimizers whose state in torch has a number that gradstep computes from the options and the step.

    Only `state_dict` contains the number. Loading a state_dict with another number raises an error, because its options changed
    during the run.
    """

    _derived_name = ""  # torch's name for the number
    _derived_reason = ""  # the end of the error message, with {} for the step

    @staticmethod
    def _derived(group: Mapping[str, Any], step: float) -> float:
        """The number after a step."""
        raise NotImplementedError

    @staticmethod
    def _rounding(derived: float, step: float) -> float:
        """The largest difference between torch's number and ours."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Returns the state as a dict, in the format of torch's class."""
        saved = super().state_dict()
        for group in saved["param_groups"]:
            for index in group["params"]:
                state = saved["state"].get(index)
                if state and "step" in state:
                    derived = torch.tensor(self._derived(group, float(state["step"])), dtype=torch.float32, device="cpu")
                    saved["state"][index] = {**state, self._derived_name: derived}
        return saved

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state_dict of this class, or of torch's optimizer with the same name.

        All tensors are copied. Raises `InvalidError` if the options changed during the run of the state_dict.
        """
        for index, group in enumerate(state_dict["param_groups"]):
            for position, key in enumerate(group["params"]):
                state = state_dict["state"].get(key, {})
                if state.get(self._derived_name) is None:
                    continue
                step = float(state.get("step", 0))
                found, expected = float(state[self._derived_name]), self._derived(group, step)
                if not abs(found - expected) <= self._rounding(expected, step):
                    raise error(
                        Status.BAD_VALUE,
                        f"parameter {position} of group {index}: its state {self._derived_name} is {found}; expected {expected}, which "
                        f"{self._derived_reason.format(int(step))}",
                    )
        super().load_state_dict(state_dict)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for each in self.state.values():
            each.pop(self._derived_name, None)


class NAdam(_WithDerived):
    """Drop-in replacement for torch.optim.NAdam, for dense gradients.

    The product of the momenta, `mu_product`, is computed from the step, and only `state_dict` contains it. Loading a state_dict
    with another product raises `InvalidError`: `betas` or `momentum_decay` changed during its run.
    The arguments `foreach`, `capturable`, `differentiable` and `threads` are as in `Adam`.
    """

    _names = {"m": "exp_avg", "v": "exp_avg_sq"}
    _preset = "nadam"
    _later_options = {**_OPTIONS, "decoupled_weight_decay": False}
    _derived_name = "mu_product"
    _derived_reason = "betas and momentum_decay give after {} steps: they changed during the run"

    def __init__(
        self,
        params: Any,
        lr: float | torch.Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        threads: int = 0,
    ) -> None:
        self._begin_as_torch(locals())

    @staticmethod
    def _derived(group: Mapping[str, Any], step: float) -> float:
        return _momentum_product(group, step)

    @staticmethod
    def _rounding(derived: float, step: float) -> float:
        return derived * math.expm1(2 * step * 2.0**-24) + 2.0**-126  # torch rounds each momentum and each product to float32


class ASGD(_WithDerived):
    """Drop-in replacement for torch.optim.ASGD: SGD with a decaying learning rate that also averages the weights.

    `lambd` is a decoupled weight decay. The state contains the average, `ax`, and the learning rate of the next step, `eta`. The
    weight of the next step in the average, `mu`, is computed from the step, and only `state_dict` contains it. Loading a state_dict
    with another `mu` raises `InvalidError`: `t0` changed during its run.
    The arguments `foreach`, `capturable`, `differentiable` and `threads` are as in `Adam`.
    """

    _names = {"average": "ax"}
    _rate_options = ("lr", "lambd", "alpha")
    _policy_options = ("lambd",)
    _kept_rate = "eta"
    _derived_name = "mu"
    _derived_reason = "t0 gives after {} steps: it changed during the run"
    _later_options = _OPTIONS

    def __init__(
        self,
        params: Any,
        lr: float | torch.Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
        *,
        threads: int = 0,
    ) -> None:
        self._begin_as_torch(locals())

    def _policies(self, group: Mapping[str, Any]) -> dict[str, Any]:
        decays = [("l2", number(group["weight_decay"])), ("decoupled", number(group["lambd"]))]
        parts = [{"name": name, "rate": rate} for name, rate in decays if rate != 0]
        policies: dict[str, Any] = {
            "rule": {"dialect": "torch", "name": "sgd"},
            "average": {"name": "polyak", "start": int(_averages_after(group)) + 1},  # torch's share is one step behind
        }
        if parts:
            policies["regularizer"] = parts[0] if len(parts) == 1 else {"name": "all_of", "regularizers": parts}
        return policies

    @staticmethod
    def _rate(options: tuple[float, ...], after: int) -> float:
        lr, lambd, alpha = options
        try:
            return lr / math.pow(1 + lambd * lr * after, alpha)
        except OverflowError:
            return 0.0

    @staticmethod
    def _derived(group: Mapping[str, Any], step: float) -> float:
        return 1 / max(1.0, step - _averages_after(group))

    @staticmethod
    def _rounding(derived: float, step: float) -> float:
        return derived * 2.0**-8  # torch casts it to the dtype of the parameter


def _averages_after(group: Mapping[str, Any]) -> float:
    """The step after which torch's ASGD averages the weights. With a very large t0 it never does."""
    t0 = number(group["t0"])
    if t0 >= 0 and (t0 == math.inf or t0 == math.floor(t0)):
        return min(t0, 2.0**53 - 2)
    raise error(Status.BAD_VALUE, f"t0: {t0}; expected a whole number >= 0")


def _momentum_product(group: Mapping[str, Any], t: float) -> float:
    """The product of beta1 (1 - 0.96^(momentum_decay k) / 2), k = 1 to t, with 55 terms of the series of log(1 - x)."""
    beta1, log_q = number(group["betas"][0]), number(group["momentum_decay"]) * math.log(0.96)
    if beta1 == 0:
        return 0.0 if t else 1.0
    total, weight = 0.0, 1.0
    for k in range(1, 56):
        weight /= 2
        x = k * log_q
        powers = t if x == 0 else math.expm1(x * t) / math.expm1(x)
        total += weight / k * math.exp(x) * powers
    return math.exp(t * math.log(beta1) - total)
