"""Parameters, tables and models: the library owns values, state and clock."""

from __future__ import annotations

import copy
import ctypes
import itertools
import json
import math
import operator
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast, overload

import numpy

from . import _arrays
from ._arrays import Array, Ids
from ._hints import did_you_mean
from ._library import (
    ROW_SCORE,
    ROW_TEST,
    CBagOptions,
    CKeyCounts,
    CLoadOptions,
    CRow,
    CSamOptions,
    CSlot,
    CTableInfo,
    FileError,
    InvalidError,
    OutOfRangeError,
    Status,
    check,
    check_created,
    error,
    library,
    new_error,
)
from ._shared import (
    Config,
    LentHandle,
    Owner,
    StepOptions,
    attributes_of,
    check_name,
    config_bytes,
    int64,
    integer,
    options_address,
    path_bytes,
    real,
    shape_of,
    zeroes,
)

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

_update = library.gradstep_parameter_update
_Out = TypeVar("_Out")
_Member = TypeVar("_Member", bound="Parameter | Table")


class _State(Owner):
    """The base class of parameters and tables: state that the library owns."""

    _members = Owner._members | {"_element", "dtype", "_average_is_applied"}
    _element: _arrays.Dtype

    def _extent(self) -> tuple[int, ...]:
        """The shape of the values."""
        raise NotImplementedError

    def _follow_rows(self, rows: int) -> None:
        """Follows a change of the number of rows."""

    def _copied(self, address: int, out: Array | None, element: _arrays.Dtype, shape: tuple[int, ...]) -> Any:
        """Copies memory of the library to `out`, or to a new array."""
        if out is None:
            out = _arrays.empty(shape, element)
        found = _arrays.checked(out, "out", element, shape, writable=True)
        ctypes.memmove(found.address, address, found.size * element.itemsize)
        return out

    def _ids(self, ids: Ids, what: str = "ids") -> _arrays.View:
        return _arrays.ids_view(ids, what)

    def apply_average(self) -> None:
        """Replaces the values by the average, until `restore`.

        Steps raise `SequenceError` until then.
        """
        self._call("apply_average")
        self._average_is_applied = True

    def restore(self) -> None:
        """Brings back the trained values after `apply_average`, bit for bit, or after `ascend` of a parameter, without a step."""
        self._call("restore")
        self._average_is_applied = False

    def save_state(self) -> bytes:
        """Serializes values, state and clock, with a checksum, so that a run can resume bit for bit.

        `load_state` reads the bytes. They do not contain the configuration.
        """
        size, written, spare = ctypes.c_uint64(), ctypes.c_uint64(), 0
        while True:
            self._call("state_bytes", ctypes.byref(size))
            buffer = bytearray(size.value + spare)
            try:
                self._call("save", ctypes.addressof(ctypes.c_char.from_buffer(buffer)), len(buffer), ctypes.byref(written))
            except InvalidError as refused:
                # Another thread has updated the table since `state_bytes`, and the state has become longer.
                if refused.code != Status.BAD_SIZE or spare > size.value:
                    raise
                spare = 2 * spare + 4096
            else:
                return bytes(memoryview(buffer)[: written.value])

    def load_state(self, state: bytes | bytearray | memoryview) -> None:
        """Restores values, state and clock from the bytes of `save_state`.

        state: the bytes of a parameter with the same shape, dtype and rule.

        Raises `InvalidError` if the bytes do not match this parameter or are damaged. Then nothing changes.
        """
        memory = numpy.frombuffer(state, numpy.uint8)
        self._call("load", memory.ctypes.data, memory.size)

    def __repr__(self) -> str:
        if self.__dict__.get("_handle") is None:
            return f"<gradstep.{type(self).__name__} released>"
        return f"<gradstep.{type(self).__name__} {self._rule_name()} {self._element.name} {self._extent()}, step {self.clock.step}>"


class _Values(_State):
    """The base class of parameters, and of tables whose rows have numbers."""

    _kind = "parameter"
    _members = _State._members | {"shape", "size", "_views", "_copy_in_bfloat16"}

    def __init__(self, config: Config, initial: Array | None, shape: Any, dtype: Any) -> None:
        if initial is not None:
            found = _arrays.view(initial, "initial")
            for name, given, has in (
                ("shape", None if shape is None else shape_of(shape), found.shape),
                ("dtype", dtype and _arrays.dtype_of(dtype).name, found.dtype.name),
            ):
                if given is not None and given != has:
                    raise error(Status.BAD_VALUE, f"{name}: is {given}; expected {has}, as initial has; leave it out")
            element, shape, address = found.dtype, found.shape, found.address
        elif shape is None:
            raise error(Status.BAD_VALUE, "initial: is missing; expected the values at the start, or a shape, and they are 0")
        else:
            element, address = _arrays.dtype_of("float32" if dtype is None else dtype), None
        self._element = element
        self.shape = shape_of(shape)  #: the shape of the values
        self.dtype = element.name  #: the dtype of values and gradients: "float32", "float64", "float16", "bfloat16", ...
        rows, width = self._rows_and_width(self.shape)
        self.size = rows * width  #: the number of elements
        text, out, failure = config_bytes(config), ctypes.c_void_p(), new_error()

        def create(address: int | None, rows: int) -> int:
            check_created(
                library.gradstep_parameter_create(
                    text, len(text), element.code, address, rows, width, ctypes.byref(out), ctypes.byref(failure)
                ),
                failure,
            )
            return out.value or 0

        super().__init__(create(address, rows))
        if rows == 1 and width != 0 and isinstance(self, Table):
            # The library makes a vector of a single row. A table that begins without rows gets it as its first one.
            vector, values = self._owned, self._values_address()
            super().__init__(create(None, 0))
            self._call("append", values, width)
            del vector
        # With catch_up "exact" and "replay", files store a parameter as one row of n.
        if self.shape == (rows, width) or b"catch_up" not in text or self.config["catch_up"] == "touch_only":
            self._call("set_shape", (ctypes.c_uint64 * len(self.shape))(*self.shape), len(self.shape))
        self._average_is_applied = False
        self._views: weakref.WeakSet[Any] = weakref.WeakSet()  # has an item for each array over the values
        self._copy_in_bfloat16: Any = None  # the memory of `set_bfloat16_copy`

    def _extent(self) -> tuple[int, ...]:
        return self.shape

    @staticmethod
    def _rows_and_width(shape: tuple[int, ...]) -> tuple[int, int]:
        raise NotImplementedError

    def _values_address(self) -> int:
        """The address of the values, with all pending steps applied."""
        address, count = ctypes.c_void_p(), ctypes.c_uint64()
        self._call("values", ctypes.byref(address), ctypes.byref(count))
        return address.value or 0

    @overload
    def values(self, out: None = None) -> numpy.ndarray[Any, Any]: ...
    @overload
    def values(self, out: _Out) -> _Out: ...
    def values(self, out: Any = None) -> Any:
        """Copies the values to `out`, or to a new numpy array, and returns it.

        out: a writable array of the same dtype, of the values' shape or flat.

        Pending steps of inactive rows are applied first.
        """
        return self._read_values(out)

    def _read_values(self, out: Any) -> Any:
        return self._copied(self._values_address(), out, self._element, self.shape)

    def view(self) -> numpy.ndarray[Any, Any]:
        """Returns the values without a copy: a read-only numpy array that shows every later step.

        The memory is valid while an array refers to it, even after `release`; until then, rows cannot change (`append`).
        Pending steps of inactive rows are applied when you make the view; later steps of inactive rows show after the next read
        of these rows, or after `flush`. Raises `SequenceError` while the average replaces the values.
        """
        return self._view(self._element.numpy or _arrays.empty((), self._element).dtype)

    def _view(self, dtype: numpy.dtype[Any]) -> numpy.ndarray[Any, Any]:
        address = self._values_address()
        if self._average_is_applied:  # `restore` frees the memory of the average
            raise error(
                Status.BAD_SEQUENCE, "view: the average is in the place of the values; expected restore() first"
            )
        return _arrays.borrowed(address, self.shape, dtype, self._owned, self._views)

    def set_values(self, values: Array) -> None:
        """Sets all values.

        values: an array of the same dtype, of the values' shape or flat.

        Training goes on from the new values: state that contains weights follows them, such as a master copy
        (docs/how_to/checkpoints.md). Moments, averages of earlier steps, and the clock do not change. If the array is rejected,
        nothing changes.
        """
        found = _arrays.checked(values, "values", self._element, self.shape)
        self._call("set_values", found.address, found.size)

    def set_bfloat16_copy(self, memory: Array | None) -> None:
        """Lets each step also write the values, rounded to bfloat16, to your memory, for example for the forward pass.

            copy = numpy.empty(w.shape, ml_dtypes.bfloat16)
            w.set_bfloat16_copy(copy)

        memory: a writable array of the values' shape, or flat: of bfloat16 (of ml_dtypes, or a tensor of torch), or of numpy's
            uint16, which gets the bits. The parameter keeps it. None: later steps write no copy.

        The call writes the present values. Then each step writes the values that it changes, and `flush` writes all rows. Call it
        again after `set_values`, `load_state`, `Model.load`, `apply_average` or `restore`, which do not write the copy. Copies and pickles
        of the parameter have no such memory. Only for values of float32, without "dgc_momentum". While there is a copy, the rows cannot
        move (`append`), and `ascend` raises `InvalidError`. If the memory is rejected, nothing changes.
        """
        if memory is None:
            self._call("set_bfloat16_copy", None, 0)
            self._copy_in_bfloat16 = None
            return
        found = _arrays.bfloat16_view(memory, "memory", self.shape)
        self._call("set_bfloat16_copy", found.address, found.size)
        self._copy_in_bfloat16 = found

    def append(self, values: Array) -> None:
        """Adds rows with these values behind the others, while training goes on.

        values: an array of the same dtype, flat or of the shape of the values with another number of rows. Its number of elements
            is a multiple of a row's.

        A row is an element of the first dimension of the shape. Values, state and averages follow their rows in `append`,
        `keep`, `permute` and `reset` (docs/how_to/growing_parameters.md), and `shape` is then the new one; the clock does not
        change. The state of a new row begins anew, except that averages account for the steps before.
        Pending steps of inactive rows are applied first. The library moves the values: all four raise `SequenceError` while a
        `view` exists, or an array of another library over the values. If they raise, nothing changes.
        """
        self._require_no_view("append")
        found = _arrays.checked(values, "values", self._element, None)
        _arrays.require_shape(found, "values", (found.shape[0] if found.shape else 1, *self.shape[1:]))
        self._call("append", found.address, found.size)
        of_row = math.prod(self.shape[1:])
        self._follow_rows(self._row_count() + (found.size // of_row if of_row else 0))

    def keep(self, mask: Any) -> None:
        """Keeps the rows whose element of the mask is true, in their order, and removes the others. See `append`.

        mask: a bool for each row: an array or a list.
        """
        self._require_no_view("keep")
        array = numpy.asarray(mask)
        if array.size and array.dtype != numpy.bool_:
            raise error(Status.UNSUPPORTED_TYPE, f"mask: is of {array.dtype}; expected bool, one for each row")
        if array.ndim != 1:
            raise error(Status.BAD_SIZE, f"mask: has the shape {array.shape}; expected a bool for each row")
        array = numpy.ascontiguousarray(array, numpy.bool_)
        self._call("keep", array.ctypes.data, array.size)
        self._follow_rows(int(numpy.count_nonzero(array)))

    def permute(self, order: Ids) -> None:
        """Puts the rows in another order: row i becomes what was row order[i]. See `append`.

        order: the index of each row once: an integer array, a list or a range.
        """
        self._require_no_view("permute")
        found = self._ids(order, "order")
        _arrays.require_shape(found, "order")
        self._call("permute", found.address, found.dtype.code, found.size)

    def reset(self, rows: Ids) -> None:
        """Lets the state of these rows begin anew. The values stay. See `append`.

        rows: indices of rows: an integer array, a list or a range.
        """
        self._require_no_view("reset")
        found = self._ids(rows, "rows")
        _arrays.require_shape(found, "rows")
        self._call("reset", found.address, found.dtype.code, found.size)

    def _row_count(self) -> int:
        return self.shape[0] if self.shape else 1

    def _require_no_view(self, call: str) -> None:
        if self._views:
            raise error(
                Status.BAD_SEQUENCE, f"{call}: a view of the values exists, and they move; expected no view, or values() instead"
            )

    def _follow_rows(self, rows: int) -> None:
        self.shape = (rows, *self.shape[1:])
        self.size = math.prod(self.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> numpy.ndarray[Any, Any]:
        if copy is False:
            view = self.view()
            if dtype is not None and numpy.dtype(dtype) != view.dtype:
                raise ValueError(f"dtype: {numpy.dtype(dtype)} needs a copy; expected {view.dtype}, or another copy than False")
            return view
        values: numpy.ndarray[Any, Any] = self.values()
        return values if dtype is None else values.astype(dtype, copy=False)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Exports `view` to other libraries as read-only memory, or a copy if `copy` is True.

        Read-only memory needs DLPack 1.0, and numpy 2.1 or later; otherwise it raises `BufferError`.
        """
        view = self._view(self._element.numpy or numpy.dtype(numpy.uint16))
        if copy:
            view = view.copy()
        return _arrays.capsule(view, self._element, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _arrays.HOST_DEVICE, 0

    def slots(self) -> dict[str, numpy.ndarray[Any, Any]]:
        """Returns copies of the optimizer's state by slot name, such as {"m": ..., "v": ...}.

        The master copy of a 16-bit parameter is "master". Pending steps of inactive rows are not applied first.
        """
        number = ctypes.c_uint64()
        self._call("slot_count", ctypes.byref(number))
        result = {}
        for index in range(number.value):
            slot, address = CSlot(ctypes.sizeof(CSlot)), ctypes.c_void_p()
            self._call("slot", index, ctypes.byref(slot), ctypes.byref(address))
            shape = self.shape if slot.count == self.size else (slot.count,)
            result[slot.name.decode()] = self._copied(address.value or 0, None, _arrays.dtype_of_code(slot.dtype), shape)
        return result

    def average(self) -> numpy.ndarray[Any, Any]:
        """Returns a copy of the average that the key "average" sets, or that a schedule-free rule evaluates.

        Its dtype is float64 for float64 values, else float32.
        """
        out = numpy.empty(self.shape, numpy.float64 if self.dtype == "float64" else numpy.float32)
        self._call("average", _arrays.address_of(out), out.size)
        return out

    def _saved(self) -> dict[str, Any]:
        return {"config": self._config_text(), "shape": self.shape, "dtype": self.dtype, "state": self.save_state()}

    def _restore(self, saved: dict[str, Any]) -> None:
        kind = Table if isinstance(self, Table) else Parameter  # not the subclass, whose constructor can have other arguments
        kind.__init__(self, saved["config"], shape=saved["shape"], dtype=saved["dtype"])  # type: ignore[arg-type]
        kind.load_state(self, saved["state"])  # type: ignore[arg-type]


class Parameter(_Values):
    """A tensor whose values, optimizer state and clock the library owns.

        w = gradstep.Parameter({"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.001}}, weights)
        w.update(gradient)
        w.values()

    config: the optimizer, a dict or a str of JSON (docs/how_to/configuration.md). `gradstep.adam` and the other rules make it.
    initial: the initial values, which are copied: a numpy array, or another tensor that supports DLPack. None: zeros.
    shape: the shape, if initial is None.
    dtype: the dtype, if initial is None; "float32" by default.

    The memory is released with the last reference, at the end of a `with` block, or by `release`. You can pickle and copy
    parameters. They are not thread-safe; different parameters can be used from different threads.
    """

    _members = _Values._members | {"_gradient", "_gradient_at", "_gradient_dtype", "_is_ascended"}

    def __init__(
        self,
        config: Config,
        initial: Array | None = None,
        *,
        shape: int | Sequence[int] | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(config, initial, shape, dtype)
        # A weak reference to the array of the last step, which was checked. A caller can still change the array's dtype, and with
        # it the size, so every step compares the dtype. Assigning strides is deprecated in numpy, and comparing them costs a tenth
        # of the call, so no step does.
        self._gradient: Any = _nothing
        self._gradient_at, self._gradient_dtype = 0, self._element.numpy
        self._is_ascended = False

    @classmethod
    def _lent(cls, handle: LentHandle, size: int, element: _arrays.Dtype) -> Parameter:
        """The parameter of a handle that belongs to a server."""
        found = cls.__new__(cls)
        found._take(handle)
        found._element, found.dtype, found.shape, found.size = element, element.name, (size,), size
        found._average_is_applied, found._views, found._copy_in_bfloat16 = False, weakref.WeakSet(), None
        found._gradient, found._gradient_at, found._gradient_dtype = _nothing, 0, element.numpy
        found._is_ascended = False
        return found

    @staticmethod
    def _rows_and_width(shape: tuple[int, ...]) -> tuple[int, int]:
        return 1, math.prod(shape)

    def update(self, gradient: Array, **options: Unpack[StepOptions]) -> None:
        """Updates all values with a gradient: one step.

        gradient: an array of the values' shape, or a flat one with as many elements; of the same dtype, contiguous and on the CPU.
            It is not copied.

        The options are the members of `StepOptions`. Raises `DtypeError` or `InvalidError` if the gradient does not match, and
        `NotFiniteError` if it contains NaN or infinity and the configuration has `"on_nonfinite": "raise"`.
        """
        if (
            options
            or gradient is None
            or gradient is not self._gradient()
            or gradient.dtype is not self._gradient_dtype
        ):
            self._update_checked(gradient, options)
            return
        status = _update(self._handle, self._gradient_at, self.size, None, self._failure_at)
        if status:
            self._fail(status)

    def _follow_rows(self, rows: int) -> None:
        super()._follow_rows(rows)
        self._gradient = _nothing  # it was checked for the size before

    def _update_checked(self, gradient: Array, options: StepOptions) -> None:
        found = _arrays.checked(gradient, "gradient", self._element, self.shape, zeroes(options))
        if type(gradient) is numpy.ndarray:  # numpy does not move the memory of a referenced array
            self._gradient, self._gradient_at = weakref.ref(gradient), found.address
        status = _update(self._handle, found.address, self.size, options_address(options), self._failure_at)
        if status:
            self._fail(status)

    def ascend(
        self, gradient: Array, rho: float = 0.05, *, adaptive: bool = False, eta: float = 0.01, epsilon: float = 1e-12
    ) -> float | None:
        """The first half of a step of sharpness-aware minimization (SAM): moves the values along the gradient.

            w.ascend(gradient_at(w.values()), rho=0.05)
            w.descend(gradient_at(w.values()))

        w <- w + rho / (norm + epsilon) * g, with the norm of the gradient. `Model.ascend` takes the norm of several gradients
        together. Returns the norm, or None if the gradient contains NaN or infinity and the configuration has
        `"on_nonfinite": "skip"`: then nothing changes, and the step is over.

        gradient: as in `update`.
        rho: the length of the move, >= 0.
        adaptive: whether to move by ASAM: a^2 g in place of g, and the norm of a g, where a is abs(w) + eta.
        eta: of ASAM, >= 0.
        epsilon: >= 0; keeps a gradient of zeros from a division by 0.

        Until `descend` or `restore`, steps, loads and saves raise `SequenceError`. Raises `InvalidError` for a norm that is not
        finite, "catch_up": "exact" or "replay", and a `set_bfloat16_copy`; nothing has changed then. The guide is
        docs/how_to/sharpness_aware.md.
        """
        found = _arrays.checked(gradient, "gradient", self._element, self.shape)
        return _ascend([self], [found.address], _sam_options(rho, adaptive, eta, epsilon), self._fail)

    def descend(self, gradient: Array, **options: Unpack[StepOptions]) -> None:
        """The second half: restores the values before `ascend`, bit for bit, and takes the step.

        gradient: the gradient at the values that `ascend` has left, as in `update`.

        The options are the members of `StepOptions`. If the gradient is rejected, nothing changes, and you can call it again.
        """
        found = _arrays.checked(gradient, "gradient", self._element, self.shape, zeroes(options))
        _step_of_all("descend", [self], [found.address], options_address(options), self._fail)
        self._is_ascended = False

    def restore(self) -> None:
        super().restore()
        self._is_ascended = False

    def compress(self, gradient: Array, **options: Unpack[StepOptions]) -> bytes:
        """Adds a gradient to the state and returns the message for all trainers: the first phase of a step of "dgc_momentum".

        `apply` is the second phase, which updates the values. With several trainers, call both in every step: `update` raises
        `SequenceError`, or in a dense step uses this trainer's gradient only, so that the trainers diverge. The guide is
        docs/how_to/compressed_gradients.md.
        """
        found = _arrays.checked(gradient, "gradient", self._element, self.shape, zeroes(options))
        bound, written = ctypes.c_uint64(), ctypes.c_uint64()
        self._call("message_bound", ctypes.byref(bound))
        buffer = bytearray(bound.value)
        at = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
        self._call(
            "compress", found.address, self.size, options_address(options), at, len(buffer), ctypes.byref(written)
        )
        return bytes(memoryview(buffer)[: written.value])

    def apply(self, messages: Iterable[bytes | bytearray | memoryview]) -> None:
        """Updates the values with the mean of all trainers' messages: the second phase of a step of "dgc_momentum".

        messages: the results of `compress` of all trainers, in the order of their ranks, including this trainer's own.

        Raises `InvalidError` if these are not the messages of this step. Then nothing changes, and you can call `apply` again.
        """
        memory = [numpy.frombuffer(x, numpy.uint8) for x in messages]
        number = len(memory)
        self._call(
            "apply_messages",
            (ctypes.c_void_p * number)(*[x.ctypes.data for x in memory]),
            (ctypes.c_uint64 * number)(*[x.size for x in memory]),
            number,
        )


def _nothing() -> None:
    return None


def _step_of_all(
    call: str, owners: Sequence[Parameter], addresses: Sequence[int], options: Any, fail: Callable[[int, Any], None], *results: Any
) -> None:
    """Calls gradstep_parameters_CALL for parameters with a gradient each."""
    number, failure = len(owners), new_error()
    status = getattr(library, f"gradstep_parameters_{call}")(
        (ctypes.c_void_p * number)(*[x._handle for x in owners]),
        (ctypes.c_void_p * number)(*addresses),
        (ctypes.c_uint64 * number)(*[x.size for x in owners]),
        number,
        options,
        *results,
        ctypes.byref(failure),
    )
    if status:
        fail(status, failure)


def _sam_options(rho: float, adaptive: bool, eta: float, epsilon: float) -> CSamOptions:
    numbers = [real(number, name) for number, name in ((rho, "rho"), (eta, "eta"), (epsilon, "epsilon"))]
    return CSamOptions(ctypes.sizeof(CSamOptions), bool(adaptive), *numbers)


def _ascend(
    owners: Sequence[Parameter], addresses: Sequence[int], options: CSamOptions, fail: Callable[[int, Any], None]
) -> float | None:
    """The norm of all gradients, or None if the step is skipped."""
    norm = ctypes.c_double()
    _step_of_all("ascend", owners, addresses, ctypes.byref(options), fail, ctypes.byref(norm))
    if math.isnan(norm.value):
        return None
    for owner in owners:
        owner._is_ascended = True
    return norm.value


def _no_row(row: int, first: int, behind: int) -> Exception:
    allowed = f"[{first}, {behind})" if behind else "no row, since the table has none"
    return OutOfRangeError(f"row: {row} is out of range; expected {allowed}", Status.BAD_VALUE)


_KEPT = 1  # GRADSTEP_KEPT
# Methods of a table whose functions have another name.
_METHODS = {"values": "view", "describe": "skipped", "save_file": "save", "load_file": "load"}


def _key_of_table(config: bytes) -> str | None:
    """The key of a configuration that contains the size of a table: "table", "keyed_table" or None."""
    if b'table"' not in config:
        return None
    try:
        document = json.loads(config)
    except (ValueError, RecursionError):
        return "table"  # the library says what is wrong
    return next((key for key in ("table", "keyed_table") if isinstance(document, dict) and key in document), None)


def _row_number(rows: Any, what: str, least: int = 0) -> int:
    """Checks a number of rows for the library, which checks that it is not less than `least`."""
    number = int64(rows, what)
    if number < 0:
        raise error(Status.BAD_VALUE, f"{what}: {number} is out of range; expected >= {least}")
    return number


def _ids_of_64_bits(ids: Ids, what: str, behind: int = _arrays.ROWS) -> _arrays.View:
    return _arrays.ids_view(_arrays.ids_array(ids, what, behind).astype(numpy.int64), what)


_BAG_MODES = ("sum", "mean")  # GRADSTEP_BAG_SUM, GRADSTEP_BAG_MEAN


class _Bags(NamedTuple):
    """The arguments of a call with embedding bags."""

    ids: tuple[Any, ...]
    number: int  # of bags
    options: Any
    kept: Any  # the memory


class _Rows(_State):
    """The base class of tables: steps of some rows, by numbers or by keys. The C functions are the same for both."""

    _kind, _key = "table", "table"
    _members = _State._members | {"width", "concurrent"}

    concurrent = False  #: whether several threads can update and read the table at once

    def __init__(self, text: bytes) -> None:
        out, failure = ctypes.c_void_p(), new_error()
        check(library.gradstep_table_create(text, len(text), ctypes.byref(out), ctypes.byref(failure)), failure)
        Owner.__init__(self, out.value or 0)
        self._begin()

    def _begin(self) -> None:
        """Takes over what the library knows of the table."""
        facts = self._facts()
        found, kind = (("table", "Table"), ("keyed_table", "KeyedTable"))[facts.keyed]
        if found != self._key:
            raise error(Status.BAD_CONFIG, f'config: contains the key "{found}"; expected "{self._key}", or gradstep.{kind}(config)')
        self._element = _arrays.dtype_of_code(facts.dtype)
        self.dtype = self._element.name  #: the dtype of values and gradients: "float32", "float64", "float16", "bfloat16", ...
        self.width = int(facts.width)  #: the number of elements of a row
        self.concurrent = bool(facts.concurrent)
        self._average_is_applied = False

    def _call(self, function: str, *arguments: Any) -> None:
        called = getattr(library, f"gradstep_{self._kind}_{function}", None)
        if called is None:
            raise self._no_call(function)
        # `owned` keeps the table alive during the call, even if another thread calls `release`.
        owned, failure = self._owned, new_error() if self.concurrent else self._failure
        status = called(owned and owned.address, *arguments, ctypes.byref(failure))
        if status:
            self._fail(status, failure)

    def _no_call(self, function: str) -> Exception:
        name = _METHODS.get(function, function)
        if self._kind == "table":
            allowed = f'the configuration contains the key "{self._key}"; expected a table that was made with shape or initial'
        else:
            allowed = 'the configuration does not contain the key "table"; expected a table that was made with it'
        return error(Status.BAD_VALUE, f"{name}: {allowed}")

    def _facts(self) -> CTableInfo:
        facts = CTableInfo(ctypes.sizeof(CTableInfo))
        self._call("describe", ctypes.byref(facts))
        return facts

    def update(self, ids: Ids, gradient_rows: Array, **options: Unpack[StepOptions]) -> None:
        """Updates the rows in `ids`: one step.

        ids: the indices of the rows, from 0, or the keys of a `KeyedTable`: an integer array, a list or a range.
        gradient_rows: a row of `width` elements for each id, of the values' dtype. The shape is (number of ids, width) or
            (*ids.shape, width), or the array is flat. The gradients of a duplicate id are added, unless the configuration of the
            table has another choice for "duplicates".

        The options are the members of `StepOptions`. Raises `InvalidError` if an id is out of range; then nothing changes.
        """
        rows = self._ids(ids)
        shapes = (rows.size, self.width), (*rows.shape, self.width)
        found = _arrays.checked(gradient_rows, "gradient_rows", self._element, shapes[0], zeroes(options), shapes[1])
        function = "update" if self._kind == "table" else "update_rows"
        self._call(function, rows.address, rows.dtype.code, rows.size, found.address, found.size, options_address(options))

    def update_bags(
        self,
        ids: Ids,
        offsets: Ids,
        bag_rows: Array,
        *,
        weights: Array | None = None,
        mode: Literal["sum", "mean"] = "sum",
        **options: Unpack[StepOptions],
    ) -> None:
        """Updates the rows of embedding bags: one step, like `update` with the gradient of a bag for each of its ids.

        ids: the indices or keys of the rows of all bags, bag after bag, in one dimension.
        offsets: where each bag begins in `ids`, ascending from 0. The last bag ends with `ids`. Bags can be empty.
        bag_rows: a gradient of `width` elements for each bag, of the values' dtype; of the shape (number of bags, width), or flat.
        weights: a number for each id, which multiplies its gradient; of float64 for float64 values, else of float32.
        mode: "mean" divides the gradient of a bag by the number of its ids, without padding.

        The options are the members of `StepOptions`. Raises `InvalidError` if an id or an offset is out of range; then nothing
        changes.
        """
        bags = self._bags(ids, offsets, weights, mode)
        found = _arrays.checked(bag_rows, "bag_rows", self._element, (bags.number, self.width), zeroes(options))
        self._call("update_bags", *bags.ids, found.address, found.size, bags.options, options_address(options))

    @overload
    def bags(
        self, ids: Ids, offsets: Ids, *, weights: Array | None = None, mode: Literal["sum", "mean"] = "sum", out: None = None
    ) -> numpy.ndarray[Any, Any]: ...
    @overload
    def bags(
        self, ids: Ids, offsets: Ids, *, weights: Array | None = None, mode: Literal["sum", "mean"] = "sum", out: _Out
    ) -> _Out: ...
    def bags(
        self,
        ids: Ids,
        offsets: Ids,
        *,
        weights: Array | None = None,
        mode: Literal["sum", "mean"] = "sum",
        out: Any = None,
    ) -> Any:
        """Pools the rows of embedding bags: writes the sum or mean of the rows of each bag, each times the weight of its id.

        It writes to `out`, or to a new numpy array, and returns it. `ids`, `offsets`, `weights` and `mode` are as in
        `update_bags`. Padding ("ignore_id") counts as absent, and a bag without ids gives 0. Sums are computed in float32, or in
        float64 for float64 values.

        out: a writable array of the values' dtype and the shape (number of bags, width).
        """
        bags = self._bags(ids, offsets, weights, mode)
        shape = (bags.number, self.width)
        if out is None:
            out = _arrays.empty(shape, self._element)
        found = _arrays.checked(out, "out", self._element, shape, True)
        self._call("bags", *bags.ids, bags.options, found.address, found.size)
        return out

    def _bags(self, ids: Ids, offsets: Ids, weights: Array | None, mode: str) -> _Bags:
        rows, begins = self._ids(ids), self._ids(offsets, "offsets")
        if rows.dtype is not begins.dtype:
            rows, begins = _ids_of_64_bits(ids, "ids"), _ids_of_64_bits(offsets, "offsets")
        for what, each in (("ids", rows), ("offsets", begins)):
            _arrays.require_shape(each, what)
        if mode not in _BAG_MODES:
            raise error(Status.BAD_VALUE, f"mode: {mode!r} is out of range; expected one of {', '.join(map(repr, _BAG_MODES))}")
        options, given = None, None
        if weights is not None or mode != "sum":
            if weights is not None:
                dtype = _arrays.DTYPES["float64" if self.dtype == "float64" else "float32"]
                given = _arrays.checked(weights, "weights", dtype, (rows.size,))
            structure = CBagOptions(ctypes.sizeof(CBagOptions), _BAG_MODES.index(mode), given and given.address)
            options = ctypes.byref(structure)
        called = rows.address, rows.dtype.code, rows.size, begins.address, begins.size
        return _Bags(called, begins.size, options, (rows, begins, given))

    @overload
    def rows(self, ids: Ids, out: None = None) -> numpy.ndarray[Any, Any]: ...
    @overload
    def rows(self, ids: Ids, out: _Out) -> _Out: ...
    def rows(self, ids: Ids, out: Any = None) -> Any:
        """Copies the rows in `ids`, in this order, to `out`, or to a new numpy array, and returns it.

        out: a writable array of the values' dtype, with a row for each id. Its shape is as in `update`.
        """
        return self._read("rows", ids, out, self._element)

    def int8_rows(self, ids: Ids) -> numpy.ndarray[Any, Any]:
        """Returns the rows in `ids`, in this order, in 8 bits, for servers that only read: an array of uint8 with width + 8 bytes a row.

        A row is a code for each value, then scale and offset as little-endian float32. A value is code * scale + offset. These
        are the bytes of FBGEMM and of torch.ops.quantized.embedding_bag_byte_prepack. Raises `InvalidError` for a table of integers.
        """
        rows = self._ids(ids)
        out = numpy.empty((*rows.shape, self.width + 8), numpy.uint8)
        self._call("int8_rows", rows.address, rows.dtype.code, rows.size, out.ctypes.data, out.size)
        return out

    @overload
    def averages(self, ids: Ids, out: None = None) -> numpy.ndarray[Any, Any]: ...
    @overload
    def averages(self, ids: Ids, out: _Out) -> _Out: ...
    def averages(self, ids: Ids, out: Any = None) -> Any:
        """Copies the averages of the rows in `ids`, in this order, to `out`, or to a new numpy array, and returns it.

        out: a writable array as in `rows`, of float64 for float64 values, else of float32.

        The key "average" of the configuration sets the average.
        """
        return self._read("averages", ids, out, _arrays.dtype_of("float64" if self.dtype == "float64" else "float32"))

    def _read(self, function: str, ids: Ids, out: Any, element: _arrays.Dtype) -> Any:
        rows = self._ids(ids)
        shape = (*rows.shape, self.width)
        if out is None:
            out = _arrays.empty(shape, element)
        found = _arrays.checked(out, "out", element, shape, True, (rows.size, self.width))
        self._call(function, rows.address, rows.dtype.code, rows.size, found.address, found.size)
        return out

    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves values, state and clock to a safetensors file, so that a run can resume bit for bit. Its name there is "values".

        The file replaces the previous one when it is complete and on the disk. Raises `FileError` if the system cannot write it,
        and `SequenceError` while averages replace the values.
        """
        self._call_with_file("save_file", path)

    def load(
        self,
        path: str | os.PathLike[str],
        *,
        missing: Literal["error", "keep"] = "error",
        unexpected: Literal["error", "ignore"] = "error",
        rename: Mapping[str, str] | Callable[[str], str] | None = None,
    ) -> bool:
        """Loads a file of `save`, or of a table in C++. Returns False if `missing` is "keep" and the file has no such table.

            table.load("model.safetensors", rename={"embeddings": "values"}, unexpected="ignore")

        The options are as in `Model.load`. The name of the table is "values"; `rename` selects another table of a file.

        Width, dtype and rule must match. A table with fewer rows than the file grows; a `KeyedTable` gets the rows of the file. If
        the call raises, nothing changes.
        """
        outcome = ctypes.c_int32()
        options = _load_options(path, missing, unexpected, "error", rename)
        self._call_with_file("load_file", path, ctypes.byref(options), ctypes.byref(outcome))
        self._follow_rows(0)
        return outcome.value != _KEPT

    def _call_with_file(self, function: str, path: str | os.PathLike[str], *arguments: Any) -> None:
        try:
            self._call(function, path_bytes(path), *arguments)
        except FileError as refused:
            refused.filename = os.fsdecode(path)
            raise

    def flush(self) -> None:
        """Applies the pending steps of all rows.

        With "catch_up": "touch_only", the default, there are none.
        """
        self._call("flush")


class Table(_Rows, _Values):
    """A table of rows that you update by index, such as an embedding table.

        table = gradstep.Table(config, shape=(1_000_000, 64))
        table.update(ids, gradient_rows)
        table[42]                           # a copy of a row; table[2:5], table[[3, 1]]

    The arguments are as in `Parameter`. The shape has two dimensions: rows x width.

    A step changes only the rows of its batch. If the configuration has "catch_up": "exact" or "replay", the other rows get
    pending steps (lazy updates), which are applied when you update or read the row, or call `flush`.

    Instead of a shape, the configuration can contain the key "table", with the size and the options of the table. It is then the
    only argument. docs/how_to/python_tables.md#options-of-a-table lists the options.

        table = gradstep.Table({**gradstep.adagrad(lr=0.1), "type": "float32",
                                "table": {"rows": 1000, "width": 16, "duplicates": "mean", "max_norm": 1}})
        table.update_bags(ids, offsets, bag_rows)

    `update_bags`, `bags`, `int8_rows`, `averages`, `set_rows`, `grow`, `save`, `load` and `skipped` need the key "table", and raise
    `InvalidError` without it. A table with this key cannot be in a `Model`, and its `view`, `slots`, `set_numbers` and
    `set_bfloat16_copy` raise `InvalidError`. While averages replace its values, you cannot save or copy it.

    With "concurrent": true, any number of threads can call `update`, `update_bags`, `bags`, `row` and `rows` of a table at once.
    The other methods wait until no call runs. Other tables are not thread-safe.
    """

    _members = _Values._members | _Rows._members | {"_kind", "_lock"}

    def __init__(
        self, config: Config, initial: Array | None = None, *, shape: Sequence[int] | None = None, dtype: Any = None
    ) -> None:
        self.concurrent = False
        self._lock = threading.Lock()  # of `shape` and `size`, after a change of the rows
        self._kind = "parameter"
        text = config_bytes(config)
        if (key := _key_of_table(text)) is not None:
            for name, given in (("initial", initial), ("shape", shape), ("dtype", dtype)):
                if given is not None:
                    raise error(
                        Status.BAD_VALUE, f'{name}: is given; expected None, since the configuration contains the key "{key}"'
                    )
            self._kind = "table"
            _Rows.__init__(self, text)
        else:
            _Values.__init__(self, config, initial, shape, dtype)
            self.width = self.shape[1]

    def _begin(self) -> None:
        super()._begin()
        self._views, self._copy_in_bfloat16 = weakref.WeakSet(), None
        self.shape = (0, self.width)
        self._follow_rows(0)

    def _ids(self, ids: Ids, what: str = "ids") -> _arrays.View:
        found = super()._ids(ids, what)
        if self._kind == "table" and found.dtype.name == "uint32":
            return _ids_of_64_bits(ids, what)
        return found

    def _follow_rows(self, rows: int) -> None:
        if self._kind == "parameter":
            super()._follow_rows(rows)
            return
        with self._lock:  # another thread can change the rows too: the last one to come here has seen all changes
            super()._follow_rows(self._facts().num_rows)

    def _read_values(self, out: Any) -> Any:
        if self._kind == "parameter":
            return super()._read_values(out)
        return self.rows(range(len(self)), out)

    def set_values(self, values: Array) -> None:
        if self._kind == "parameter":
            super().set_values(values)
        else:
            self.set_rows(range(len(self)), values)

    def average(self) -> numpy.ndarray[Any, Any]:
        if self._kind == "parameter":
            return super().average()
        return self.averages(range(len(self)))

    def slots(self) -> dict[str, numpy.ndarray[Any, Any]]:
        if self._kind == "table":
            raise self._no_call("slots")
        return super().slots()

    def reset(self, rows: Ids) -> None:
        """Lets the state of these rows begin anew. With the key "table" in the configuration, the rows also get their initial
        values; otherwise the values stay. See `append`.

        rows: indices of rows: an integer array, a list or a range.
        """
        super().reset(rows)

    def load_state(self, state: bytes | bytearray | memoryview) -> None:
        """Restores values, state and clock from the bytes of `save_state`.

        state: the bytes of a table with the same shape, dtype and rule. With the key "table" in the configuration, the table can have
            fewer rows: it grows.

        Raises `InvalidError` if the bytes do not match this table or are damaged. Then nothing changes.
        """
        super().load_state(state)
        if self._kind == "table":
            self._follow_rows(0)

    def _saved(self) -> dict[str, Any]:
        saved = super()._saved()
        if self._kind == "parameter":
            return saved
        config = json.loads(saved["config"])
        config["table"]["rows"] = 0  # the state has the rows, of which other threads can have changed the number since
        return {**saved, "config": json.dumps(config), "shape": None, "dtype": None}

    @staticmethod
    def _rows_and_width(shape: tuple[int, ...]) -> tuple[int, int]:
        if len(shape) != 2:
            raise error(Status.BAD_SIZE, f"shape: {shape} has {len(shape)} dimensions; expected (rows, width)")
        return shape[0], shape[1]

    def row(self, row: int) -> numpy.ndarray[Any, Any]:
        """Returns a copy of one row. Raises `OutOfRangeError` if the row does not exist."""
        number = int64(row, "row")
        if not 0 <= number < self.shape[0]:
            raise _no_row(number, 0, self.shape[0])
        if self._kind == "table":
            only: numpy.ndarray[Any, Any] = self.rows([number])[0]
            return only
        out = _arrays.empty((self.width,), self._element)
        self._call("row", number, _arrays.address_of(out), self.width)
        return out

    def set_rows(self, ids: Ids, values: Array) -> None:
        """Sets the rows in `ids`, for example to pretrained values.

        values: an array of the values' dtype, with a row for each id. Its shape is as in `update`.

        Training goes on from the new values: the state follows as in `set_values`.
        """
        rows = self._ids(ids)
        shapes = (rows.size, self.width), (*rows.shape, self.width)
        found = _arrays.checked(values, "values", self._element, shapes[0], False, shapes[1])
        self._call("set_rows", rows.address, rows.dtype.code, rows.size, found.address, found.size)

    def grow(self, num_rows: int) -> None:
        """Adds rows with initial values, up to `num_rows` in total. See `append`.

        Raises `InvalidError` if the table has more rows already.
        """
        number = _row_number(num_rows, "num_rows", len(self))
        self._call("grow", number)
        self._follow_rows(number)

    @property
    def skipped(self) -> int:
        """The number of gradient rows that "on_nonfinite": "skip" has left out so far."""
        return int(self._facts().skipped)

    def __len__(self) -> int:
        """The number of rows."""
        return self.shape[0]

    def __getitem__(self, rows: int | slice | Ids) -> numpy.ndarray[Any, Any]:
        """Copies rows by numpy's indexing: one row, a slice, or a list or array of indices. Negative indices count from the end."""
        number = self.shape[0]
        if isinstance(rows, slice):
            return self.rows(range(*rows.indices(number)))
        if isinstance(rows, tuple):
            raise error(
                Status.UNSUPPORTED_TYPE, f"row: {rows} is a tuple; expected an integer, a slice, or a list or array of integers"
            )
        if hasattr(rows, "__index__") and not hasattr(rows, "__iter__"):
            row = integer(rows)
            if row is None:
                raise error(Status.UNSUPPORTED_TYPE, f"row: {rows!r} is a {type(rows).__name__}; expected an integer")
            if not -number <= row < number:
                raise _no_row(row, -number, number)
            return self.row(row % number)
        ids = _arrays.ids_array(cast("Ids", rows), "rows")
        if ids.dtype.kind == "i" and ids.size and ids.min() < 0:
            if ids.min() < -number:
                raise _no_row(int(ids.min()), -number, number)
            ids = ids.astype(numpy.int64)
            ids[ids < 0] += number
        return self.rows(ids)

    def __iter__(self) -> Iterator[numpy.ndarray[Any, Any]]:
        return (self.row(row) for row in range(self.shape[0]))

    __contains__ = None  # rows are arrays, which `in` cannot compare


class KeyCounts(NamedTuple):
    """Counts of events of a `KeyedTable` since it was made, including the time before a checkpoint."""

    admitted: int  #: new rows
    turned_away: int  #: gradient rows that were dropped because their key was not admitted yet
    no_room: int  #: gradient rows that were dropped because the table had "max_rows" rows
    skipped: int  #: gradient rows that "on_nonfinite": "skip" left out
    evicted: int  #: rows that were evicted


class KeyedRow(NamedTuple):
    """A row of a `KeyedTable` for your functions, with all steps applied. The arrays are copies."""

    key: int  #: the key, from 0 to 2^64 - 1
    age: int  #: steps since the last step that contained the row; 0 with "last_touches": false
    touch_count: int  #: steps that contained the row; 0 without "touch_counts": true
    values: numpy.ndarray[Any, Any]  #: the values
    state: dict[str, numpy.ndarray[Any, Any]]  #: the optimizer's state by slot name, such as {"m": ..., "v": ...}


def _checked_key(key: Any) -> int:
    _arrays.require_ids((key,), "key", _arrays.KEYS)
    return operator.index(key) % _arrays.KEYS


class KeyedTable(_Rows):
    """A table whose rows have 64-bit keys, such as hashed features. A key gets a row when updates contain it often enough.

        table = gradstep.KeyedTable({**gradstep.adagrad(lr=0.1), "keyed_table": {"width": 16, "admit_after": 3}})
        table.update(keys, gradient_rows)
        table.rows(keys)                        # a key without a row has initial values
        key in table, len(table), list(table)   # the keys that have rows

    config: the optimizer with the key "keyed_table", a dict or a str of JSON. docs/how_to/python_tables.md#keyed-tables lists the options.

    Keys are integers from 0 to 2^64 - 1. Arrays of int64, and negative numbers, are keys with the same bits.

    With "concurrent": true, any number of threads can call `update`, `update_bags`, `bags`, `row` and `rows` of a table at once.
    The other methods wait until no call runs. Other tables are not thread-safe. You can copy and pickle tables; copies have no
    holds. While averages replace the values, you cannot save or copy a table. `set_numbers` raises `InvalidError`, and `seek` goes to
    no earlier step.
    """

    _key = "keyed_table"

    def __init__(self, config: Config) -> None:
        super().__init__(config_bytes(config))

    def _ids(self, ids: Ids, what: str = "ids") -> _arrays.View:
        found = _arrays.ids_view(ids, what, _arrays.KEYS)
        if found.dtype.itemsize != 8:
            found = _ids_of_64_bits(ids, what, _arrays.KEYS)
        return found._replace(dtype=_arrays.DTYPES["uint64"])

    def _call_with_keys(self, function: str, keys: Ids) -> None:
        found = self._ids(keys, "keys")
        self._call(function, found.address, found.dtype.code, found.size)

    def _extent(self) -> tuple[int, ...]:
        return len(self), self.width

    def _saved(self) -> dict[str, Any]:
        return {"config": self._config_text(), "state": self.save_state()}

    def _restore(self, saved: dict[str, Any]) -> None:
        KeyedTable.__init__(self, saved["config"])  # not the subclass, whose constructor can have other arguments
        KeyedTable.load_state(self, saved["state"])

    def load_state(self, state: bytes | bytearray | memoryview) -> None:
        """Restores rows, counts and clock from the bytes of `save_state`. The table gets the rows of the bytes.

        state: the bytes of a table with the same width, dtype and rule.

        Raises `InvalidError` if the bytes do not match this table or are damaged. Then nothing changes.
        """
        super().load_state(state)

    def row(self, key: int) -> numpy.ndarray[Any, Any]:
        """Returns a copy of the row of a key, or the initial values if it has no row."""
        only: numpy.ndarray[Any, Any] = self.rows([_checked_key(key)])[0]
        return only

    def __contains__(self, key: int) -> bool:
        """Whether the key has a row."""
        contains = ctypes.c_int32()
        self._call("contains", _checked_key(key), ctypes.byref(contains))
        return bool(contains.value)

    def __len__(self) -> int:
        """The number of rows."""
        return int(self._facts().num_rows)

    def __iter__(self) -> Iterator[int]:
        return iter(self.keys().tolist())

    def keys(self) -> numpy.ndarray[Any, Any]:
        """Returns the keys that have rows, as an array of uint64. Their order changes when rows are evicted."""
        written, room = ctypes.c_uint64(), len(self) + 1
        while True:
            out = numpy.empty(room, numpy.uint64)
            self._call("keys", 0, _arrays.address_of(out), room, ctypes.byref(written))
            if written.value < room:  # otherwise other threads have added rows
                return out[: written.value]
            room *= 2

    @property
    def counts(self) -> KeyCounts:
        """What happened to keys so far: admissions, dropped gradients and evictions."""
        counts = CKeyCounts(ctypes.sizeof(CKeyCounts))
        self._call("key_counts", ctypes.byref(counts))
        return KeyCounts(*(getattr(counts, name) for name in KeyCounts._fields))

    def reset(self, keys: Ids) -> None:
        """Gives the rows of these keys their initial values and state."""
        self._call_with_keys("reset", keys)

    def reserve(self, rows: int) -> None:
        """Allocates memory for this many rows in total. Then steps up to there allocate none."""
        self._call("reserve", _row_number(rows, "rows"))

    def hold(self, keys: Ids) -> None:
        """Protects the rows of these keys from eviction, until as many calls of `unhold`."""
        self._call_with_keys("hold", keys)

    def unhold(self, keys: Ids) -> None:
        """Ends one `hold` of each of these keys."""
        self._call_with_keys("unhold", keys)

    def evict_older_than(self, step: int) -> int:
        """Evicts the rows whose last step was before `step`. Returns their number."""
        evicted = ctypes.c_uint64()
        self._call("evict_older_than", int64(step, "step"), ctypes.byref(evicted))
        return evicted.value

    def evict(self, chosen: Callable[[KeyedRow], object]) -> int:
        """Evicts the rows for which chosen(row) is true, except held ones. Returns their number.

            table.evict(lambda row: row.touch_count < 3 and row.age > 1000)

        chosen: a function of a `KeyedRow`. It must not call methods of the table: they raise `SequenceError`.

        If the function raises, nothing is evicted, and `evict` raises its exception.
        """
        return self._judge("evict", ROW_TEST, lambda row: bool(chosen(row)), -1)

    def evict_to(self, rows: int, score: Callable[[KeyedRow], float] | None = None) -> int:
        """Evicts the rows with the lowest score(row) until there are at most `rows`. Returns the number of evicted rows.

        score: a function of a `KeyedRow`, as in `evict`. None: the least recently updated rows are evicted.

        If the function raises or returns NaN, nothing is evicted, and `evict_to` raises its exception or `InvalidError`.
        """
        number = _row_number(rows, "rows")
        if score is None:
            evicted = ctypes.c_uint64()
            self._call("evict_to", number, None, None, ctypes.byref(evicted))
            return evicted.value
        function = score
        return self._judge("evict_to", ROW_SCORE, lambda row: real(function(row), "score"), math.nan, number)

    def _row(self, row: CRow, slots: list[CSlot]) -> KeyedRow:
        state = {
            slot.name.decode(): self._copied(row.state[k], None, _arrays.dtype_of_code(slot.dtype), (slot.count,))
            for k, slot in enumerate(slots)
        }
        return KeyedRow(row.key, row.age, row.touch_count, self._copied(row.values, None, self._element, (row.width,)), state)

    def _judge(self, call: str, kind: Any, judge: Callable[[KeyedRow], float], failed: float, *arguments: Any) -> int:
        """Calls a function of C that evicts rows by judge(row). After an exception of `judge`, the library gets `failed`, with which
        it evicts nothing, and this function raises the exception."""
        slots, failures = self._described_slots(), list[BaseException]()

        def judged(_: object, row: Any) -> float:
            if not failures:
                try:
                    return judge(self._row(row.contents, slots))
                except BaseException as failure:  # ctypes would print it and go on
                    failures.append(failure)
            return failed

        evicted, function = ctypes.c_uint64(), kind(judged)
        try:
            self._call(call, *arguments, function, None, ctypes.byref(evicted))
        except InvalidError:  # because of `failed`, or of the score NaN
            if not failures:
                raise
        if failures:
            raise failures.pop()
        return evicted.value

    def changed_since(self, step: int, *, content: Literal["values", "state", "int8"] = "values") -> bytes:
        """Returns the rows that `step` and later steps have updated or evicted, as bytes for `apply_changes` of a replica.

        content: "values" for a replica that only reads; "state" to send the state, too, for a replica that trains; "int8" for the
            values in 8 bits, as `int8_rows` returns them.

        Raises `InvalidError` if the table no longer knows all evictions since `step`. Then send `changed_since(0)`.
        """
        changes, data, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
        known = ("values", "state", "int8")
        if content not in known:
            raise error(Status.BAD_VALUE, f"content: {content!r} is out of range; expected one of {', '.join(map(repr, known))}")
        self._call("changed_since", int64(step, "step"), known.index(content), ctypes.byref(changes))
        try:
            failure = new_error()
            check(library.gradstep_bytes_view(changes, ctypes.byref(data), ctypes.byref(size), ctypes.byref(failure)), failure)
            return (ctypes.c_char * size.value).from_address(data.value or 0).raw
        finally:
            library.gradstep_bytes_release(changes)

    def apply_changes(self, changes: bytes | bytearray | memoryview) -> None:
        """Applies the bytes of `changed_since` of a table with the same configuration.

        The clock of this table must have reached the step that you passed to `changed_since`. Raises `InvalidError` or
        `SequenceError` if the bytes do not match this table or are damaged. Then nothing changes.
        """
        memory = numpy.frombuffer(changes, numpy.uint8)
        self._call("apply_changes", memory.ctypes.data, memory.size)


def lent_table(handle: LentHandle) -> Table | KeyedTable:
    """The table of a handle that belongs to a server."""
    facts, failure = CTableInfo(ctypes.sizeof(CTableInfo)), new_error()
    check(library.gradstep_table_describe(handle.address, ctypes.byref(facts), ctypes.byref(failure)), failure)
    if facts.keyed:
        keyed = KeyedTable.__new__(KeyedTable)
        keyed._take(handle)
        keyed._begin()
        return keyed
    table = Table.__new__(Table)
    table._lock, table._kind = threading.Lock(), "table"
    table._take(handle)
    table._begin()
    return table


class LoadReport(NamedTuple):
    """The result of `Model.load`: each name of the model, and each name in the file that was not loaded."""

    loaded: tuple[str, ...]  #: parameters and tables that were loaded completely
    kept: tuple[str, ...]  #: parameters and tables that are not in the file, and did not change
    resized: tuple[str, ...]  #: parameters and tables that have another number of rows than the file
    ignored: tuple[str, ...]  #: names in the file, before `rename`, that the model does not have


def _choice(given: object, name: str, allowed: tuple[str, ...]) -> int:
    """Converts a string to the number of a C enumeration."""
    if given not in allowed:
        raise error(
            Status.BAD_VALUE,
            f"{name}: {given!r} is not known{did_you_mean(given, allowed)}; expected {' or '.join(map(repr, allowed))}",
        )
    return allowed.index(str(given))


def _load_options(
    path: str | os.PathLike[str],
    missing: str,
    unexpected: str,
    rows: str,
    rename: Mapping[str, str] | Callable[[str], str] | None,
) -> CLoadOptions:
    """The options of a load, after a check of their values."""
    options = CLoadOptions(
        ctypes.sizeof(CLoadOptions),
        _choice(missing, "missing", ("error", "keep")),
        _choice(unexpected, "unexpected", ("error", "ignore")),
        _choice(rows, "rows", ("error", "resize")),
    )
    if rename is not None:
        renamed = _renamed(path, rename)
        options.renamed_count = len(renamed)
        options.renamed_from = (ctypes.c_char_p * len(renamed))(*[x for x, _ in renamed])
        options.renamed_to = (ctypes.c_char_p * len(renamed))(*[x for _, x in renamed])
    return options


def _renamed(
    path: str | os.PathLike[str], rename: Mapping[str, str] | Callable[[str], str]
) -> list[tuple[bytes, bytes]]:
    """Pairs of a name in the file and its name in the program."""
    if isinstance(rename, Mapping):
        pairs = list(rename.items())
    elif callable(rename):
        names = file_names(path)
        pairs = [(name, new) for name, new in zip(names, map(rename, names)) if new != name]
    else:
        raise error(
            Status.UNSUPPORTED_TYPE, f"rename: {rename!r} is a {type(rename).__name__}; expected a dict or a function"
        )
    for pair in pairs:
        for name in pair:
            check_name(name, "rename")
    return [(old.encode(), new.encode()) for old, new in pairs]


def file_names(path: str | os.PathLike[str]) -> list[str]:
    """Returns the names of the parameters and tables in a file of `Model.save`, in the order of their bytes.

    It reads only the header of the file. Raises `FileError` if the system cannot read it.
    """
    return _texts("file_names", path, path_bytes(path))


def _texts(function: str, path: str | os.PathLike[str], *arguments: Any) -> list[str]:
    """Calls a function whose last arguments are a buffer for names. Each name ends with 0."""
    written, failure, size = ctypes.c_uint64(), new_error(), 4096
    while True:
        buffer = ctypes.create_string_buffer(size)
        status = getattr(library, f"gradstep_{function}")(*arguments, buffer, size, ctypes.byref(written), ctypes.byref(failure))
        if status != Status.BAD_SIZE or written.value <= size:
            break
        size, written.value = written.value, 0
    check(status, failure, os.fsdecode(path))
    return buffer.raw[: written.value].decode().split("\0")[:-1]


class Model(Mapping[str, "Parameter | Table"]):
    """Parameters and tables by name, each with its own configuration.

        net = gradstep.Model({"weight": gradstep.Parameter(...), "bias": gradstep.Parameter(...)})
        net.update({"weight": g_weight, "bias": g_bias})        # one call of the library
        net.save("net.safetensors")
        net["weight"].values()

    parameters: a dict of parameters and tables by name.

    A parameter that has not taken a step draws its random numbers (noise, stochastic rounding) by the first name that a model
    gives it, so that parameters with the same configuration draw different numbers.

    A model is a read-only mapping. You can pickle and copy models: a copy has copies of all parameters.
    """

    _members = frozenset({"_parameters", "_below"})

    def __init__(self, parameters: Mapping[str, Parameter | Table] | None = None) -> None:
        self._parameters: dict[str, Parameter | Table] = {}
        self._below: dict[str, list[str]] = {}  # names by their part before the last "/"
        if not isinstance(parameters, (Mapping, type(None))):
            raise TypeError(
                f"Model: parameters is a {type(parameters).__name__}; expected a dict of parameters and tables by name"
            )
        for name, parameter in (parameters or {}).items():
            self.add(name, parameter)

    def __copy__(self) -> Self:
        """Returns a model with copies of all parameters, which share no state with the original."""
        result = type(self).__new__(type(self))
        for name, value in attributes_of(self).items():
            setattr(result, name, value)
        copies: dict[int, Parameter | Table] = {}  # a parameter can have several names
        for parameter in self._parameters.values():
            if id(parameter) not in copies:
                copies[id(parameter)] = copy.copy(parameter)
        result._below = {above: list(names) for above, names in self._below.items()}
        result._parameters = {name: copies[id(parameter)] for name, parameter in self._parameters.items()}
        return result

    def __repr__(self) -> str:
        shown = [f"{name!r}: {parameter!r}" for name, parameter in itertools.islice(self._parameters.items(), 8)]
        if len(self) > len(shown):
            shown.append(f"and {len(self) - len(shown)} more")
        return f"<gradstep.{type(self).__name__} {{{', '.join(shown)}}}>"

    def add(self, name: str, parameter: _Member) -> _Member:
        """Adds a parameter or a table, and returns it.

        name: any text without NUL. Raises `InvalidError` if the model has this name, or if a file cannot store it: an empty name,
            "__metadata__", or "w/m" beside a parameter "w" with a slot m.
        """
        check_name(name)
        if not isinstance(parameter, (Parameter, Table)):
            raise error(Status.BAD_VALUE, f"{name}: is a {type(parameter).__name__}; expected a Parameter or a Table")
        if isinstance(parameter, Table) and parameter._kind == "table":
            raise parameter._no_call(name)
        if name in self._parameters:
            raise error(Status.BAD_VALUE, f"{name}: is there already; expected another name")
        self._require_storable(name, parameter)
        failure = new_error()
        handles, names = (ctypes.c_void_p * 1)(parameter._handle), (ctypes.c_char_p * 1)(name.encode())
        check(library.gradstep_parameters_set_names(handles, names, 1, ctypes.byref(failure)), failure)
        self._parameters[name] = parameter
        self._below.setdefault(name.rpartition("/")[0], []).append(name)
        return parameter

    def _require_storable(self, name: str, parameter: Parameter | Table) -> None:
        """Raises if a file cannot store the name, or if it conflicts with a slot of another name: "w/m" is the slot m of "w"."""
        above = name.rpartition("/")[0]
        others = [above] * (above in self._parameters) + self._below.get(name, [])
        all_of_them = {name: parameter, **{other: self._parameters[other] for other in others}}
        for each, other in all_of_them.items():
            if other._handle is None:
                raise error(Status.BAD_HANDLE, f"{each}: this {type(other).__name__} has been released; expected one that is open")
        number, failure = len(all_of_them), new_error()
        check(
            library.gradstep_parameters_check_names(
                (ctypes.c_void_p * number)(*[x._handle for x in all_of_them.values()]),
                (ctypes.c_char_p * number)(*[x.encode() for x in all_of_them]),
                number,
                ctypes.byref(failure),
            ),
            failure,
        )

    def __getitem__(self, name: str) -> Parameter | Table:
        return self._parameters[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    def update(self, gradients: Mapping[str, Array], **options: Unpack[StepOptions]) -> None:
        """Updates every parameter in `gradients` in one call of the library: one step of each.

        gradients: a gradient for each name, as in `Parameter.update`. Other parameters do not change.

        The options are the members of `StepOptions`. The call uses the threads of the parameter with the most threads. All
        gradients are checked before anything is written. Update tables by their own `update`.
        """
        owners, addresses, kept = self._with_gradients(gradients, zeroes(options))
        _step_of_all("update", owners, addresses, options_address(options), self._fail)
        del kept

    def _with_gradients(
        self, gradients: Mapping[str, Array], writable: bool
    ) -> tuple[list[Parameter], list[int], list[_arrays.View]]:
        """The parameters of these names, the addresses of their gradients, and what keeps this memory."""
        owners, addresses, kept = [], [], []
        for name, gradient in gradients.items():
            parameter = self._parameters.get(name)
            if type(parameter) is not Parameter:
                raise self._no_parameter(name)
            if (
                type(gradient) is numpy.ndarray
                and gradient is parameter._gradient()
                and gradient.dtype is parameter._gradient_dtype
                and not writable
            ):
                addresses.append(parameter._gradient_at)
            else:
                found = _arrays.checked(gradient, f"gradient of {name}", parameter._element, parameter.shape, writable)
                if type(gradient) is numpy.ndarray:
                    parameter._gradient, parameter._gradient_at = weakref.ref(gradient), found.address
                addresses.append(found.address)
                kept.append(found)
            owners.append(parameter)
        return owners, addresses, kept

    def _fail(self, status: int, failure: Any) -> None:
        self._refuse_released()
        check(status, failure)

    def ascend(
        self,
        gradients: Mapping[str, Array],
        rho: float = 0.05,
        *,
        adaptive: bool = False,
        eta: float = 0.01,
        epsilon: float = 1e-12,
    ) -> float | None:
        """The first half of a step of sharpness-aware minimization of the parameters in `gradients`, as `Parameter.ascend`.

            net.ascend(gradients_of(net), rho=0.05)
            net.descend(gradients_of(net))

        gradients: a gradient for each name, as in `update`.

        Returns the norm of all gradients together, or None if a gradient contains NaN or infinity and its parameter skips such
        steps: then no parameter has moved. All gradients are checked before a parameter moves.
        """
        owners, addresses, kept = self._with_gradients(gradients, False)
        norm = _ascend(owners, addresses, _sam_options(rho, adaptive, eta, epsilon), self._fail)
        del kept
        return norm

    def descend(self, gradients: Mapping[str, Array], **options: Unpack[StepOptions]) -> None:
        """The second half: restores the values before `ascend`, bit for bit, and takes a step of every parameter in `gradients`.

        gradients: a gradient for each name, at the values that `ascend` has left.

        The options are the members of `StepOptions`. A parameter whose gradient is skipped is restored without a step. If a gradient
        is rejected, nothing changes, and you can call it again.
        """
        owners, addresses, kept = self._with_gradients(gradients, zeroes(options))
        _step_of_all("descend", owners, addresses, options_address(options), self._fail)
        del kept
        for owner in owners:
            owner._is_ascended = False

    def restore(self) -> None:
        """Restores every parameter that has ascended, bit for bit, without a step."""
        ascended = [x for x in self._parameters.values() if isinstance(x, Parameter) and x._is_ascended]
        if not ascended:
            raise error(Status.BAD_SEQUENCE, "restore: the weights have not been moved; expected ascend() first")
        for parameter in dict.fromkeys(ascended):
            parameter.restore()

    def _no_parameter(self, name: str) -> Exception:
        if name in self._parameters:
            return error(
                Status.BAD_VALUE,
                f"{name}: is a table; expected a Parameter; use model[{name!r}].update(ids, gradient_rows) for the rows of a table",
            )
        allowed = f"one of {', '.join(self._parameters)}" if self._parameters else "one that was added"
        hint = did_you_mean(name, self._parameters)
        return error(Status.BAD_VALUE, f"{name}: is no parameter of the model{hint}; expected {allowed}")

    def _refuse_released(self) -> None:
        for name, parameter in self._parameters.items():
            if parameter._handle is None:
                raise error(
                    Status.BAD_HANDLE, f"{name}: this {type(parameter).__name__} has been released; expected one that is open"
                )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves values, state and clocks to a safetensors file, so that a run can resume bit for bit.

        The file replaces the previous one when it is complete and on the disk. Raises `FileError` if the system cannot write it.
        The guide is docs/how_to/checkpoints.md.
        """
        failure = new_error()
        status = library.gradstep_parameters_save_file(*self._named(), path_bytes(path), ctypes.byref(failure))
        check(status, failure, os.fsdecode(path))

    def load(
        self,
        path: str | os.PathLike[str],
        *,
        missing: Literal["error", "keep"] = "error",
        unexpected: Literal["error", "ignore"] = "error",
        rename: Mapping[str, str] | Callable[[str], str] | None = None,
        rows: Literal["error", "resize"] = "error",
    ) -> LoadReport:
        """Loads a file of `save` into the parameters and tables of the same names, or a part of the file.

        missing: what to do if a name of the model is not in the file; "keep": this parameter does not change.
        unexpected: what to do if a name in the file is not in the model; "ignore": it is not loaded.
        rename: a dict from names in the file to names in the model, or a function that maps each name in the file.
        rows: what to do if the number of rows differs; "resize": load the rows that both have, with their state.

        Shapes, dtypes and rules must match. Everything is checked before anything is written; `InvalidError` says what does not
        match. If the system fails to read in the middle of the data (`FileError`), a part has been loaded.
        """
        options = _load_options(path, missing, unexpected, rows, rename)
        outcomes = (ctypes.c_int32 * len(self))()
        ignored = _texts(
            "parameters_load_file_with", path, *self._named(), path_bytes(path), ctypes.byref(options), outcomes
        )
        found: list[list[str]] = [[], [], []]  # enum gradstep_load_outcome
        for name, outcome in zip(self._parameters, outcomes):
            found[outcome].append(name)
        loaded, kept, resized = map(tuple, found)
        return LoadReport(loaded, kept, resized, tuple(ignored))

    def _named(self) -> tuple[Any, Any, int]:
        """The parameters, their names and their number, as arguments of a C function."""
        self._refuse_released()
        number = len(self._parameters)
        return (
            (ctypes.c_void_p * number)(*[x._handle for x in self._parameters.values()]),
            (ctypes.c_char_p * number)(*[name.encode() for name in self._parameters]),
            number,
        )

    def release(self) -> None:
        """Releases the memory of all parameters and tables."""
        for parameter in self._parameters.values():
            parameter.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
