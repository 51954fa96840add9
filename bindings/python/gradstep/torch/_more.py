"""More optimizers by torch's names: those that take dense gradients only and count their steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from .._library import Status, error
from ._classes import _LATER, _TorchOptimizer, _with_l2
from ._steps import number

_OPTIONS = {**{name: x for name, x in _LATER.items() if name != "fused"}, "capturable": False}


class _Dense(_TorchOptimizer):
    """What these classes have in common."""

    @classmethod
    def _torch_name(cls) -> str:
        return next(x.__name__ for x in cls.__mro__ if x.__module__ == __name__)

    def _rule(self, name: str, group: Mapping[str, Any], *arguments: str) -> dict[str, Any]:
        """A rule of torch, with these options of a group and its betas."""
        rule: dict[str, Any] = {"dialect": "torch", "name": name, "eps": number(group["eps"])}
        if "betas" in group:
            rule["beta1"], rule["beta2"] = map(number, group["betas"])
        return {**rule, **{argument: number(group[argument]) for argument in arguments}}


class Adadelta(_Dense):
    """torch.optim.Adadelta."""

    _names = {"n": "square_avg", "u": "acc_delta"}
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

    def _policies(self, group: Mapping[str, Any]) -> dict[str, Any]:
        return _with_l2(self._rule("adadelta", group, "rho"), group["weight_decay"])


class Adamax(_Dense):
    """torch.optim.Adamax."""

    _names = {"m": "exp_avg", "u": "exp_inf"}
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

    def _policies(self, group: Mapping[str, Any]) -> dict[str, Any]:
        return _with_l2(self._rule("adamax", group), group["weight_decay"])


class RAdam(_Dense):
    """torch.optim.RAdam."""

    _names = {"m": "exp_avg", "v": "exp_avg_sq"}
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

    def _policies(self, group: Mapping[str, Any]) -> dict[str, Any]:
        decay = "decoupled" if group["decoupled_weight_decay"] else "l2"
        return _with_l2(self._rule("radam", group), group["weight_decay"], decay)


class NAdam(_Dense):
    """torch.optim.NAdam. The product of its momenta is computed from the number of the step, and is in state_dict alone. A state_dict
    whose product is another one, because the options changed during the run, is refused."""

    _names = {"m": "exp_avg", "v": "exp_avg_sq"}
    _later_options = {**_OPTIONS, "decoupled_weight_decay": False}

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

    def _policies(self, group: Mapping[str, Any]) -> dict[str, Any]:
        decay = "decoupled" if group["decoupled_weight_decay"] else "l2"
        return _with_l2(self._rule("nadam", group, "momentum_decay"), group["weight_decay"], decay)

    def state_dict(self) -> dict[str, Any]:
        """As torch's, with the product of the momenta."""
        saved = super().state_dict()
        for group in saved["param_groups"]:
            for index in group["params"]:
                state = saved["state"].get(index)
                if state and "step" in state:
                    product = torch.tensor(_momentum_product(group, float(state["step"])), dtype=torch.float32, device="cpu")
                    saved["state"][index] = {**state, "mu_product": product}
        return saved

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from a state_dict of this optimizer, or of torch's of the same name. Nothing is shared with the one it came from."""
        for index, group in enumerate(state_dict["param_groups"]):
            for position, key in enumerate(group["params"]):
                state = state_dict["state"].get(key, {})
                if state.get("mu_product") is None:
                    continue
                step = float(state.get("step", 0))
                found, expected = float(state["mu_product"]), _momentum_product(group, step)
                # torch rounds each momentum and each product to float32.
                if not abs(found - expected) <= expected * math.expm1(2 * step * 2.0**-24) + 2.0**-126:
                    raise error(
                        Status.BAD_VALUE,
                        f"parameter {position} of group {index}: its state mu_product is {found}; expected {expected}, which betas and "
                        f"momentum_decay give after {int(step)} steps: they changed during the run",
                    )
        super().load_state_dict(state_dict)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for each in self.state.values():
            each.pop("mu_product", None)


def _momentum_product(group: Mapping[str, Any], t: float) -> float:
    """Of beta1 (1 - 0.96^(momentum_decay k) / 2), k = 1 to t, as the library computes it: log(1 - x) in 55 terms of its series."""
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
