"""Optimizers of torch for tensors on the CPU: `gradstep.torch.AdamW(model.parameters())` is a drop-in
replacement for `torch.optim.AdamW`.

They have torch's arguments and defaults, `param_groups`, `state_dict` with torch's names, closures, hooks, and work with every
`torch.optim.lr_scheduler`. Parameters are of float, double, bfloat16 or float16; the state of the 16-bit ones is float, where
torch's is of 16 bits. One step is one call of the library for each group, on torch's number of threads.
"""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Callable, Mapping
from operator import attrgetter, is_
from typing import Any, NamedTuple

import torch

from . import _arrays
from ._library import CClock, CSlot, Status, check, error, library, new_error
from ._shared import Handle, c_options, config_bytes

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop"]

_DTYPES = {
    torch.float32: _arrays.dtype_of("float32"),
    torch.float64: _arrays.dtype_of("float64"),
    torch.float16: _arrays.dtype_of("float16"),
    torch.bfloat16: _arrays.DTYPES["bfloat16"],
}
_OF_TORCH = {dtype.code: of_torch for of_torch, dtype in _DTYPES.items()}


class _Slot(NamedTuple):
    """A slot of the state: torch's name for it, its type, and whether it is one number for a whole tensor."""

    name: str
    dtype: torch.dtype
    single: bool

    def empty(self, parameter: torch.Tensor) -> torch.Tensor:
        if self.single:
            return torch.empty(1, dtype=self.dtype)
        return torch.empty_like(parameter, dtype=self.dtype, memory_format=torch.preserve_format, requires_grad=False)


class _Updater:
    """One of the library's, for the parameters of a group that are of one type."""

    def __init__(
        self, policies: dict[str, Any], threads: int, number: int, dtype: torch.dtype, names: Mapping[str, str]
    ) -> None:
        self.policies, self.threads = copy.deepcopy(policies), threads  # the user's may be changed where it is
        text = config_bytes({"threads": threads, "id": number << 32, **policies, "schedule": {"name": "external"}})
        self.failure = new_error()
        self.failure_at = ctypes.addressof(self.failure)
        out = ctypes.c_void_p()
        self.call("create", text, len(text), _DTYPES[dtype].code, ctypes.byref(out))
        self.handle = out.value or 0
        self.owned = Handle(self.handle, library.gradstep_updater_release)
        count = ctypes.c_uint64()
        self.call("slot_count", self.handle, ctypes.byref(count))
        slots = []
        for index in range(count.value):
            slot = CSlot(ctypes.sizeof(CSlot))
            self.call("slot", self.handle, index, ctypes.byref(slot))
            name = slot.name.decode()
            slots.append(_Slot(names.get(name, name), _OF_TORCH[slot.dtype], slot.count == 1))
        self.slots = tuple(slots)
        self.clock = CClock(ctypes.sizeof(CClock))
        self.options = c_options({"rate": 0.0})  # given, in every step
        self.at: int | None = 0  # the step of its clock, None where that is not known

    def call(self, function: str, *arguments: Any) -> None:
        check(getattr(library, "gradstep_updater_" + function)(*arguments, self.failure_at), self.failure)

    def next_step(self, after: int, rate: float, gradient_scale: float) -> None:
        """Prepares step `after + 1`."""
        if self.at != after:
            self.at = None
            self.clock.step = after
            self.call("seek", self.handle, ctypes.byref(self.clock))
        self.at = None
        self.options.rate, self.options.gradient_scale = rate, gradient_scale
        self.call("next_step", self.handle, ctypes.byref(self.options))
        self.at = after + 1


class _Tensor:
    """What a step needs of one parameter: where it and its state are."""

    def __init__(self, parameter: torch.Tensor, state: dict[str, Any], updater: _Updater, what: str) -> None:
        if parameter.device.type != "cpu":
            raise error(Status.BAD_BUFFER, f"{what} is on {parameter.device}: must be on the CPU")
        if parameter.layout is not torch.strided or not _is_dense(parameter):
            raise error(Status.BAD_BUFFER, f"{what}: its elements do not lie next to each other: give a contiguous tensor")
        self.parameter, self.state, self.updater, self.slots = parameter, state, updater, updater.slots
        self.dtype, self.contiguous, self.strides = parameter.dtype, parameter.is_contiguous(), parameter.stride()
        self.address, self.count = parameter.data_ptr(), parameter.numel()
        self._adopt(what)
        # The number of the step is read and written where it is: .item() of a hundred tensors takes longer than all else here.
        self.step = ctypes.c_double.from_address(state["step"].data_ptr())
        self.held = [(name, state[name], state[name].data_ptr()) for name in ("step", *(x.name for x in self.slots))]
        self.pointers = _pointers([at for _, _, at in self.held[1:]])
        self.slots_at = ctypes.addressof(self.pointers)

    def _adopt(self, what: str) -> None:
        """Completes the state: what is missing begins as at step 0, what came from elsewhere gets the type and the layout."""
        state, slots = self.state, self.slots
        there = {x.name: state[x.name] for x in slots if isinstance(state.get(x.name), torch.Tensor)}
        fresh = [x.empty(self.parameter) for x in slots]
        if len(there) < len(slots):
            self.updater.call(
                "initialize", self.updater.handle, self.address, _pointers([x.data_ptr() for x in fresh]), self.count
            )
        for slot, new in zip(slots, fresh):
            old = there.get(slot.name)
            if old is None:
                state[slot.name] = new
            elif old.shape != new.shape:
                raise error(
                    Status.BAD_SIZE,
                    f"{what}: its state {slot.name} has the shape {tuple(old.shape)}: must have {tuple(new.shape)}",
                )
            elif old.dtype != new.dtype or old.stride() != new.stride() or old.device != new.device:
                state[slot.name] = new.copy_(old)
        # torch counts in float32, which stands still at 2^24; its SGD does not count, but has a buffer after the first step.
        step = state.get("step")
        if not (isinstance(step, torch.Tensor) and step.dtype is torch.float64 and step.device.type == "cpu"):
            state["step"] = torch.tensor(float(bool(there)) if step is None else float(step), dtype=torch.float64)

    def is_current(self, parameter: torch.Tensor, state: Any, updater: _Updater) -> bool:
        """Whether everything is still where it was: parameters are moved, and state is loaded."""
        if updater is not self.updater:
            if updater.slots != self.slots:
                return False
            self.updater = updater
        if parameter is not self.parameter or state is not self.state or parameter.dtype is not self.dtype:
            return False
        if parameter.data_ptr() != self.address or parameter.numel() != self.count:
            return False
        for name, tensor, at in self.held:
            if state.get(name) is not tensor or tensor.data_ptr() != at:
                return False
        return True

    def takes(self, gradient: torch.Tensor) -> bool:
        """Whether a gradient can be read where it is."""
        return (
            gradient.layout is torch.strided
            and gradient.dtype is self.dtype
            and (gradient.is_contiguous() if self.contiguous else gradient.stride() == self.strides)
            and gradient.numel() == self.count
            and not gradient.is_neg()
            and gradient.is_cpu
        )

    def copied(self, gradient: torch.Tensor, what: str) -> torch.Tensor:
        """A gradient of another layout in the parameter's."""
        if gradient.layout is not torch.strided:
            raise error(
                Status.BAD_BUFFER,
                f"{what}: the gradient is sparse: gradstep.torch is for dense ones; for sparse ones there are "
                "torch.optim.SparseAdam, and gradstep.Table",
            )
        if gradient.dtype is not self.dtype:
            raise error(Status.UNSUPPORTED_TYPE, f"{what}: the gradient is of {gradient.dtype}: must be of {self.dtype}")
        if not gradient.is_cpu:
            raise error(Status.BAD_BUFFER, f"{what}: the gradient is on {gradient.device}: must be on the CPU")
        if gradient.shape != self.parameter.shape:
            shapes = tuple(gradient.shape), tuple(self.parameter.shape)
            raise error(Status.BAD_SIZE, f"{what}: the gradient has the shape {shapes[0]}: must have {shapes[1]}")
        return torch.empty_like(self.parameter, memory_format=torch.preserve_format, requires_grad=False).copy_(gradient)


class _Batch:
    """Tensors of one type that have taken the same steps: those of a group, as a rule. One call of the library."""

    def __init__(self, updater: _Updater, tensors: list[_Tensor]) -> None:
        number = len(tensors)
        self.updater, self.tensors, self.number = updater, tensors, number
        self.parameters = [x.parameter for x in tensors]
        self.counts = [x.count for x in tensors]
        self.c_parameters = _pointers([x.address for x in tensors])
        self.c_slots = _pointers([x.slots_at for x in tensors])
        self.c_counts = (ctypes.c_uint64 * number)(*self.counts)
        # What `again` compares.
        self.dtype = self.parameters[0].dtype
        self.is_contiguous = all(x.contiguous for x in tensors)
        self.states = [x.state for x in tensors]
        self.names = ["step", *(x.name for x in updater.slots)]
        self.held = [tensor for x in tensors for _, tensor, _ in x.held]
        self.watched = [*self.parameters, *self.held]
        self.addresses = list(map(_address_of, self.watched))
        self.steps = [x.step for x in tensors]

    def step(self, after: int, rate: float, gradient_scale: float, gradients: list[int]) -> None:
        """Step `after + 1` of all these tensors."""
        updater = self.updater
        if updater.at != after + 1:  # it was prepared, and another batch of its has had its step since
            updater.next_step(after, rate, gradient_scale)
        arguments = self.c_parameters, _pointers(gradients), self.c_slots, self.c_counts, self.number
        updater.call("apply_many", updater.handle, *arguments)
        for step in self.steps:
            step.value = after + 1
        torch.autograd.graph.increment_version(self.parameters)

    def again(self, parameters: list[torch.Tensor], state: Any, updater: _Updater | None) -> tuple[int, list[int]] | None:
        """If these are the same parameters with everything where it was, and each has a gradient that can be read where
        it is: the step and the addresses of the gradients. The comparisons are in C, whole lists at a time."""
        if updater is not self.updater or not self.is_contiguous or len(parameters) != self.number:
            return None
        if not all(map(is_, parameters, self.parameters)) or not all(map(is_, map(state.get, parameters), self.states)):
            return None
        if not all(map(is_, [x.get(name) for x in self.states for name in self.names], self.held)):
            return None
        if list(map(_address_of, self.watched)) != self.addresses or list(map(_size_of, parameters)) != self.counts:
            return None
        gradients: list[Any] = [x.grad for x in parameters]
        try:
            if set(map(_dtype_of, gradients)) != {self.dtype} or set(map(_layout_of, gradients)) != {torch.strided}:
                return None
        except AttributeError:  # one is None
            return None
        if not all(map(_is_contiguous, gradients)) or any(map(_is_neg, gradients)) or not all(map(_is_cpu, gradients)):
            return None
        after = self.steps[0].value
        if list(map(_size_of, gradients)) != self.counts or any(x.value != after for x in self.steps):
            return None
        return int(after), list(map(_address_of, gradients))


# As functions of a tensor, which map calls without a frame of Python.
_address_of, _size_of = torch.Tensor.data_ptr, torch.Tensor.numel
_is_contiguous, _is_neg = torch.Tensor.is_contiguous, torch.Tensor.is_neg
_dtype_of, _layout_of, _is_cpu = attrgetter("dtype"), attrgetter("layout"), attrgetter("is_cpu")


def _pointers(addresses: list[int]) -> Any:
    return (ctypes.c_void_p * max(1, len(addresses)))(*addresses)


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements fill a piece of memory, in any order of the dimensions."""
    if tensor.is_contiguous():
        return True
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.shape) if size != 1):
        if stride != expected:
            return False
        expected *= size
    return True


class Optimizer(torch.optim.Optimizer):
    """Any optimizer of gradstep for torch's tensors on the CPU.

        gradstep.torch.Optimizer(model.parameters(), {"rule": {"name": "lion"}, "regularizer": {"name": "decoupled", "rate": 0.1}}, lr=1e-4)

    config: the policies, a dict (docs/configuration.md); the learning rate is the group's `lr`, and there is no "schedule". A group
    may have a `config` of its own. State has the library's names: "m", "v", "master".
    threads: of a step; 0: torch.get_num_threads().
    """

    _names: Mapping[str, str] = {}  # torch's names of the library's slots

    def __init__(
        self,
        params: Any,
        config: Mapping[str, Any],
        lr: float | torch.Tensor = 1e-3,
        *,
        maximize: bool = False,
        threads: int = 0,
    ) -> None:
        self._begin(params, {"lr": lr, "config": dict(config), "maximize": maximize}, threads)

    def _begin(self, params: Any, defaults: dict[str, Any], threads: int) -> None:
        if threads < 0:
            raise error(Status.BAD_VALUE, f"threads: {threads} must be >= 0")
        self.threads = threads
        super().__init__(params, defaults)

    def _begin_as_torch(self, arguments: Mapping[str, Any]) -> None:
        """What the `__init__` of a class of torch's was given, its locals(): all but these three are what a group may change."""
        defaults = {name: value for name, value in arguments.items() if name not in ("self", "params", "threads")}
        for name in ("capturable", "differentiable"):
            if defaults.get(name):
                raise error(Status.BAD_VALUE, f"{name}: {defaults[name]} is not here: must be False")
        self._begin(arguments["params"], defaults, arguments["threads"])

    def _policies(self, group: Mapping[str, Any]) -> dict[str, Any]:
        """The configuration of a group, without a schedule."""
        config: dict[str, Any] = group["config"]
        if "schedule" in config:
            raise error(
                Status.BAD_CONFIG, "schedule: leave it out: the learning rate is lr, which torch.optim.lr_scheduler changes"
            )
        return config

    def _rate(self, group: Mapping[str, Any], after: int) -> float:
        """The learning rate of step `after + 1`."""
        return float(group["lr"])

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Takes further parameters in; what is wrong with the group's options or parameters is said here."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        try:
            if not float(group["lr"]) >= 0:
                raise error(Status.BAD_VALUE, f"lr: {float(group['lr'])} must be >= 0")
            if len(set(map(id, group["params"]))) != len(group["params"]):
                raise error(Status.BAD_VALUE, "a parameter is there twice")
            policies = self._policies(group)
            for position, parameter in enumerate(group["params"]):
                self._updater(len(self.param_groups) - 1, parameter, policies, f"parameter {position}")
        except Exception:
            self.param_groups.pop()
            raise

    def _updater(self, number: int, parameter: torch.Tensor, policies: dict[str, Any], what: str) -> _Updater:
        """That of a parameter of group `number`; a new one where options of the group have changed."""
        threads = self.threads or torch.get_num_threads()
        updaters: dict[tuple[int, torch.dtype], _Updater] = self.__dict__.setdefault("_updaters", {})
        key = (number, parameter.dtype)
        updater = updaters.get(key)
        if updater is None or updater.policies != policies or updater.threads != threads:
            if parameter.dtype not in _DTYPES:
                raise error(
                    Status.UNSUPPORTED_TYPE, f"{what} is of {parameter.dtype}: must be of {', '.join(map(str, _DTYPES))}"
                )
            updater = updaters[key] = _Updater(policies, threads, number, parameter.dtype, self._names)
        return updater

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of every parameter that has a gradient; what the closure returns."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            steps: list[tuple[_Batch, int, float, float, list[int]]] = []  # all is looked at before anything is written
            copies: list[torch.Tensor] = []
            last: dict[int, _Batch] = self.__dict__.setdefault("_batches", {})
            for number, group in enumerate(self.param_groups):
                parameters, policies, batch = group["params"], self._policies(group), last.get(number)
                found: list[tuple[_Batch, int, list[int]]]
                again = None
                if batch is not None:
                    updater = self._updater(number, batch.parameters[0], policies, "")
                    again = batch.again(parameters, self.state, updater)
                if batch is not None and again is not None:
                    found = [(batch, *again)]
                else:
                    found = self._looked_up(number, parameters, policies, copies)
                    last.pop(number, None)
                    if len(found) == 1:
                        last[number] = found[0][0]
                scale = -1.0 if group["maximize"] else 1.0
                steps += [(batch, after, self._rate(group, after), scale, at) for batch, after, at in found]
            for each, after, rate, gradient_scale, _ in steps:  # refuses rates
                each.updater.next_step(after, rate, gradient_scale)
            for each, after, rate, gradient_scale, gradients in steps:
                each.step(after, rate, gradient_scale, gradients)
        return loss

    def _looked_up(
        self, number: int, parameters: list[torch.Tensor], policies: dict[str, Any], copies: list[torch.Tensor]
    ) -> list[tuple[_Batch, int, list[int]]]:
        """Of those that have a gradient, for each type of elements and number of steps so far: the step, and where the
        gradients are. Copies of gradients of other layouts go to `copies`, which has to be kept until they are read."""
        updaters: dict[torch.dtype, _Updater] = {}
        known: dict[int, _Tensor] = self.__dict__.setdefault("_tensors", {})
        found: dict[tuple[_Updater, float], tuple[list[_Tensor], list[int]]] = {}
        for position, parameter in enumerate(parameters):
            gradient, what = parameter.grad, f"parameter {position} of group {number}"
            if gradient is None:
                continue
            updater = updaters.get(parameter.dtype)
            if updater is None:
                updater = updaters[parameter.dtype] = self._updater(number, parameter, policies, what)
            state, tensor = self.state[parameter], known.get(id(parameter))
            if tensor is None or not tensor.is_current(parameter, state, updater):
                if parameter.numel() == 0:
                    continue
                tensor = known[id(parameter)] = _Tensor(parameter, state, updater, what)
            if not tensor.takes(gradient):
                gradient = tensor.copied(gradient, what)
                copies.append(gradient)
            tensors, gradients = found.setdefault((updater, tensor.step.value), ([], []))
            tensors.append(tensor)
            gradients.append(gradient.data_ptr())
        return [(_Batch(updater, each), int(after), at) for (updater, after), (each, at) in found.items()]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from a state_dict of this optimizer, or of torch's of the same name."""
        loaded = []
        # The last hook, which sees what the others have changed.
        hook = self.register_load_state_dict_pre_hook(lambda _, given: loaded.append(given))
        try:
            super().load_state_dict(state_dict)
        finally:
            hook.remove()
        # torch turns state into the parameter's type, which loses the digits of a bfloat16 parameter's float state.
        saved = loaded[-1]["state"]
        for group, of_saved in zip(self.param_groups, loaded[-1]["param_groups"]):
            for parameter, key in zip(group["params"], of_saved["params"]):
                for name, value in saved.get(key, {}).items():
                    if name != "step" and isinstance(value, torch.Tensor) and value.dtype != parameter.dtype:
                        self.state[parameter][name] = value

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "threads": self.threads}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in self.defaults.items():
                group.setdefault(name, default)


def _with_l2(rule: dict[str, Any], weight_decay: float, name: str = "l2") -> dict[str, Any]:
    if weight_decay == 0:
        return {"rule": rule}
    return {"rule": rule, "regularizer": {"name": name, "rate": float(weight_decay)}}


class Adam(Optimizer):
    """torch.optim.Adam. `foreach` and `fused` are taken and change nothing: there is one way, which is fused."""

    _names = {"m": "exp_avg", "v": "exp_avg_sq", "v_max": "max_exp_avg_sq"}

    def __init__(
        self,
        params: Any,
        lr: float | torch.Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
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
            "beta1": float(beta1),
            "beta2": float(beta2),
            "eps": float(group["eps"]),
        }
        return _with_l2(rule, group["weight_decay"], "decoupled" if group["decoupled_weight_decay"] else "l2")


class AdamW(Adam):
    """torch.optim.AdamW: Adam with decoupled weight decay, of 0.01 by default."""

    def __init__(
        self,
        params: Any,
        lr: float | torch.Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
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
        self._begin_as_torch({**locals(), "decoupled_weight_decay": True})


class SGD(Optimizer):
    """torch.optim.SGD, with momentum, dampening and Nesterov's momentum. Its state also has the number of the step."""

    _names = {"m": "momentum_buffer"}

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
        momentum, dampening = float(group["momentum"]), float(group["dampening"])
        rule: dict[str, Any] = {"dialect": "torch", "name": "sgd"}
        if group["nesterov"]:
            if dampening != 0:
                raise error(Status.BAD_VALUE, f"dampening: {dampening} must be 0 with nesterov")
            rule = {**rule, "name": "sgd_nesterov", "momentum": momentum}
        elif momentum != 0:
            rule = {**rule, "name": "sgd_momentum", "momentum": momentum, "dampening": dampening}
        return _with_l2(rule, group["weight_decay"])


class Adagrad(Optimizer):
    """torch.optim.Adagrad; the state is there from the first step on."""

    _names = {"n": "sum"}

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

    def _policies(self, group: Mapping[str, Any]) -> dict[str, Any]:
        if not group["lr_decay"] >= 0:
            raise error(Status.BAD_VALUE, f"lr_decay: {group['lr_decay']} must be >= 0")
        return _with_l2(
            {
                "dialect": "torch",
                "name": "adagrad",
                "eps": float(group["eps"]),
                "initial_accumulator_value": float(group["initial_accumulator_value"]),
            },
            group["weight_decay"],
        )

    def _rate(self, group: Mapping[str, Any], after: int) -> float:
        return float(group["lr"]) / (1 + after * float(group["lr_decay"]))


class RMSprop(Optimizer):
    """torch.optim.RMSprop, centered or not, with momentum or without. Where rounding makes its root one of a negative number,
    and a weight of torch's becomes NaN, it takes 0."""

    _names = {"n": "square_avg", "a": "grad_avg", "b": "momentum_buffer"}

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
        name = "rmsprop" + ("_centered" if group["centered"] else "") + ("_momentum" if group["momentum"] != 0 else "")
        rule: dict[str, Any] = {
            "dialect": "torch",
            "name": name,
            "alpha": float(group["alpha"]),
            "eps": float(group["eps"]),
        }
        if group["momentum"] != 0:
            rule["momentum"] = float(group["momentum"])
        return _with_l2(rule, group["weight_decay"])
