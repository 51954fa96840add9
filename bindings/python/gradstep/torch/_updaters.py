"""Updaters of the library, which compute the steps, and the numbers of their configurations."""

from __future__ import annotations

import copy
import ctypes
import functools
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from .. import _arrays
from .._library import GIVEN_LOSS, CClock, CSlot, InvalidError, NotCompiledError, SequenceError, Status, check, error, library, new_error
from .._shared import Handle, c_options, canonical, config_bytes
from . import _memory

_DTYPES = {
    torch.float32: _arrays.dtype_of("float32"),
    torch.float64: _arrays.dtype_of("float64"),
    torch.float16: _arrays.dtype_of("float16"),
    torch.bfloat16: _arrays.DTYPES["bfloat16"],
}
_OF_TORCH = {dtype.code: of_torch for of_torch, dtype in _DTYPES.items()}
_HALVES = (torch.float16, torch.bfloat16)
NO_NUMBERS = (0.0, 0.0, 0.0, 0.0)  # the state of a clock at step 0
_ROOM = 4096  # bytes for one element of any dtype
# The numbers of a configuration that can be changed, and their paths if the torch preset uses another name.
_CHANGEABLE = ("rule.", "regularizer.")
_PATHS = {"rule.eps": "rule.epsilon", "rule.momentum": "rule.mu", "rule.alpha": "rule.rho"}
_NOT_POLICIES = ("threads", "id", "schedule")


class Slot(NamedTuple):
    """A slot of the state: torch's name, the dtype, whether it is one number for the whole tensor, and its kind in factored rules."""

    name: str
    dtype: torch.dtype
    single: bool
    factor: str | None  # "rows" or "columns" of a matrix, "vector": only of a tensor that is no matrix


class Updater:
    """Owns an updater of the library, for all groups with the same policies and parameters of one dtype."""

    dtypes = tuple(_DTYPES)

    def __init__(self, config: Mapping[str, Any], dtype: torch.dtype, names: Mapping[str, str]) -> None:
        self.failure = new_error()
        self.failure_at = ctypes.addressof(self.failure)
        text, out = config_bytes(config), ctypes.c_void_p()
        self.dtype = dtype  # the dtype of the numbers that it updates
        try:
            self._call("create", text, len(text), _DTYPES[dtype].code, ctypes.byref(out))
        except NotCompiledError:
            # Computes in float32 and rounds to the parameter's dtype once a step, like the kernels of 16-bit parameters.
            if dtype not in _HALVES or config.get("element", "plain") != "plain":
                raise
            self.dtype = torch.float32
            self._call("create", text, len(text), _DTYPES[self.dtype].code, ctypes.byref(out))
        self.handle = out.value or 0
        self.owned = Handle(self.handle, library.gradstep_updater_release)
        count = ctypes.c_uint64()
        self._call("slot_count", self.handle, ctypes.byref(count))
        slots = []
        for index in range(count.value):
            slot = CSlot(ctypes.sizeof(CSlot))
            self._call("slot", self.handle, index, ctypes.byref(slot))
            name = slot.name.decode()
            size = ctypes.c_uint64()
            self._call("slot_size", self.handle, index, 2, 3, ctypes.byref(size))
            factor = {2: "rows", 3: "columns", 0: "vector"}.get(size.value)
            slots.append(Slot(names.get(name, name), _OF_TORCH[slot.dtype], slot.count == 1, factor))
        self.slots = tuple(slots)
        self.policies = _policies_of(config)
        self.canonical = canonical(config)
        clip = self.canonical["clip"]["name"]
        if clip not in ("none", "clip_value"):  # which would act on some of the parameters
            raise error(
                Status.BAD_CONFIG, f"clip: {clip} is given; expected none or clip_value; torch.nn.utils.clip_grad_norm_ clips by a norm"
            )
        self.rule: str = self.canonical["rule"]["name"]
        self.needs_matrix = self.canonical["rule"]["name"] == "muon"
        self.is_factored = any(x.factor for x in slots)
        self.uses_shape = self.needs_matrix or self.is_factored
        self.clock = CClock(ctypes.sizeof(CClock))
        self.options = c_options({"rate": 0.0})  # every step sets the rate
        self.options_at = ctypes.addressof(self.options)
        self.at: int | None = 0  # the step of the library's clock; None: unknown
        self.keeps_clock = not self._takes_clock_without_state()
        # The rule and its numbers, which are the same for all parameters of a model; None for other rules.
        self.model = json.dumps(self.canonical["rule"]) if not self.uses_shape and self._is_model_wise() else None
        self.needs_loss = self.model is not None and not self._steps_without_loss()

    def _call(self, function: str, *arguments: Any) -> None:
        check(getattr(library, "gradstep_updater_" + function)(*arguments, self.failure_at), self.failure)

    def _takes_clock_without_state(self) -> bool:
        """Whether the library accepts a clock of step 1 without state: the rule keeps no numbers in the clock."""
        self.clock.step = 1
        try:
            self._call("seek", self.handle, ctypes.byref(self.clock))
        except InvalidError:
            return False
        finally:
            self.clock.step = 0
            self._call("seek", self.handle, ctypes.byref(self.clock))
        return True

    def _is_model_wise(self) -> bool:
        """Whether the library refuses to apply a step twice: one call of such a rule is a step of the whole model."""
        weight, gradient, *slots = [ctypes.create_string_buffer(_ROOM) for _ in range(2 + len(self.slots))]
        of_slots = (ctypes.c_void_p * max(1, len(slots)))(*map(ctypes.addressof, slots))
        at, counts = ctypes.c_void_p * 1, (ctypes.c_uint64 * 1)(1)
        numbers = at(ctypes.addressof(weight)), at(ctypes.addressof(gradient)), at(ctypes.addressof(of_slots)), counts, 1
        options = c_options({"rate": 0.0, "loss": 0.0})
        self._call("initialize", self.handle, ctypes.addressof(weight), of_slots, 1)
        self._call("next_step", self.handle, ctypes.byref(options))
        try:
            self._call("apply_many", self.handle, *numbers)
            self._call("apply_many", self.handle, *numbers)
        except SequenceError:
            return True
        finally:
            self._call("seek", self.handle, ctypes.byref(self.clock))
        return False

    def _steps_without_loss(self) -> bool:
        try:
            self._call("next_step", self.handle, self.options_at)
        except InvalidError:
            return False
        finally:
            self._call("seek", self.handle, ctypes.byref(self.clock))
        return True

    @functools.cached_property
    def is_elementwise(self) -> bool:
        """Whether no number of a tensor depends on another one: the rule adds no sums or norms, and knows no matrix."""
        if self.uses_shape or self.model is not None:
            return False
        try:
            return self._beside(1.0) == self._beside(1000.0)
        finally:
            self.at = None

    def _beside(self, other: float) -> float:
        """A weight after three steps beside another one, with this as its second gradient: the first ones can be alike in any rule."""
        weight, gradient = (torch.ones(2, dtype=self.dtype, device="cpu") for _ in range(2))
        slots = [ctypes.create_string_buffer(_ROOM) for _ in self.slots]
        of_slots = (ctypes.c_void_p * max(1, len(slots)))(*map(ctypes.addressof, slots))
        options = c_options({"rate": 0.01})
        self.clock.step, self.clock.state[:] = 0, NO_NUMBERS
        self._call("seek", self.handle, ctypes.byref(self.clock))
        self._call("initialize", self.handle, weight.data_ptr(), of_slots, 2)
        for last in (1.0, other, 1.0):
            gradient[1] = last
            self._call("next_step", self.handle, ctypes.byref(options))
            self._call("apply", self.handle, weight.data_ptr(), gradient.data_ptr(), of_slots, 2)
        return weight[0].item()

    def changes_to(self, config: Mapping[str, Any]) -> dict[str, float] | None:
        """The numbers to change for another configuration, by the library's paths; None if other parts differ."""
        changes = _changed_numbers(self.policies, {x: config[x] for x in config if x not in _NOT_POLICIES}, "")
        if changes is None:
            return None
        result = {}
        for path, (old, new) in changes.items():
            path = _PATHS.get(path, path)
            if not path.startswith(_CHANGEABLE) or self._canonical_number(path) != old:
                return None
            result[path] = new
        return result

    def _canonical_number(self, path: str) -> Any:
        found: Any = self.canonical
        for name in path.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        return found

    def change(self, config: Mapping[str, Any], numbers: Mapping[str, float]) -> None:
        """Changes numbers to those in another configuration. All are checked before any is changed."""
        paths = (ctypes.c_char_p * len(numbers))(*[x.encode() for x in numbers])
        values = (ctypes.c_double * len(numbers))(*numbers.values())
        self._call("set_numbers", self.handle, paths, values, len(numbers))
        self.policies = _policies_of(config)
        for path, value in numbers.items():
            *outer, last = path.split(".")
            found = self.canonical
            for name in outer:
                found = found[name]
            found[last] = value

    def next_step(
        self, after: int, rate: float, gradient_scale: float, kept: tuple[float, ...] | None, loss: float | None = None
    ) -> None:
        """Prepares step `after + 1`. kept: the numbers that the rule keeps in the clock, or None. loss: if the rule needs it."""
        if self.at != after or kept is not None:
            self._move_to(after, kept)
        self.at = None
        self.options.rate, self.options.gradient_scale = rate, gradient_scale
        if loss is not None:
            self.options.loss, self.options.given = loss, self.options.given | GIVEN_LOSS
        status = library.gradstep_updater_next_step(self.handle, self.options_at, self.failure_at)
        if status:
            check(status, self.failure)
        self.at = after + 1

    def kept(self) -> tuple[float, ...]:
        """The numbers that the rule keeps in the clock, after the prepared step."""
        self._call("clock", self.handle, ctypes.byref(self.clock))
        return tuple(self.clock.state)

    def slots_of(self, tensor: torch.Tensor) -> tuple[Slot, ...]:
        """The slots that a tensor has. In factored rules, a matrix has other slots than a vector."""
        if not self.is_factored:
            return self.slots
        return tuple(x for x in self.slots if x.factor is None or (x.factor == "vector") == (tensor.ndim < 2))

    def pointers(self, tensor: torch.Tensor, slots: list[torch.Tensor]) -> Any:
        """The addresses of the slots that a tensor has, for the library; NULL for the others."""
        at = dict(zip(self.slots_of(tensor), map(_memory.address_of, slots)))
        return (ctypes.c_void_p * max(1, len(self.slots)))(*map(at.get, self.slots))

    def _move_to(self, after: int, kept: tuple[float, ...] | None) -> None:
        """Sets the library's clock. kept: the numbers that the rule keeps in the clock, or None."""
        self.at = None
        self.clock.step = after
        if kept is not None:
            self.clock.state[:] = kept
        self._call("seek", self.handle, ctypes.byref(self.clock))

    def initialize(self, parameter: torch.Tensor, slots: list[torch.Tensor], after: int, kept: tuple[float, ...] | None) -> None:
        """Writes the state as it begins after this many steps."""
        self._move_to(after, kept)
        rows, columns = rows_and_columns(parameter)
        self._call("initialize_matrix", self.handle, parameter.data_ptr(), self.pointers(parameter, slots), rows, columns)
        if parameter.numel() == 0:  # for the library it has no rows or columns
            for slot, values in zip(self.slots_of(parameter), slots):
                if slot.factor:
                    values.zero_()

    def weights_set(self, parameter: torch.Tensor, slots: list[torch.Tensor], after: int, kept: tuple[float, ...] | None) -> None:
        """Adapts the state after this many steps to weights that other code has set."""
        self._move_to(after, kept)
        self._call("weights_set", self.handle, parameter.data_ptr(), self.pointers(parameter, slots), *rows_and_columns(parameter))

    def apply(self, parameters: Any, gradients: int, slots: Any, rows: Any, columns: Any, number: int, options: Any) -> None:
        """Applies the prepared step. columns: None unless the rule uses shapes. options: a gradstep_tensor_options."""
        status = library.gradstep_updater_apply_with(
            self.handle, parameters, gradients, slots, rows, columns, number, options, self.failure_at
        )
        if status:
            check(status, self.failure)


def rows_and_columns(tensor: torch.Tensor) -> tuple[int, int]:
    """The extents of a tensor for the library, with the dimensions after the first one joined. A vector has 0 columns."""
    if tensor.ndim < 2 or tensor.numel() == 0:
        return _memory.numbers(tensor), 0
    return tensor.shape[0], _memory.numbers(tensor) // tensor.shape[0]


def _policies_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a configuration without the keys that belong to the optimizer."""
    return {name: snapshot(x) for name, x in config.items() if name not in _NOT_POLICIES}


def _changed_numbers(old: Any, new: Any, path: str) -> dict[str, tuple[float, float]] | None:
    """The numbers that differ, by their paths; None if other values differ."""
    if old == new:
        return {}
    if isinstance(old, dict) and isinstance(new, dict):
        if old.keys() != new.keys():
            return None
        result = {}
        for name in old:
            of_name = _changed_numbers(old[name], new[name], f"{path}.{name}" if path else name)
            if of_name is None:
                return None
            result.update(of_name)
        return result
    return {path: (old, new)} if isinstance(old, (int, float)) and isinstance(new, (int, float)) else None


def snapshot(value: Any) -> Any:
    """A copy of an option of a group, for later comparison: callers can change tensors and dicts in place."""
    if isinstance(value, (float, int, str)) or value is None:
        return value
    if isinstance(value, tuple):
        return tuple(map(snapshot, value))
    if type(value) is dict:
        return {name: snapshot(x) for name, x in value.items()}
    return number(value) if isinstance(value, torch.Tensor) else copy.deepcopy(value)


def number(value: Any) -> float:
    """The value of an option that can be a tensor of one element."""
    return float(_memory.local(value, "an option: the tensor")) if isinstance(value, torch.Tensor) else float(value)
