"""Optimizers with torch's names. torch's own classes check the arguments, so the messages are torch's."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any

import torch

from .._library import Status, error
from ..dialects import torch as presets
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


@functools.cache
def _arguments_of(preset: str) -> list[str]:
    """The arguments of a preset of torch."""
    return inspect.getfullargspec(getattr(presets, preset)).kwonlyargs


class _TorchOptimizer(Optimizer):
    """The base class of the classes with torch's names. They give the library's presets of torch the options of a group."""

    _preset = ""  # the name of the preset
    _decoupled = False  # whether weight_decay is, if there is no option for it

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

    def _preset_of(self, group: Mapping[str, Any]) -> str:
        """The preset that a group's options choose."""
        return self._preset

    def _policies(self, group: Mapping[str, Any]) -> dict[str, Any]:
        options, preset = dict(group), self._preset_of(group)
        if "betas" in self.defaults:
            options["beta1"], options["beta2"] = group["betas"]
        rule = {"dialect": "torch", "name": preset, **{name: number(options[name]) for name in _arguments_of(preset)}}
        return self._with_decay(rule, group)

    def _with_decay(self, rule: dict[str, Any], group: Mapping[str, Any]) -> dict[str, Any]:
        rate = number(group["weight_decay"]) if "weight_decay" in self.defaults else 0
        if rate == 0:
            return {"rule": rule}
        switch = "decoupled_weight_decay"
        is_decoupled = group[switch] if switch in self.defaults else self._decoupled
        return {"rule": rule, "regularizer": {"name": "decoupled" if is_decoupled else "l2", "rate": rate}}


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

    def _preset_of(self, group: Mapping[str, Any]) -> str:
        return "adam_amsgrad" if group["amsgrad"] else "adam"


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

    def _preset_of(self, group: Mapping[str, Any]) -> str:
        momentum, dampening = number(group["momentum"]), number(group["dampening"])
        if momentum != 0 and group["nesterov"] and dampening != 0:
            raise error(Status.BAD_VALUE, f"dampening: {dampening}; expected 0 with nesterov")
        return "sgd" if momentum == 0 else "sgd_nesterov" if group["nesterov"] else "sgd_momentum"

    def _sparse(self, group: Mapping[str, Any]) -> Sparse:
        if group["weight_decay"] != 0:
            return Sparse.REFUSED_WITH_DECAY
        return Sparse.ROWS if group["momentum"] == 0 else Sparse.AS_DENSE


class Adagrad(_TorchOptimizer):
    """Drop-in replacement for torch.optim.Adagrad, with sparse gradients.

    The arguments `foreach`, `fused`, `differentiable` and `threads` are as in `Adam`.
    """

    _names = {"n": "sum"}
    _preset = "adagrad"
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
        # As in torch, the optimizer's initial value, also if a group has another one.
        return super()._policies({**group, "initial_accumulator_value": self.defaults["initial_accumulator_value"]})

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

    def _preset_of(self, group: Mapping[str, Any]) -> str:
        return "rmsprop" + ("_centered" if group["centered"] else "") + ("_momentum" if number(group["momentum"]) != 0 else "")


class SparseAdam(_TorchOptimizer):
    """Drop-in replacement for torch.optim.SparseAdam: Adam that updates only the rows of a sparse gradient, and their state.

    threads: the number of threads of a step; 0: torch.get_num_threads().
    """

    _names = {"m": "exp_avg", "v": "exp_avg_sq"}
    _preset = "sparse_adam"

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

    def _sparse(self, group: Mapping[str, Any]) -> Sparse:
        return Sparse.ROWS_ONLY
