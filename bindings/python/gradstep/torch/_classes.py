"""Optimizers with torch's names. torch's own classes check the arguments, so the messages are torch's."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from .._library import Status, error
from ._entries import Sparse
from ._optimizer import Optimizer
from ._updaters import number

_LATER = {"maximize": False, "foreach": None, "differentiable": False, "fused": None}


def _check_as_torch(name: str, arguments: Mapping[str, Any]) -> None:
    """Checks the arguments by torch's class of this name, and raises its error."""
    of_torch = getattr(torch.optim, name, None)
    if of_torch is None:  # an older version of torch
        return
    known = inspect.signature(of_torch).parameters
    try:
        with torch.device("cpu"):
            of_torch([torch.empty((0, 0), device="cpu")], **{x: y for x, y in arguments.items() if x in known})
    except ValueError as reason:
        raise error(Status.BAD_VALUE, str(reason)) from reason


class _TorchOptimizer(Optimizer):
    """The base class of the classes with torch's names."""

    def _begin_as_torch(self, arguments: Mapping[str, Any], also: Mapping[str, Any] | None = None) -> None:
        """Initializes from `arguments`, the locals() of `__init__`. `also`: further options that torch has in its groups."""
        defaults = {name: x for name, x in arguments.items() if name not in ("self", "params", "threads", "__class__")}
        for name in ("capturable", "differentiable"):
            if defaults.get(name):
                raise error(Status.BAD_VALUE, f"{name}: {defaults[name]}; expected False")
        _check_as_torch(self._torch_name(), defaults)
        self._begin(arguments["params"], {**defaults, **(also or {})}, arguments["threads"])

    @classmethod
    def _torch_name(cls) -> str:
        """The name of the class in this module that this class is, or is derived from."""
        return next(x.__name__ for x in cls.__mro__ if x.__module__ == __name__)


def _with_l2(rule: dict[str, Any], weight_decay: Any, name: str = "l2") -> dict[str, Any]:
    rate = number(weight_decay)
    return {"rule": rule, "regularizer": {"name": name, "rate": rate}} if rate != 0 else {"rule": rule}


class Adam(_TorchOptimizer):
    """Drop-in replacement for torch.optim.Adam, with the same arguments.

    `foreach` and `fused` have no effect, because every step is fused. `capturable` and `differentiable` must be False.

    threads: the number of threads of a step; 0: torch.get_num_threads().
    """

    _names = {"m": "exp_avg", "v": "exp_avg_sq", "v_max": "max_exp_avg_sq"}
    _later_options = {**_LATER, "amsgrad": False, "capturable": False, "decoupled_weight_decay": False}

    def __init__(
        self,
        params: Any,
        lr: float | torch.Tensor = 1e-3,
        betas: tuple[float | torch.Tensor, float | torch.Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
        threads: int = 0,
    ) -> None:
        self._begin_as_torch(locals())

    def _policies(self, group: Mapping[str, Any]) -> dict[str, Any]:
        beta1, beta2 = group["betas"]
        rule = {
            "dialect": "torch",
            "name": "adam_amsgrad" if group["amsgrad"] else "adam",
            "beta1": number(beta1),
            "beta2": number(beta2),
            "eps": number(group["eps"]),
        }
        return _with_l2(rule, group["weight_decay"], "decoupled" if group["decoupled_weight_decay"] else "l2")


class AdamW(Adam):
    """Drop-in replacement for torch.optim.AdamW: `Adam` with decoupled weight decay, 0.01 by default."""

    def __init__(
        self,
        params: Any,
        lr: float | torch.Tensor = 1e-3,
        betas: tuple[float | torch.Tensor, float | torch.Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        threads: int = 0,
    ) -> None:
        self._begin_as_torch(locals(), {"decoupled_weight_decay": True})

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:  # as in torch, also if the state_dict is Adam's
            group["decoupled_weight_decay"] = True


class SGD(_TorchOptimizer):
    """Drop-in replacement for torch.optim.SGD, with momentum, dampening, Nesterov momentum and sparse gradients.

    The arguments `foreach`, `fused`, `differentiable` and `threads` are as in `Adam`.
    """

    _names = {"m": "momentum_buffer"}
    _counts = False
    _later_options = {**_LATER, "nesterov": False, "fused": False}

    def __init__(
        self,
        params: Any,
        lr: float | torch.Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
        threads: int = 0,
    ) -> None:
        self._begin_as_torch(locals())

    def _policies(self, group: Mapping[str, Any]) -> dict[str, Any]:
        momentum, dampening = number(group["momentum"]), number(group["dampening"])
        rule: dict[str, Any] = {"dialect": "torch", "name": "sgd"}
        if momentum != 0 and group["nesterov"]:
            if dampening != 0:
                raise error(Status.BAD_VALUE, f"dampening: {dampening}; expected 0 with nesterov")
            rule = {**rule, "name": "sgd_nesterov", "momentum": momentum}
        elif momentum != 0:
            rule = {**rule, "name": "sgd_momentum", "momentum": momentum, "dampening": dampening}
        return _with_l2(rule, group["weight_decay"])

    def _sparse(self, group: Mapping[str, Any]) -> Sparse:
        if group["weight_decay"] != 0:
            return Sparse.REFUSED_WITH_DECAY
        return Sparse.ROWS if group["momentum"] == 0 else Sparse.AS_DENSE


class Adagrad(_TorchOptimizer):
    """Drop-in replacement for torch.optim.Adagrad, with sparse gradients.

    The arguments `foreach`, `fused`, `differentiable` and `threads` are as in `Adam`.
    """

    _names = {"n": "sum"}
    _rate_options = ("lr", "lr_decay")
    _later_options = _LATER

    def __init__(
        self,
        params: Any,
        lr: float | torch.Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        threads: int = 0,
    ) -> None:
        self._begin_as_torch(locals())
        for index, group in enumerate(self.param_groups):  # torch also makes this state at once
            of_group = self._group(index)
            for position, parameter in enumerate(group["params"]):
                self._begin_state(parameter, of_group.updater_of(parameter.dtype, f"parameter {position}").dtype)

    def _begin_state(self, parameter: torch.Tensor, dtype: torch.dtype) -> None:
        dtype = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
        begin = self.defaults["initial_accumulator_value"]
        self.state[parameter]["step"] = torch.zeros((), dtype=torch.float64, device="cpu")
        self.state[parameter]["sum"] = torch.full_like(
            parameter,
            complex(begin, begin) if parameter.is_complex() else begin,
            dtype=parameter.dtype if parameter.is_complex() else dtype,
            memory_format=torch.preserve_format,
            requires_grad=False,
        )

    def _policies(self, group: Mapping[str, Any]) -> dict[str, Any]:
        return _with_l2(
            {
                "dialect": "torch",
                "name": "adagrad",
                "eps": number(group["eps"]),
                # As in torch, the optimizer's value, also if a group has another one.
                "initial_accumulator_value": number(self.defaults["initial_accumulator_value"]),
            },
            group["weight_decay"],
        )

    @staticmethod
    def _rate(options: tuple[float, ...], after: int) -> float:
        return options[0] / (1 + after * options[1])

    def _sparse(self, group: Mapping[str, Any]) -> Sparse:
        return Sparse.ROWS if group["weight_decay"] == 0 else Sparse.REFUSED_WITH_DECAY

    def share_memory(self) -> None:
        """Moves the state `sum` to shared memory, so that several processes can train the same parameters."""
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["sum"].share_memory_()


class RMSprop(_TorchOptimizer):
    """Drop-in replacement for torch.optim.RMSprop, with `centered` and momentum.

    Centered RMSprop takes the root of a difference, which rounding can make negative. torch's weight is then NaN; gradstep uses 0.
    The arguments `foreach`, `capturable`, `differentiable` and `threads` are as in `Adam`.
    """

    _names = {"n": "square_avg", "a": "grad_avg", "b": "momentum_buffer"}
    _later_options = {
        "momentum": 0,
        "centered": False,
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }

    def __init__(
        self,
        params: Any,
        lr: float | torch.Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        *,
        threads: int = 0,
    ) -> None:
        self._begin_as_torch(locals())

    def _policies(self, group: Mapping[str, Any]) -> dict[str, Any]:
        momentum = number(group["momentum"])
        name = "rmsprop" + ("_centered" if group["centered"] else "") + ("_momentum" if momentum != 0 else "")
        rule: dict[str, Any] = {
            "dialect": "torch",
            "name": name,
            "alpha": number(group["alpha"]),
            "eps": number(group["eps"]),
        }
        if momentum != 0:
            rule["momentum"] = momentum
        return _with_l2(rule, group["weight_decay"])


class SparseAdam(_TorchOptimizer):
    """Drop-in replacement for torch.optim.SparseAdam: Adam that updates only the rows of a sparse gradient, and their state.

    threads: the number of threads of a step; 0: torch.get_num_threads().
    """

    _names = {"m": "exp_avg", "v": "exp_avg_sq"}

    def __init__(
        self,
        params: Any,
        lr: float | torch.Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
        *,
        threads: int = 0,
    ) -> None:
        self._begin_as_torch(locals())
        for index, group in enumerate(self.param_groups):
            for position, parameter in enumerate(group["params"]):
                if parameter.layout is not torch.strided or parameter.is_complex():
                    wanted = "a real tensor" if parameter.is_complex() else "a dense one"
                    why = "does not support complex parameters" if parameter.is_complex() else "requires dense parameter tensors"
                    raise error(
                        Status.BAD_VALUE,
                        f"parameter {position} of group {index}: is of {parameter.dtype}, {parameter.layout}; "
                        f"expected {wanted}: SparseAdam {why}",
                    )

    def _policies(self, group: Mapping[str, Any]) -> dict[str, Any]:
        beta1, beta2 = map(number, group["betas"])
        return {
            "rule": {"dialect": "torch", "name": "sparse_adam", "beta1": beta1, "beta2": beta2, "eps": number(group["eps"])}
        }

    def _sparse(self, group: Mapping[str, Any]) -> Sparse:
        return Sparse.ROWS_ONLY
