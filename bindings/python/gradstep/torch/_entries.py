"""The step of one parameter: `Entry` finds and checks its memory, its gradient and its state."""

from __future__ import annotations

import ctypes
import enum
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from .._library import Status, error
from . import _memory
from ._updaters import NO_NUMBERS, Slot, Updater

_LARGEST_STEP = 2.0**53


class Group(NamedTuple):
    """The options that all entries of a parameter group share."""

    number: int
    first_id: int  # of its parameter 0, for random numbers
    policies: Mapping[str, Any]
    updater_of: Callable[[torch.dtype, str], Updater]
    rate_options: tuple[float, ...]
    gradient_scale: float
    counts: bool  # the state has "step"; otherwise a step is the first one if the slot does not exist yet
    kept_rate: str | None  # the entry of the state with the rate of the next step
    first_rate: float
    sparse: Sparse
    # Where a parameter without state begins: the step, and the numbers in the clock. A model-wise rule's run goes on.
    begin: tuple[float, tuple[float, ...]] = (0.0, NO_NUMBERS)


class Sparse(enum.Enum):
    """What a step does with sparse gradients."""

    REFUSED = "a dense one"
    REFUSED_WITH_DECAY = "a dense one, or no weight_decay"
    ROWS = "their rows are updated"
    ROWS_ONLY = "the same, and dense ones are refused"
    AS_DENSE = "the elements that they lack are zeros"


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
        what = self.what = f"parameter {position} of group {group.number}"
        self.parameter, self.group = parameter, group
        # For random numbers: in any batch, and whatever other parameters there are.
        self.id = (_memory.shard_number(parameter) << 48) + group.first_id + position
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
            raise error(
                Status.BAD_SIZE,
                f"{what}: is of {own.dtype} and has the shape {tuple(own.shape)}; expected a real matrix; give vectors to a group with "
                "another config",
            )
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
            like = self.shaped_like(slot, memory, dtype)
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
        is_new = bool(missing and wanted and not begun)
        if not is_new and missing and not self.group.counts:  # torch also starts each missing buffer at 0
            self.loads += [x.zero_ for x in result]
        self.numbers: list[torch.Tensor] = []
        self._count(begun.get("step", state.get("step")), bool(missing), what)
        self.clock_cell = self._clock(begun.get("clock", state.get("clock")), what) if self.updater.keeps_clock else None
        kept = self.group.kept_rate
        self.rate_cell: Any = None if kept is None else self._kept_rate(kept, begun.get(kept, state.get(kept)), what)
        if is_new:
            self.updater.initialize(memory if memory is self.own else memory.copy_(self.own), result, self.after, self.kept)
        return result

    def weights_set(self) -> None:
        """Adapts the state to the weights, which other code has set."""
        for load in self.loads:
            load()
        self.updater.weights_set(self.memory, self.slots, self.after, self.kept)

    @staticmethod
    def shaped_like(slot: Slot, memory: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
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
