"""Parameters, tables and models: the library has values, state and clock."""

from __future__ import annotations

import ctypes
import json
import math
import os
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy

from . import _arrays
from ._arrays import Array
from ._library import CSlot, Status, check, error, library, new_error
from ._shared import Config, Owner, StepOptions, config_bytes, int64, options_address, zeroes

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

_update = library.gradstep_parameter_update


class _Values(Owner):
    """What a parameter and a table have in common."""

    _kind = "parameter"

    def __init__(self, config: Config, initial: Array | None, shape: tuple[int, ...] | None, dtype: Any) -> None:
        if initial is not None:
            found = _arrays.view(initial, "initial")
            for name, given, has in (
                ("shape", shape, found.shape),
                ("dtype", dtype and _arrays.dtype_of(dtype).name, found.dtype.name),
            ):
                if given is not None and given != has:
                    raise error(Status.BAD_VALUE, f"{name}: is {given}, but that of initial {has}: leave it out")
            element, shape, address = found.dtype, found.shape, found.address
        elif shape is None:
            raise error(Status.BAD_VALUE, "initial: is missing: give the values at the start, or a shape, and they are 0")
        else:
            element, address = _arrays.dtype_of("float32" if dtype is None else dtype), None
        self._element = element
        self.shape = tuple(int(x) for x in shape)  #: of the values
        self.dtype = element.name  #: of values and gradients: "float32", "float64", "float16", "bfloat16", ...
        rows, width = self._rows_and_width(self.shape)
        self.size = int64(rows * width, "shape: the number of elements")  #: the number of elements
        text, out, failure = config_bytes(config), ctypes.c_void_p(), new_error()
        check(
            library.gradstep_parameter_create(
                text, len(text), element.code, address, rows, width, ctypes.byref(out), ctypes.byref(failure)
            ),
            failure,
        )
        super().__init__(out.value or 0)

    @staticmethod
    def _rows_and_width(shape: tuple[int, ...]) -> tuple[int, int]:
        raise NotImplementedError

    def _copied(self, address: int, out: Array | None, element: _arrays.Dtype, shape: tuple[int, ...]) -> Any:
        """A copy of memory of the library's."""
        if out is None:
            out = _arrays.empty(shape, element)
        count = math.prod(shape)
        ctypes.memmove(
            _arrays.checked(out, "out", element, count, writable=True).address, address, count * element.itemsize
        )
        return out

    def values(self, out: Any = None) -> Any:
        """A copy of the values: a new array of numpy, or `out`, an array of as many elements of the same type."""
        address, count = ctypes.c_void_p(), ctypes.c_uint64()
        self._call("values", ctypes.byref(address), ctypes.byref(count))
        return self._copied(address.value or 0, out, self._element, self.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> numpy.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("the values of a parameter are copied: its memory is the library's")
        values: numpy.ndarray[Any, Any] = self.values()
        return values if dtype is None else values.astype(dtype, copy=False)

    def slots(self) -> dict[str, numpy.ndarray[Any, Any]]:
        """Copies of the state by name, as {"m": ..., "v": ...}; the master copy of a 16-bit parameter is "master"."""
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
        """The average that "average" of the configuration keeps: float64 of float64 values, else float32."""
        out = numpy.empty(self.shape, numpy.float64 if self.dtype == "float64" else numpy.float32)
        self._call("average", _arrays.address_of(out), out.size)
        return out

    def apply_average(self) -> None:
        """Puts the average in the place of the values, until `restore`; no step in between."""
        self._call("apply_average")

    def restore(self) -> None:
        """Puts the values that are trained back."""
        self._call("restore")

    def save_state(self) -> bytes:
        """All that a run needs to go on bit for bit, with a checksum: values, state and clock."""
        size, written = ctypes.c_uint64(), ctypes.c_uint64()
        self._call("state_bytes", ctypes.byref(size))
        buffer = bytearray(size.value)
        self._call("save", ctypes.addressof(ctypes.c_char.from_buffer(buffer)), len(buffer), ctypes.byref(written))
        return bytes(buffer)

    def load_state(self, state: bytes | bytearray | memoryview) -> None:
        """Goes on from what `save_state` of a parameter of the same size, element and rule has given; changes nothing where
        it refuses that."""
        memory = numpy.frombuffer(state, numpy.uint8)
        self._call("load", memory.ctypes.data, memory.size)

    def __getstate__(self) -> dict[str, Any]:
        return {"config": self._config_text(), "shape": self.shape, "dtype": self.dtype, "state": self.save_state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["config"], shape=state["shape"], dtype=state["dtype"])  # type: ignore[misc]
        self.load_state(state["state"])

    def __repr__(self) -> str:
        what = "released" if self._handle is None else json.loads(self._config_text())["rule"]["name"]
        return f"<gradstep.{type(self).__name__} {what} {self.dtype} {self.shape}>"


class Parameter(_Values):
    """A tensor that the library trains: values, state, clock and policies in one.

        w = gradstep.Parameter({"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.001}}, weights)
        w.update(gradient)
        w.values()

    config: a dict, or a str of JSON (docs/configuration.md), which may also have "element", "threads", "clip", "on_nonfinite",
    "seed" and "id".
    initial: the values at the start, which are copied: an array of numpy, or a tensor with `__dlpack__`. Or None, with a
    shape and a dtype ("float32" by default) of zeros.

    The memory is released with the object, at the end of a `with`, or by `release`. Objects can be pickled and copied.
    """

    def __init__(
        self, config: Config, initial: Array | None = None, *, shape: tuple[int, ...] | None = None, dtype: Any = None
    ) -> None:
        super().__init__(config, initial, shape, dtype)
        # A weak reference to the array of the last step, which has been checked. What may change of it is its dtype, and with that
        # its size; and its strides, whose assignment numpy has deprecated: to look at them is a tenth of the call.
        self._gradient: Any = _nothing
        self._gradient_at, self._gradient_dtype = 0, self._element.numpy

    @staticmethod
    def _rows_and_width(shape: tuple[int, ...]) -> tuple[int, int]:
        return 1, math.prod(shape)

    def update(self, gradient: Array, **options: Unpack[StepOptions]) -> None:
        """One step with a gradient of the values' type and size, which is read where it is; options as StepOptions has them."""
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

    def _update_checked(self, gradient: Array, options: StepOptions) -> None:
        found = _arrays.checked(gradient, "gradient", self._element, self.size, zeroes(options))
        if type(gradient) is numpy.ndarray:  # which does not move: numpy resizes no array that is referred to
            self._gradient, self._gradient_at = weakref.ref(gradient), found.address
        status = _update(self._handle, found.address, self.size, options_address(options), self._failure_at)
        if status:
            self._fail(status)

    def compress(self, gradient: Array, **options: Unpack[StepOptions]) -> bytes:
        """The first half of a step of "dgc_momentum": the gradient enters the state, and what comes back goes to all trainers
        (docs/dgc.md). The values wait for `apply`. With several trainers every step has both halves: `update` takes
        this trainer's gradient alone."""
        found = _arrays.checked(gradient, "gradient", self._element, self.size, zeroes(options))
        bound, written = ctypes.c_uint64(), ctypes.c_uint64()
        self._call("message_bound", ctypes.byref(bound))
        buffer = bytearray(bound.value)
        at = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
        self._call(
            "compress", found.address, self.size, options_address(options), at, len(buffer), ctypes.byref(written)
        )
        return bytes(memoryview(buffer)[: written.value])

    def apply(self, messages: Iterable[bytes | bytearray | memoryview]) -> None:
        """The second half: the mean of what all trainers have sent, this one too, in the order of their ranks, moves the values.
        Bytes that are no message of this step are refused, nothing has changed, and the right ones may come."""
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


class Table(_Values):
    """Rows that are trained by their numbers, as embeddings are.

        table = gradstep.Table(config, shape=(1_000_000, 64))
        table.update(ids, gradient_rows)
        table.row(42)

    The arguments are those of `Parameter`; the shape is rows x width. What a batch does not name stays as it is, unless the
    configuration says "catch_up": "exact" or "replay": then a row catches up when it is named or read.
    """

    def __init__(
        self, config: Config, initial: Array | None = None, *, shape: tuple[int, int] | None = None, dtype: Any = None
    ) -> None:
        super().__init__(config, initial, shape, dtype)
        self.width = self.shape[1]  #: elements of a row

    @staticmethod
    def _rows_and_width(shape: tuple[int, ...]) -> tuple[int, int]:
        if len(shape) != 2:
            raise error(Status.BAD_SIZE, f"shape: is {shape}: must be (rows, width)")
        return shape[0], shape[1]

    def update(self, ids: Array, gradient_rows: Array, **options: Unpack[StepOptions]) -> None:
        """One step of the rows that `ids` name, an array of integers. gradient_rows has `width` elements for each of them;
        those of a row that is named several times are added."""
        rows = _arrays.ids_view(ids)
        count = rows.size * self.width
        found = _arrays.checked(gradient_rows, "gradient_rows", self._element, count, zeroes(options))
        self._call(
            "update_rows", rows.address, rows.dtype.code, rows.size, found.address, found.size, options_address(options)
        )

    def row(self, row: int) -> numpy.ndarray[Any, Any]:
        """A copy of one row."""
        number = int64(row, "row")
        out = _arrays.empty((self.width,), self._element)
        self._call("row", number, _arrays.address_of(out), self.width)
        return out

    def rows(self, ids: Array, out: Any = None) -> Any:
        """Copies of rows, in the order of ids: len(ids) x width, a new array of numpy or `out`."""
        rows = _arrays.ids_view(ids)
        if out is None:
            out = _arrays.empty((*rows.shape, self.width), self._element)
        found = _arrays.checked(out, "out", self._element, rows.size * self.width, writable=True)
        self._call("rows", rows.address, rows.dtype.code, rows.size, found.address, found.size)
        return out

    def flush(self) -> None:
        """Brings every row up to date; under "touch_only", the default, every row always is."""
        self._call("flush")


class Model(Mapping[str, "Parameter | Table"]):
    """Named parameters and tables, with configurations of their own.

    net = gradstep.Model({"weight": gradstep.Parameter(...), "bias": gradstep.Parameter(...)})
    net.update({"weight": g_weight, "bias": g_bias})        # one call of the library
    net.save("net.safetensors")
    net["weight"].values()
    """

    def __init__(self, parameters: Mapping[str, Parameter | Table] | None = None) -> None:
        self._parameters: dict[str, Parameter | Table] = {}
        for name, parameter in (parameters or {}).items():
            self.add(name, parameter)

    def add(self, name: str, parameter: Parameter | Table) -> Parameter | Table:
        """Takes a parameter or a table in, and gives it back."""
        if not isinstance(parameter, (Parameter, Table)):
            raise error(Status.BAD_VALUE, f"{name}: is a {type(parameter).__name__}: must be a Parameter or a Table")
        if name in self._parameters:
            raise error(Status.BAD_VALUE, f"{name}: is there twice")
        self._parameters[name] = parameter
        return parameter

    def __getitem__(self, name: str) -> Parameter | Table:
        return self._parameters[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    def update(self, gradients: Mapping[str, Array], **options: Unpack[StepOptions]) -> None:
        """One step of each parameter that has a gradient here, in one call, split over threads together: those of the
        parameter that has most. All are checked before any is written. Tables are updated by their own `update`."""
        owners, addresses, kept, writable = [], [], [], zeroes(options)
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
                found = _arrays.checked(gradient, f"gradient of {name}", parameter._element, parameter.size, writable)
                if type(gradient) is numpy.ndarray:
                    parameter._gradient, parameter._gradient_at = weakref.ref(gradient), found.address
                addresses.append(found.address)
                kept.append(found)
            owners.append(parameter)
        number, failure = len(owners), new_error()
        status = library.gradstep_parameters_update(
            (ctypes.c_void_p * number)(*[x._handle for x in owners]),
            (ctypes.c_void_p * number)(*addresses),
            (ctypes.c_uint64 * number)(*[x.size for x in owners]),
            number,
            options_address(options),
            ctypes.byref(failure),
        )
        if status:
            self._refuse_released()
            check(status, failure)

    def _no_parameter(self, name: str) -> Exception:
        if name in self._parameters:
            return error(
                Status.BAD_VALUE, f"{name}: is a table: update it by its rows, model[{name!r}].update(ids, gradient_rows)"
            )
        return error(
            Status.BAD_VALUE, f"{name}: is no parameter of the model: it has {', '.join(self._parameters) or 'none'}"
        )

    def _refuse_released(self) -> None:
        for name, parameter in self._parameters.items():
            if parameter._handle is None:
                raise error(Status.BAD_HANDLE, f"{name}: this {type(parameter).__name__} has been released")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Everything that a run needs to go on bit for bit, as a safetensors file (docs/checkpoints.md). The file is there
        once it is whole and on the disk; until then the one before is."""
        self._file("save", path)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Goes on from a file of `save`, of a model with the same names, sizes, elements and rules. Where the system stops reading
        in the middle of the data (`FileError`), a part has been loaded."""
        self._file("load", path)

    def _file(self, what: str, path: str | os.PathLike[str]) -> None:
        self._refuse_released()
        number, failure = len(self._parameters), new_error()
        check(
            getattr(library, f"gradstep_parameters_{what}_file")(
                (ctypes.c_void_p * number)(*[x._handle for x in self._parameters.values()]),
                (ctypes.c_char_p * number)(*[name.encode() for name in self._parameters]),
                number,
                os.fsencode(path),
                ctypes.byref(failure),
            ),
            failure,
        )

    def release(self) -> None:
        """Releases all of them."""
        for parameter in self._parameters.values():
            parameter.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
