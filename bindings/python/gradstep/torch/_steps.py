"""One step of all groups: `Entry` and `Plan` find and check everything, then `Plan.run` updates the parameters.

A plan that is kept for the next step holds addresses and numbers but no tensor, so it keeps no memory of the program alive.
Before it is used again, `Plan.is_current` compares everything that the addresses depend on, whole lists at a time.
"""

from __future__ import annotations

import copy
import ctypes
import enum
import functools
import json
import math
from array import array
from collections.abc import Callable, Mapping
from itertools import chain, compress, repeat
from operator import attrgetter, is_, is_not, itemgetter
from typing import Any, NamedTuple

import torch

from .. import _arrays
from .._library import GIVEN_LOSS, CClock, CSlot, InvalidError, NotCompiledError, SequenceError, Status
from .._library import check, error, library, new_error
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
_LARGEST_STEP = 2.0**53
_NO_NUMBERS = (0.0, 0.0, 0.0, 0.0)  # the state of a clock at step 0


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
        self.clock.step, self.clock.state[:] = 0, _NO_NUMBERS
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
            self.at = None
            self.clock.step = after
            if kept is not None:
                self.clock.state[:] = kept
            self._call("seek", self.handle, ctypes.byref(self.clock))
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

    def initialize(self, parameter: torch.Tensor, slots: list[torch.Tensor]) -> None:
        """Writes the state at step 0."""
        rows, columns = _rows_and_columns(parameter)
        self._call("initialize_matrix", self.handle, parameter.data_ptr(), self.pointers(parameter, slots), rows, columns)
        if parameter.numel() == 0:  # for the library it has no rows or columns
            for slot, values in zip(self.slots_of(parameter), slots):
                if slot.factor:
                    values.zero_()

    def apply(self, parameters: Any, gradients: int, slots: Any, counts: Any, number: int) -> None:
        """Applies the prepared step."""
        status = library.gradstep_updater_apply_many(
            self.handle, parameters, gradients, slots, counts, number, self.failure_at
        )
        if status:
            check(status, self.failure)

    def apply_matrices(self, parameters: Any, gradients: int, slots: Any, rows: Any, columns: Any, number: int) -> None:
        """Applies the prepared step of a rule that uses shapes."""
        status = library.gradstep_updater_apply_matrices(
            self.handle, parameters, gradients, slots, rows, columns, number, self.failure_at
        )
        if status:
            check(status, self.failure)


def _loss_of(loss: Any, rule: str) -> float:
    """The loss of a step, from what the closure returned."""
    if loss is None:
        raise error(
            Status.BAD_VALUE,
            f"step: {rule} computes its step size from the loss, and none is given; expected a closure that returns it",
        )
    try:
        return float(loss.detach() if isinstance(loss, torch.Tensor) else loss)
    except (RuntimeError, TypeError, ValueError):
        raise error(Status.BAD_VALUE, f"step: the closure returned {loss!r}; expected the loss, a number") from None


def _rows_and_columns(tensor: torch.Tensor) -> tuple[int, int]:
    """The extents of a tensor for the library, with the dimensions after the first one joined. A vector has 0 columns."""
    if tensor.ndim < 2 or tensor.numel() == 0:
        return _memory.numbers(tensor), 0
    return tensor.shape[0], _memory.numbers(tensor) // tensor.shape[0]


_ROOM = 4096  # bytes for one element of any dtype

# The numbers of a configuration that can be changed, and their paths if the torch preset uses another name.
_CHANGEABLE = ("rule.", "regularizer.")
_PATHS = {"rule.eps": "rule.epsilon", "rule.momentum": "rule.mu", "rule.alpha": "rule.rho"}


_NOT_POLICIES = ("threads", "id", "schedule")


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


class Group(NamedTuple):
    """The options that all entries of a parameter group share."""

    number: int
    policies: Mapping[str, Any]
    updater_of: Callable[[torch.dtype, str], Updater]
    rate_options: tuple[float, ...]
    gradient_scale: float
    counts: bool  # the state has "step"; otherwise a step is the first one if the slot does not exist yet
    kept_rate: str | None  # the entry of the state with the rate of the next step
    first_rate: float
    sparse: Sparse
    # Where a parameter without state begins: the step, and the numbers in the clock. A model-wise rule's run goes on.
    begin: tuple[float, tuple[float, ...]] = (0.0, _NO_NUMBERS)


class Sparse(enum.Enum):
    """What a step does with sparse gradients."""

    REFUSED = "a dense one"
    REFUSED_WITH_DECAY = "a dense one, or no weight_decay"
    ROWS = "their rows are updated"
    ROWS_ONLY = "the same, and dense ones are refused"
    AS_DENSE = "the elements that they lack are zeros"


class Models:
    """The step counts and clocks of the model-wise rules: groups whose rule has the same name and numbers are one model.

    A model has one clock, which the state of each of its parameters contains. The constructor checks that they are equal.
    """

    def __init__(self, groups: list[Group], parameters: list[list[torch.Tensor]], state: Any) -> None:
        self._begin: dict[str, tuple[float, tuple[float, ...]]] = {}
        self._of_groups: dict[int, str] = {}
        self._idle: list[tuple[str, torch.Tensor, bool]] = []
        where: dict[str, str] = {}
        for group, of_group in zip(groups, parameters):
            for position, parameter in enumerate(of_group):
                what = f"parameter {position} of group {group.number}"
                updater = group.updater_of(parameter.dtype, what)
                if updater.model is None:
                    break  # like the other parameters of the group
                self._of_groups[group.number] = updater.model
                known = state.get(parameter) or {}
                step, clock = known.get("step"), known.get("clock")
                if step is None or (clock is None and updater.keeps_clock):
                    continue
                kept = _NO_NUMBERS
                if updater.keeps_clock:
                    kept = tuple(Entry.usable(clock, False, (4,), torch.float64, f"{what}: its state clock").tolist())
                now = Entry.number_of("step", step, what, "a count of steps"), kept
                first = self._begin.setdefault(updater.model, now)
                if first != now:
                    raise error(
                        Status.BAD_VALUE,
                        f"{what}: its step {now[0]:.0f} and clock {list(kept)} differ from {first[0]:.0f} and {list(first[1])} of "
                        f"{where[updater.model]}, which has the same rule {updater.rule}; expected the same step and clock",
                    )
                where.setdefault(updater.model, what)
                if parameter.grad is None:
                    self._idle.append((updater.model, parameter, updater.keeps_clock))

    def begin_of(self, group: Group) -> Group:
        """The group with the clock of its model, at which its parameters without state begin."""
        model = self._of_groups.get(group.number)
        return group._replace(begin=self._begin[model]) if model in self._begin else group

    def advance_idle(self, plan: Plan, state: Any) -> bool:
        """Sets the clocks of parameters without a gradient, after a step; False if there are none."""
        taken = {x.updater.model: x for x in plan.batches}
        for model, parameter, keeps_clock in self._idle:
            if model in taken:
                state[parameter]["step"] = torch.tensor(taken[model].after, dtype=torch.float64, device="cpu")
                if keeps_clock:
                    state[parameter]["clock"] = torch.tensor(taken[model].kept, dtype=torch.float64, device="cpu")
        return bool(self._idle)


class Entry:
    """The step of one parameter: the addresses of its numbers, and the copies before and after the step.

    The constructor checks everything and writes nothing. `changes` contains new entries for the state. `begun` contains the changes
    of an earlier entry of the same parameter, if the parameter is in the groups twice.
    """

    def __init__(
        self,
        parameter: torch.Tensor,
        gradient: torch.Tensor,
        state: Mapping[str, Any],
        group: Group,
        position: int,
        begun: Mapping[str, Any],
    ) -> None:
        what = f"parameter {position} of group {group.number}"
        self.parameter, self.group = parameter, group
        self.changes: dict[str, Any] = {}
        self.loads: list[Callable[[], Any]] = []  # copies before the step
        self.stores: list[Callable[[], Any]] = []  # copies after the step
        own = self.own = _memory.on_cpu(parameter, f"{what}: the tensor")
        self.updater = group.updater_of(own.dtype, what)
        if _memory.is_sharded(parameter) and not self.updater.is_elementwise:
            raise error(
                Status.BAD_BUFFER,
                f"{what}: is a DTensor, of which a process has a part, and {self.updater.rule} looks at whole tensors; "
                "expected a torch.Tensor, or an elementwise rule",
            )
        if torch._debug_has_internal_overlap(own) == 1:
            raise error(Status.BAD_BUFFER, f"{what}: its elements share memory, as after expand(); expected a clone()")
        if own.is_inference() and not torch.is_inference_mode_enabled():
            raise error(Status.BAD_BUFFER, f"{what}: was made in inference mode; expected a tensor made outside, or a step inside")
        needs_matrix = self.updater.needs_matrix
        if needs_matrix and (own.ndim < 2 or own.is_complex()):
            raise error(Status.BAD_SIZE, f"{what}: is of {own.dtype} and has the shape {tuple(own.shape)}; expected a real matrix")
        if self.updater.is_factored and own.is_complex():
            raise error(Status.UNSUPPORTED_TYPE, f"{what}: is of {own.dtype}; expected a real tensor, or another rule")
        gradient = self._checked(gradient, what)
        self.is_left_out = not self._is_taken(gradient, what)
        if self.is_left_out:
            return
        dtype = _memory.dtype_like(self.updater.dtype, own)
        is_direct = own.dtype is dtype and _memory.is_dense(own) and not _memory.has_bits(own)
        if self.updater.uses_shape:  # in row-major order
            is_direct = is_direct and own.is_contiguous()
            memory = own if is_direct else torch.empty(own.shape, dtype=dtype, device="cpu")
        else:
            memory = own if is_direct else _memory.empty_like(own, dtype)
        slots = self._adopted(memory, state, begun, what)
        self.extents = [_memory.extent(x) for x in (own, *slots, *self.numbers)]
        if _memory.overlap(self.extents[1:]):
            raise error(Status.BAD_BUFFER, f"{what}: two entries of its state share memory; expected a tensor for each")
        if gradient.layout is torch.sparse_coo and group.sparse is not Sparse.AS_DENSE:
            memory, slots, gradient = self._rows(gradient, slots, dtype)
        else:
            if not is_direct:
                self._copied(own, memory)
            gradient = self._readable(gradient, memory, dtype)
        self.memory, self.slots, self.gradient = memory, slots, gradient

    def _checked(self, gradient: torch.Tensor, what: str) -> torch.Tensor:
        """The gradient with memory on the CPU, sparse or not."""
        if _memory.is_dtensor(gradient) and _memory.is_dtensor(self.parameter):
            of_shards: Any = gradient
            like: Any = self.parameter
            if of_shards.placements != like.placements:
                gradient = of_shards.redistribute(placements=like.placements)
        about, own = f"{what}: the gradient", self.own
        gradient = _memory.local(gradient, about)
        if gradient.layout is not torch.sparse_coo:
            gradient = _memory.on_cpu(gradient, about)
            if self.group.sparse is Sparse.ROWS_ONLY:
                raise error(Status.BAD_BUFFER, f"{about} is dense; expected a sparse one, or another optimizer")
        elif self.group.sparse in (Sparse.REFUSED, Sparse.REFUSED_WITH_DECAY):
            raise error(Status.BAD_BUFFER, f"{about} is sparse; expected {self.group.sparse.value}")
        elif self.group.sparse is Sparse.ROWS and own.is_complex() and self.updater.slots:
            # torch adds complex squares here, but the squares of both parts if the gradient is dense.
            raise error(Status.BAD_BUFFER, f"{about} is sparse and complex; expected a dense one, or a real one")
        elif not gradient.is_cpu:
            raise error(Status.BAD_BUFFER, f"{about} is on {gradient.device}; expected the CPU")
        if gradient.dtype is not own.dtype:
            raise error(Status.UNSUPPORTED_TYPE, f"{about} is of {gradient.dtype}; expected {own.dtype}")
        if gradient.shape != own.shape:
            raise error(Status.BAD_SIZE, f"{about} has the shape {tuple(gradient.shape)}; expected {tuple(own.shape)}")
        return gradient

    def _is_taken(self, gradient: torch.Tensor, what: str) -> bool:
        """Whether the parameter is updated, by "on_nonfinite" of the configuration."""
        mode = self.group.policies.get("on_nonfinite", "propagate")
        if mode == "propagate":
            return True
        is_finite = bool(torch.isfinite(gradient.coalesce().values() if gradient.is_sparse else gradient).all())
        if not is_finite and mode == "raise":
            raise error(Status.NOT_FINITE, f"{what}: the gradient is not finite, and on_nonfinite is \"raise\": no step is taken")
        return is_finite

    def _copied(self, own: torch.Tensor, memory: torch.Tensor) -> None:
        self.loads.append(lambda: memory.copy_(own))
        self.stores.append(lambda: own.copy_(memory))

    def _readable(self, gradient: torch.Tensor, memory: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """The gradient in the layout and dtype of `memory`, without overlap with memory that the step writes."""
        if _memory.fits(gradient, memory, dtype) and not _memory.overlap([_memory.extent(gradient), *self.extents]):
            return gradient
        copied = _memory.empty_like(memory, dtype)
        source = gradient.to_dense() if gradient.layout is torch.sparse_coo else gradient
        self.loads.append(lambda: copied.copy_(source))
        return copied

    def _rows(
        self, gradient: torch.Tensor, slots: list[torch.Tensor], dtype: torch.dtype
    ) -> tuple[torch.Tensor, list[torch.Tensor], torch.Tensor]:
        """Contiguous copies of the rows of a sparse gradient, for the weights and every slot."""
        gradient = gradient.coalesce()
        rows, values = tuple(gradient.indices()), gradient.values()
        shape = values.shape

        def of(full: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
            few = torch.empty(shape, dtype=dtype, device="cpu")
            self.loads.append(lambda: few.copy_(full[rows]))
            self.stores.append(lambda: full.index_put_(rows, few.to(full.dtype)))
            return few

        memory = of(self.own, dtype)
        return memory, [of(x, x.dtype) for x in slots], torch.empty(shape, dtype=dtype, device="cpu").copy_(values)

    def _adopted(
        self, memory: torch.Tensor, state: Mapping[str, Any], begun: Mapping[str, Any], what: str
    ) -> list[torch.Tensor]:
        """The slots. An empty state is initialized as at step 0. Other tensors are converted to the slots' dtype and layout."""
        wanted = self.updater.slots_of(memory)
        names = [*self._names_of_numbers, *(x.name for x in wanted)]
        missing = [x for x in names if state.get(x) is None]
        if missing and state and self.group.counts:
            raise _memory.StateError(
                f"{what}: its state has {', '.join(map(repr, state))} and no {missing[0]!r}; "
                f"expected {', '.join(map(repr, names))}, or no state",
                Status.BAD_VALUE,
            )
        result = []
        for slot in wanted:
            old = begun.get(slot.name, state.get(slot.name))
            dtype = slot.dtype if slot.single else _memory.dtype_like(slot.dtype, self.own)
            like = self._shaped_like(slot, memory, dtype)
            if old is not None:
                given = old
                old = self.usable(given, slot.single, tuple(like.shape), dtype, f"{what}: its state {slot.name}")
                if _memory.fits(old, like, dtype) and not (slot.single and given.shape != like.shape):
                    result.append(_memory.on_cpu(old, f"{what}: its state {slot.name}"))
                    continue
            new = _memory.empty_like(like, dtype)
            if old is not None:
                new.copy_(old if old.layout is torch.strided else old.to_dense())
            self.changes[slot.name] = new if slot.single or slot.factor else _memory.wrapped_like(new, self.parameter)
            result.append(new)
        if missing and wanted and not begun:
            self.updater.initialize(memory if memory is self.own else memory.copy_(self.own), result)
        elif missing and not self.group.counts:  # torch also starts each missing buffer at 0
            self.loads += [x.zero_ for x in result]
        self.numbers: list[torch.Tensor] = []
        self._count(begun.get("step", state.get("step")), bool(missing), what)
        self.clock_cell = self._clock(begun.get("clock", state.get("clock")), what) if self.updater.keeps_clock else None
        kept = self.group.kept_rate
        self.rate_cell: Any = None if kept is None else self._kept_rate(kept, begun.get(kept, state.get(kept)), what)
        return result

    @staticmethod
    def _shaped_like(slot: Slot, memory: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """A tensor of the shape and layout of a slot."""
        if slot.single:
            return torch.empty(1, dtype=dtype, device="cpu")
        if slot.factor == "rows":
            return torch.empty((memory.shape[0], 1), dtype=dtype, device="cpu")
        if slot.factor == "columns":
            return torch.empty((1, math.prod(memory.shape[1:])), dtype=dtype, device="cpu")
        return memory

    @staticmethod
    def usable(old: Any, is_single: bool, shape: tuple[int, ...], dtype: torch.dtype, about: str) -> torch.Tensor:
        if not isinstance(old, torch.Tensor):
            raise error(Status.BAD_VALUE, f"{about} is a {type(old).__name__}; expected a torch.Tensor")
        found: torch.Tensor = _memory.local(old, about)
        if is_single and found.numel() == 1 and found.layout is torch.strided:
            found = found.view(1)  # one number for the whole tensor, of any shape
        if tuple(found.shape) != shape:
            raise error(Status.BAD_SIZE, f"{about} has the shape {tuple(found.shape)}; expected {shape}")
        # Other floating-point dtypes are converted. Integers are not valid state, and a conversion would drop imaginary parts.
        if found.is_complex() != dtype.is_complex or not (found.is_complex() or found.is_floating_point()):
            raise error(Status.UNSUPPORTED_TYPE, f"{about} is of {found.dtype}; expected {dtype}")
        return found

    def _count(self, step: Any, is_first: bool, what: str) -> None:
        """Finds the memory of the step counter. Calls of .item() would take longer than the rest of the step."""
        self.cell: Any = None
        if not self.group.counts:
            self.after = 0 if is_first else 1
            return
        given = self.group.begin[0] if step is None else self.number_of("step", step, what, "a count of steps")
        if not 0 <= given < _LARGEST_STEP or given != math.floor(given):
            raise error(Status.BAD_VALUE, f"{what}: its step is {given}; expected a count of steps")
        # torch counts in float32, which cannot count beyond 2^24.
        self.cell = self._cell("step", step, given, [torch.float64])
        self.after = int(given)

    def _kept_rate(self, name: str, rate: Any, what: str) -> Any:
        """The memory of the learning rate: a step reads its rate and writes the next one, rounded as in torch."""
        given = self.group.first_rate if rate is None else self.number_of(name, rate, what, "a rate")
        if not 0 <= given < math.inf:
            raise error(Status.BAD_VALUE, f"{what}: its {name} is {given}; expected a rate >= 0")
        return self._cell(name, rate, given, [torch.float32, torch.float64])

    def _clock(self, old: Any, what: str) -> Any:
        """The memory of the numbers that the rule keeps in the clock: each parameter has its own clock."""
        like = torch.tensor(self.group.begin[1], dtype=torch.float64, device="cpu")
        if old is not None:
            found = self.usable(old, False, tuple(like.shape), torch.float64, f"{what}: its state clock")
            like = found if _memory.fits(found, like, torch.float64) else like.copy_(found)
        if like is not old:
            self.changes["clock"] = like
        self.numbers.append(like)
        return (ctypes.c_double * len(like)).from_address(like.data_ptr())

    @staticmethod
    def number_of(name: str, value: Any, what: str, expected: str) -> float:
        """A number of the state, which can be a tensor."""
        value = _memory.local(value, f"{what}: its {name}") if isinstance(value, torch.Tensor) else value
        try:
            return float(value)
        except (OverflowError, RuntimeError, TypeError, ValueError):
            raise error(Status.BAD_VALUE, f"{what}: its {name} is {value!r}; expected {expected}") from None

    def _cell(self, name: str, old: Any, value: float, dtypes: list[torch.dtype]) -> Any:
        """The memory of a number of the state. If its dtype is not in `dtypes`, the state gets a new tensor of the first one."""
        if not (type(old) is torch.Tensor and any(_memory.fits(old, old, x) for x in dtypes)):
            old = self.changes[name] = torch.tensor(value, dtype=dtypes[0], device="cpu")
        self.numbers.append(old)
        return (ctypes.c_double if old.dtype is torch.float64 else ctypes.c_float).from_address(old.data_ptr())

    @property
    def can_be_kept(self) -> bool:
        """Whether the next step can use the same addresses."""
        kinds = {type(self.parameter), type(self.gradient)}
        if self.group.policies.get("on_nonfinite", "propagate") != "propagate":
            return False
        return not self.loads and kinds <= _memory.USUAL_TYPES and not self.parameter.is_inference()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the entries of the state that a step uses."""
        return (*self._names_of_numbers, *(x.name for x in self.updater.slots_of(self.own)))

    @property
    def _names_of_numbers(self) -> list[str]:
        kept = [self.group.kept_rate] if self.group.kept_rate else []
        return [*(["step"] if self.group.counts else []), *(["clock"] if self.updater.keeps_clock else []), *kept]

    @property
    def kept_rate(self) -> float | None:
        """The learning rate of the step, if the state contains it."""
        return None if self.rate_cell is None else float(self.rate_cell.value)

    @property
    def kept(self) -> tuple[float, ...] | None:
        """The numbers that the rule keeps in the clock."""
        return None if self.clock_cell is None else tuple(self.clock_cell)


class _Batch:
    """Entries that one call of the library updates: they share an updater, a learning rate and a step count."""

    def __init__(self, entries: list[Entry]) -> None:
        first, self.number = entries[0], len(entries)
        self.updater, self.scale, self.after = first.updater, first.group.gradient_scale, first.after
        self.rate_options, self.rate, self.kept_rate = first.group.rate_options, 0.0, first.kept_rate
        self.kept = first.kept
        self.loss: float | None = None
        self.groups = sorted({x.group.number for x in entries})
        pointers = ctypes.c_void_p * self.number
        self.parameters = pointers(*[x.memory.data_ptr() for x in entries])
        self._slots = [self.updater.pointers(x.memory, x.slots) for x in entries]
        self.slots = pointers(*map(ctypes.addressof, self._slots))
        self.counts = (ctypes.c_uint64 * self.number)(*[_memory.numbers(x.memory) for x in entries])
        if self.updater.uses_shape:
            extents = [_rows_and_columns(x.memory) for x in entries]
            self.rows = (ctypes.c_uint64 * self.number)(*[rows for rows, _ in extents])
            self.columns = (ctypes.c_uint64 * self.number)(*[columns for _, columns in extents])
        self.gradients = array("Q", [x.gradient.data_ptr() for x in entries])
        self.cells = [x.cell for x in entries if x.cell is not None]
        self.rate_cells = [x.rate_cell for x in entries if x.rate_cell is not None]
        self.clock_cells = [x.clock_cell for x in entries if x.clock_cell is not None]
        self.loads = [x for each in entries for x in each.loads]
        self.stores = [x for each in entries for x in each.stores]

    def prepare(self, rate_of: Callable[[tuple[float, ...], int], float], loss: Any) -> None:
        """Prepares the step in the library. Raises if a number is out of range. loss: what the closure returned."""
        self._find_rate(rate_of)
        self.loss = _loss_of(loss, self.updater.rule) if self.updater.needs_loss else None
        self.updater.next_step(self.after, self.rate, self.scale, self.kept, self.loss)

    def _find_rate(self, rate_of: Callable[[tuple[float, ...], int], float]) -> None:
        if self.kept_rate is None:
            self.rate = rate_of(self.rate_options, self.after)
        else:
            self.rate, self.next_rate = self.kept_rate, rate_of(self.rate_options, self.after + 1)

    def follow(self, rate_of: Callable[[tuple[float, ...], int], float]) -> bool:
        """Continues after a step of another batch on the same parameter; False if there was none."""
        if not self.cells or self.cells[0].value == self.after:
            return False
        self.after = int(self.cells[0].value)
        if self.rate_cells:
            self.kept_rate = self.rate_cells[0].value
        if self.clock_cells:
            self.kept = tuple(self.clock_cells[0])
        self._find_rate(rate_of)
        return True

    @property
    def is_current(self) -> bool:
        """Whether the numbers in the state have not changed since the last step."""
        return (
            (not self.cells or list(map(_value_of, self.cells)) == [self.after] * self.number)
            and (not self.rate_cells or list(map(_value_of, self.rate_cells)) == [self.kept_rate] * self.number)
            and all(tuple(x) == self.kept for x in self.clock_cells)
        )

    def load(self) -> None:
        """Copies what the step cannot read in its place."""
        for load in self.loads:
            load()

    def run(self, is_prepared: bool) -> None:
        if self.updater.model is None:  # otherwise it is prepared and loaded, and settled with the rest of its model
            if not is_prepared:  # another batch of the same updater has taken its step since
                self.updater.next_step(self.after, self.rate, self.scale, self.kept)
            self.load()
        gradients = self.gradients.buffer_info()[0]
        if self.updater.uses_shape:
            self.updater.apply_matrices(self.parameters, gradients, self.slots, self.rows, self.columns, self.number)
        else:
            self.updater.apply(self.parameters, gradients, self.slots, self.counts, self.number)
        for store in self.stores:
            store()
        if self.cells:
            self.after += 1
            for cell in self.cells:
                cell.value = self.after
            if self.rate_cells:
                for cell in self.rate_cells:
                    cell.value = self.next_rate
                self.kept_rate = self.rate_cells[0].value
            if self.clock_cells:
                self.kept = self.updater.kept()
                for cell in self.clock_cells:
                    cell[:] = self.kept
        elif self.after == 0:
            self.after = 1


class _Model:
    """The batches with the same model-wise rule: their sums are added in the order of the parameters, as in gradstep.Model."""

    def __init__(self, batches: list[tuple[_Batch, list[int]]]) -> None:
        self.batches = [batch for batch, _ in batches]
        parts = sorted((index, b, k) for b, (_, indices) in enumerate(batches) for k, index in enumerate(indices))
        self.order = [(b, k) for _, b, k in parts]
        members = [(self.batches[b], k) for b, k in self.order]
        self.number = len(members)
        pointers = ctypes.c_void_p * self.number
        self.updaters = pointers(*[x.updater.handle for x, _ in members])
        self.parameters = pointers(*[x.parameters[k] for x, k in members])
        self.slots = pointers(*[x.slots[k] for x, k in members])
        self.counts = (ctypes.c_uint64 * self.number)(*[x.counts[k] for x, k in members])
        self.failure = self.batches[0].updater.failure

    def settle(self) -> None:
        """Settles the prepared steps. It reads the tensors, and raises before anything is written."""
        for batch in self.batches:
            batch.load()
        if len(self.batches) == 1:
            gradients = self.batches[0].gradients
        else:
            of_batches = [x.gradients for x in self.batches]
            gradients = array("Q", [of_batches[b][k] for b, k in self.order])
        at = gradients.buffer_info()[0]
        check(
            library.gradstep_updaters_settle(
                self.updaters, self.parameters, at, self.slots, self.counts, self.number, ctypes.byref(self.failure)
            ),
            self.failure,
        )


class Plan:
    """The step of all parameters that have a gradient."""

    def __init__(self, entries: list[Entry], rate_of: Callable[[tuple[float, ...], int], float]) -> None:
        self.rate_of = rate_of
        written = [extent for x in entries for extent in x.extents]
        # Parameters that share memory are updated one after the other, as in torch.
        self.is_sequence = _memory.overlap(written) or _memory.meet(written, [_memory.extent(x.gradient) for x in entries])
        of_model = next((x.updater for x in entries if x.updater.model is not None), None)
        if self.is_sequence and of_model is not None:
            raise error(
                Status.BAD_BUFFER,
                f"rule: {of_model.rule} updates all parameters together, and two of their tensors share memory; "
                "expected separate memory for each",
            )
        found: dict[Any, list[int]] = {}
        for index, x in enumerate(entries):
            alike = x.updater, x.group.gradient_scale, x.group.rate_options, x.after, x.kept_rate, x.kept
            key = index if self.is_sequence else alike
            found.setdefault(key, []).append(index)
        self.indices = list(found.values())
        self.batches = [_Batch([entries[i] for i in each]) for each in self.indices]
        models: dict[str, list[tuple[_Batch, list[int]]]] = {}
        for batch, each in zip(self.batches, self.indices):
            if batch.updater.model is not None:
                models.setdefault(batch.updater.model, []).append((batch, each))
        self.models = [_Model(x) for x in models.values()]

    def prepare(self, loss: Any) -> None:
        """Prepares all batches, so that errors occur before the first write. loss: what the closure returned."""
        for batch in self.batches:
            batch.prepare(self.rate_of, loss)
        for model in self.models:
            model.settle()

    def run(self) -> None:
        """Takes the prepared step."""
        several = len({x.updater for x in self.batches}) < len(self.batches)
        for batch in self.batches:
            if self.is_sequence and batch.follow(self.rate_of):  # a parameter that occurs twice
                several = True
            batch.run(is_prepared=not several)

    def keep(self, entries: list[Entry], groups: list[dict[str, Any]], state: Any, options_of: Any, rates_of: Any) -> bool:
        """Stores what `is_current` compares; False if the plan is valid for one step only."""
        if self.is_sequence or not entries or not all(x.can_be_kept for x in entries):
            return False
        self.options_of, self.rates_of = options_of, rates_of
        try:
            self.options = [snapshot(options_of(group)) for group in groups]
        except KeyError:  # a group lacks an option that no step needs
            return False
        self.sizes = list(map(len, map(_parameters_of, groups)))
        self.rates = [snapshot(rates_of(group)) for group in groups]
        present = [x.grad is not None for group in groups for x in group["params"]]
        self.present = None if all(present) else present
        by_names: dict[tuple[str, ...], list[int]] = {}
        for index, x in enumerate(entries):
            by_names.setdefault(x.names, []).append(index)
        self.names = [(names, None if len(by_names) == 1 else at) for names, at in by_names.items() if names]
        self.parameters = [x.parameter for x in entries]
        gradients: list[Any] = [x.parameter.grad for x in entries]
        tensors = self._tensors(self.parameters, state)
        if not _memory.USUAL_TYPES.issuperset(map(type, tensors)):
            return False
        self.guard = _memory.Guard([*tensors, *gradients])
        self.addresses = list(map(_memory.address_of, tensors))
        self.parameters = []
        self.gradients_at = list(map(_memory.address_of, gradients))
        self.written = _memory.Written([x for each in entries for x in each.extents], [x.nbytes for x in gradients])
        return True

    def _tensors(self, parameters: list[torch.Tensor], state: Any) -> list[torch.Tensor]:
        """The parameters, and the entries of their state that a step uses."""
        if not self.names:
            return parameters
        if len(state) == len(parameters) and all(map(is_, state, parameters)):
            states = list(state.values())  # faster than a look-up, which calls a Python function to hash each tensor
        else:
            states = [state.get(x) for x in parameters]
        tensors = list(parameters)
        for names, indices in self.names:
            each = states if indices is None else [states[i] for i in indices]
            for name in names:
                tensors += map(itemgetter(name), each)
        return tensors

    def is_current(
        self,
        groups: list[dict[str, Any]],
        state: Any,
        group_of: Callable[[int], Group],
        forget: Callable[[Updater], None],
    ) -> bool:
        """Whether the plan is valid for the next step. Hyperparameters can have changed; everything else must be the same."""
        try:
            options = list(map(self.options_of, groups))
            if options != self.options and not self._take_options(options, group_of, forget):
                return False
            of_groups = list(map(_parameters_of, groups))
            if list(map(len, of_groups)) != self.sizes:
                return False
            parameters = list(chain.from_iterable(of_groups))
            gradients = list(map(_gradient_of, parameters))
            present = list(map(is_not, gradients, repeat(None)))
            if self.present is not None:
                if present != self.present:
                    return False
                parameters, gradients = list(compress(parameters, present)), list(compress(gradients, present))
            elif not all(present):
                return False
            tensors = self._tensors(parameters, state)
            if not self.guard.holds(*tensors, *gradients) or list(map(_memory.address_of, tensors)) != self.addresses:
                return False
            if not all(batch.is_current for batch in self.batches):
                return False
            at = list(map(_memory.address_of, gradients))
            if at != self.gradients_at and self.written.meets(at):
                return False
            rates = list(map(self.rates_of, groups))
            if rates != self.rates and not self._take_rates(rates):
                return False
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):
            return False  # the next plan raises the error
        for batch, indices in zip(self.batches, self.indices):
            batch.gradients = array("Q", at if len(self.batches) == 1 else [at[i] for i in indices])
        self.parameters, self.gradients_at = parameters, at
        return True

    def _take_options(
        self, options: list[Any], group_of: Callable[[int], Group], forget: Callable[[Updater], None]
    ) -> bool:
        """Uses new hyperparameters, if the groups of each updater still share them and only numbers have changed."""
        if self.models:  # groups that were one model can be two, or the other way round
            return False
        groups = [group_of(i) for i in range(len(options))]
        policies: dict[Updater, Mapping[str, Any]] = {}
        for batch in self.batches:
            first = groups[batch.groups[0]]
            for of_group in [groups[i] for i in batch.groups]:
                if of_group.gradient_scale != batch.scale or of_group.policies != first.policies:
                    return False
            if policies.setdefault(batch.updater, first.policies) != first.policies:
                return False
        changes = {updater: updater.changes_to(config) for updater, config in policies.items()}
        if any(x is None for x in changes.values()):
            return False
        for updater, numbers in changes.items():
            if numbers:
                forget(updater)  # its key is the old configuration
                updater.change(policies[updater], numbers)
        self.options = list(map(snapshot, options))
        return True

    def _take_rates(self, rates: list[Any]) -> bool:
        """Uses new learning rates, if the groups of each batch still have the same rates."""
        known = [snapshot(x) for x in rates]
        options = [x if isinstance(x, tuple) else (x,) for x in known]
        if not all(0 <= value < math.inf for of_group in options for value in of_group):
            return False
        for batch in self.batches:
            if len({options[i] for i in batch.groups}) != 1:
                return False
        for batch in self.batches:
            batch.rate_options = options[batch.groups[0]]
        self.rates = known
        return True


_parameters_of, _gradient_of, _value_of = itemgetter("params"), attrgetter("grad"), attrgetter("value")


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
