"""Updaters: the library owns the clock, and you own all memory."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _arrays
from ._arrays import Array
from ._library import CTensorOptions, Status, check, check_created, error, library, new_error
from ._shared import Clock, Config, Owner, StepOptions, c_options, config_bytes, zeroes

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Slot(NamedTuple):
    """Describes one array of an optimizer's state."""

    name: str  #: the name of the slot, such as "m" or "v"
    dtype: str  #: the dtype of the slot, such as "float32"
    single: bool  #: whether the slot is one number for the whole tensor, not one per element, row or column


class Updater(Owner):
    """An optimizer that updates values and state in your own arrays.

        adam = gradstep.Updater({"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.001}})
        state = adam.initialize(weights)                # {"m": ..., "v": ...}
        adam.next_step()
        adam.apply(weights, gradient, state)            # every tensor of the model

    config: a configuration, as in `Parameter`.
    dtype: the dtype of values and gradients.

    Arrays must be contiguous and on the CPU, and must not overlap each other. Rules that use shapes, such as muon and adafactor, take
    the shape of the array: dimensions after the first one are joined. You can copy and pickle updaters. A copy has the
    same clock and the same prepared step. Updaters are not thread-safe; different updaters can be used from different threads.
    """

    _kind = "updater"
    _members = Owner._members | {"_element", "dtype", "slots", "_zeroes", "_prepared", "_needs_matrix", "_factors", "_is_factored"}

    def __init__(self, config: Config, dtype: Any = "float32") -> None:
        self._element = _arrays.dtype_of(dtype)
        self.dtype = self._element.name
        text, out, failure = config_bytes(config), ctypes.c_void_p(), new_error()
        check_created(
            library.gradstep_updater_create(text, len(text), self._element.code, ctypes.byref(out), ctypes.byref(failure)),
            failure,
        )
        super().__init__(out.value or 0)
        self.slots = tuple(
            Slot(x.name.decode(), _arrays.dtype_of_code(x.dtype).name, x.count == 1) for x in self._described_slots()
        )  #: the slots of the state, in the order of the rule
        self._needs_matrix = self._rule_name() == "muon"
        self._factors = [size in (2, 3) for size in self._sizes(2, 3)]  # which slots have a number for each row or column
        self._is_factored = any(self._factors)
        self._zeroes = False  # whether the prepared step writes to its gradients
        self._prepared: dict[str, Any] | None = None  # the options of that step

    def _saved(self) -> dict[str, Any]:
        return {
            "config": self._config_text(),
            "dtype": self.dtype,
            "clock": self.clock,
            "prepared": self._prepared and dict(self._prepared),
        }

    def _restore(self, saved: dict[str, Any]) -> None:
        Updater.__init__(self, saved["config"], saved["dtype"])
        clock, prepared = saved["clock"], saved["prepared"]
        if prepared is None:
            Updater.seek(self, clock)
            return
        # The prepared step is a function of the configuration, the clock before it and its options.
        before = clock._replace(step=clock.step - 1, samples=clock.samples - prepared.get("samples", 0))
        Updater.seek(self, before)
        Updater.next_step(self, **prepared)

    def __repr__(self) -> str:
        if self.__dict__.get("_handle") is None:
            return f"<gradstep.{type(self).__name__} released>"
        return f"<gradstep.{type(self).__name__} {self._rule_name()} {self.dtype}, step {self.clock.step}>"

    def seek(self, clock: Clock) -> None:
        """Sets the clock to the progress of a run. Call `next_step` next."""
        super().seek(clock)
        self._prepared = None

    def set_numbers(self, numbers: Mapping[str, float]) -> None:
        super().set_numbers(numbers)
        self._prepared = None

    set_numbers.__doc__ = Owner.set_numbers.__doc__

    def initialize(self, parameter: Array, state: Mapping[str, Array] | None = None) -> Mapping[str, Array]:
        """Returns the initial state of a tensor, a dict of arrays by slot name. Averages account for the steps of the clock so far.

        parameter: the tensor's initial values.
        state: arrays to write the state into; None: new numpy arrays of the tensor's shape. Factored rules, such as adafactor, have
            arrays of one dimension for rows and columns. Arrays that a tensor does not need are empty.
        """
        found = _arrays.checked(parameter, "parameter", self._element, None)
        rows, columns = _rows_and_columns(found)
        if state is None:
            shapes = [
                (size,) if is_factor or size != found.size else found.shape
                for size, is_factor in zip(self._sizes(rows, columns), self._factors)
            ]
            state = {x.name: _arrays.empty(shape, _arrays.dtype_of(x.dtype)) for x, shape in zip(self.slots, shapes)}
        slots, kept = self._addresses(state, found, "")
        self._call("initialize_matrix", found.address, slots, rows, columns)
        del kept
        return state

    def weights_set(self, parameter: Array, state: Mapping[str, Array]) -> None:
        """Call it after you have set the values of a tensor: state that contains weights follows them.

            weights[:] = pretrained
            adam.weights_set(weights, state)

        parameter: the new values.
        state: the arrays from `initialize`, which are updated.

        Training goes on from the new values. A master copy becomes them; moments and the clock do not change. docs/how_to/checkpoints.md
        says what each rule does.
        """
        found = _arrays.checked(parameter, "parameter", self._element, None)
        slots, kept = self._addresses(state, found, "")
        self._call("weights_set", found.address, slots, *_rows_and_columns(found))
        del kept

    def next_step(self, **options: Unpack[StepOptions]) -> None:
        """Prepares the next step and advances the clock. Then call `apply` for every tensor of the model.

        The options are the members of `StepOptions`. With zero_gradient, `apply` writes to the gradients.
        """
        given = c_options(options) if options else None
        self._call("next_step", given and ctypes.byref(given))
        self._zeroes = zeroes(options)
        self._prepared = {}
        if given is not None:
            self._prepared = {name: getattr(given, name) for name, value in options.items() if value is not None}

    def apply(self, parameter: Array, gradient: Array, state: Mapping[str, Array] | None = None) -> None:
        """Applies the step that `next_step` prepared to one tensor.

        parameter: the values, which are updated.
        gradient: an array of the same dtype, of the shape of the parameter or flat.
        state: the arrays from `initialize`, of their shapes or flat; None if the rule has no state.

        If the rule draws random numbers, apply a step to the tensors in the same order every time, and on one thread: their ids are
        a count. With `"on_nonfinite": "skip"` or `"raise"`, a gradient with NaN or infinity changes neither parameter nor state.
        """
        if self._needs_matrix or self._is_factored:
            return self.apply_many([parameter], [gradient], [state or {}])
        found = _arrays.checked(parameter, "parameter", self._element, None, writable=True)
        of_gradient = _arrays.checked(gradient, "gradient", self._element, found.shape, self._zeroes)
        slots, kept = self._addresses(state or {}, found, "")
        self._call("apply", found.address, of_gradient.address, slots, found.size)
        del kept

    def apply_many(
        self,
        parameters: Sequence[Array],
        gradients: Sequence[Array],
        states: Sequence[Mapping[str, Array]] | None = None,
        *,
        rate_scales: Sequence[float] | None = None,
        decays: Sequence[float] | None = None,
        steps: Sequence[int | None] | None = None,
    ) -> None:
        """Applies the prepared step to many tensors in one call, which splits them over threads together.

        rate_scales: one factor for each tensor, which multiplies its learning rate; finite and >= 0.
        decays: one factor for each tensor, which multiplies the decay of the regularizer; finite and >= 0. 0: no decay; clipping
            stays.
        steps: the number of each tensor's step, from 1, such as a lower one of a tensor that joined later; None: the clock's.

        The clip "clip_global_norm" limits the norm of all gradients of the call. All arguments are checked before anything is
        written. For random numbers, the tensors of a step are counted over all calls.
        """
        number = len(parameters)
        if states is None:
            states = [{}] * number
        if len(gradients) != number or len(states) != number:
            raise error(
                Status.BAD_SIZE,
                f"apply_many: {number} parameters, {len(gradients)} gradients, {len(states)} states; "
                "expected as many of each",
            )
        weights = [
            _arrays.checked(x, f"parameters[{i}]", self._element, None, writable=True) for i, x in enumerate(parameters)
        ]
        for i, x in enumerate(weights):
            if self._needs_matrix and len(x.shape) < 2:
                raise error(Status.BAD_SIZE, f"parameters[{i}]: has the shape {tuple(x.shape)}; expected a matrix")
        found = [
            _arrays.checked(x, f"gradients[{i}]", self._element, weights[i].shape, self._zeroes)
            for i, x in enumerate(gradients)
        ]
        slots = [self._addresses(x, weights[i], f"states[{i}]: ") for i, x in enumerate(states)]
        pointers, counts = ctypes.c_void_p * number, ctypes.c_uint64 * number
        addresses = (
            pointers(*[x.address for x in weights]),
            pointers(*[x.address for x in found]),
            pointers(*[ctypes.addressof(x) for x, _ in slots]),
        )
        options = None if rate_scales is decays is steps is None else _tensor_options(number, rate_scales, decays, steps)
        if not (self._needs_matrix or self._is_factored):
            sizes = counts(*[x.size for x in weights])
            if options is None:
                self._call("apply_many", *addresses, sizes, number)
            else:
                self._call("apply_with", *addresses, sizes, None, number, ctypes.byref(options))
            return
        extents = [_rows_and_columns(x) for x in weights]
        shapes = counts(*[rows for rows, _ in extents]), counts(*[columns for _, columns in extents])
        self._call("apply_with", *addresses, *shapes, number, options and ctypes.byref(options))

    def _sizes(self, rows: int, columns: int) -> list[int]:
        """The number of elements of each slot of a tensor."""
        size, result = ctypes.c_uint64(), []
        for index in range(len(self.slots)):
            self._call("slot_size", index, rows, columns, ctypes.byref(size))
            result.append(size.value)
        return result

    def _addresses(self, state: Mapping[str, Array], of: _arrays.View, where: str) -> tuple[Any, list[_arrays.View]]:
        """The addresses of the slots, and the views that must stay alive while the addresses are used."""
        if state.keys() != {slot.name for slot in self.slots}:
            raise error(
                Status.BAD_VALUE,
                f"{where}state: has {', '.join(state) or 'nothing'}; expected "
                f"{', '.join(slot.name for slot in self.slots) or 'nothing'}",
            )
        sizes = self._sizes(*_rows_and_columns(of)) if self._is_factored else [1 if x.single else of.size for x in self.slots]
        views = []
        for slot, size, is_factor in zip(self.slots, sizes, self._factors):
            is_like_parameter = size == of.size and not is_factor
            # Row statistics of torch have the shape (rows, 1), and are in the same order.
            shapes = [of.shape] if is_like_parameter else [(size,), (size, 1), (1, size)]
            views.append(
                _arrays.checked(
                    state[slot.name], f"{where}state {slot.name}", _arrays.dtype_of(slot.dtype), shapes[0], True, *shapes[1:]
                )
            )
        return (ctypes.c_void_p * max(1, len(views)))(*[x.address for x in views]), views


def _rows_and_columns(view: _arrays.View) -> tuple[int, int]:
    """The extents of a tensor for the library, with the dimensions after the first one joined. A vector has 0 columns."""
    if len(view.shape) < 2 or view.size == 0:
        return view.size, 0
    return view.shape[0], math.prod(view.shape[1:])


def _tensor_options(
    number: int, rate_scales: Sequence[float] | None, decays: Sequence[float] | None, steps: Sequence[int | None] | None
) -> CTensorOptions:
    """The options of each tensor of a call, after a check of their numbers."""
    for name, given in (("rate_scales", rate_scales), ("decays", decays), ("steps", steps)):
        if given is not None and len(given) != number:
            raise error(Status.BAD_SIZE, f"apply_many: {name}: has {len(given)} elements; expected {number}, as there are parameters")
    if steps is not None and 0 in steps:
        raise error(Status.BAD_VALUE, "apply_many: steps: 0 is out of range; expected >= 1, or None")
    factors = ctypes.c_double * number
    return CTensorOptions(
        ctypes.sizeof(CTensorOptions),
        0,
        None if rate_scales is None else factors(*rate_scales),
        None if decays is None else factors(*decays),
        None if steps is None else (ctypes.c_int64 * number)(*[x or 0 for x in steps]),
    )


def global_norm(gradients: Sequence[Array]) -> float:
    """Returns the Euclidean norm of all gradients together, as the clip "clip_global_norm" computes it.

    The gradients are contiguous arrays on the CPU, all of one dtype: float32, float64, float16 or bfloat16. The norm is not finite
    if an element is not. Its bits are the same on every machine.
    """
    norm = ctypes.c_double()
    _of_gradients("global_norm", gradients, ctypes.byref(norm))
    return norm.value


def first_nonfinite(gradients: Sequence[Array]) -> tuple[int, int] | None:
    """Finds the first NaN or infinity in gradients. Returns the index of the gradient and the index of the element in it, in
    memory order; None if all elements are finite. The gradients are as for `global_norm`."""
    tensor, element = ctypes.c_uint64(), ctypes.c_uint64()
    _of_gradients("first_nonfinite", gradients, ctypes.byref(tensor), ctypes.byref(element))
    return None if tensor.value == len(gradients) else (tensor.value, element.value)


def _of_gradients(function: str, gradients: Sequence[Array], *out: Any) -> None:
    views = [_arrays.view(x, f"gradients[{i}]") for i, x in enumerate(gradients)]
    element = views[0].dtype if views else _arrays.dtype_of("float32")
    for i, x in enumerate(views):
        if x.dtype is not element:
            raise error(Status.UNSUPPORTED_TYPE, f"gradients[{i}]: is of {x.dtype.name}; expected {element.name}, as gradients[0]")
    number, failure = len(views), new_error()
    at, counts = (ctypes.c_void_p * number)(*[x.address for x in views]), (ctypes.c_uint64 * number)(*[x.size for x in views])
    check(
        getattr(library, "gradstep_" + function)(element.code, at, counts, number, None, *out, ctypes.byref(failure)), failure
    )
