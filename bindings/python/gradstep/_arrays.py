"""Memory of arrays as the C library takes it: an address, a number of elements, and what they are."""

from __future__ import annotations

import ctypes
import math
from typing import Any, NamedTuple, Protocol, Union

import numpy

from ._library import Status, error

try:
    from ml_dtypes import bfloat16 as _bfloat16
except ImportError:
    _bfloat16 = None


class SupportsDLPack(Protocol):
    """A tensor of another library, as torch or jax."""

    def __dlpack__(self) -> Any: ...
    def __dlpack_device__(self) -> Any: ...


Array = Union["numpy.ndarray[Any, Any]", SupportsDLPack]


class Dtype(NamedTuple):
    """An element type: the number that C has for it, its size, and numpy's, where there is one."""

    name: str
    code: int
    itemsize: int
    dlpack: tuple[int, int]  # DLDataTypeCode and bits
    numpy: Any


def _standard(name: str, code: int) -> Dtype:
    dtype = numpy.dtype(name)
    return Dtype(name, code, dtype.itemsize, ("iuf".index(dtype.kind), 8 * dtype.itemsize), dtype)


_ALL = [
    _standard(name, code)
    for code, name in enumerate(("int32", "uint32", "int64", "uint64", "float32", "float64", "float16"))
]
_ALL.append(Dtype("bfloat16", 7, 2, (4, 16), _bfloat16 and numpy.dtype(_bfloat16)))

DTYPES = {x.name: x for x in _ALL}
_BY_CODE = {x.code: x for x in DTYPES.values()}
_BY_DLPACK = {x.dlpack: x for x in DTYPES.values()}
_BY_NUMPY = {x.numpy: x for x in DTYPES.values() if x.numpy is not None}
IDS = "int32, uint32, int64 or uint64"


def dtype_of(name: Any) -> Dtype:
    """The element type of a name, or of numpy's dtype."""
    if isinstance(name, str) and name in DTYPES:
        return DTYPES[name]
    try:
        return _BY_NUMPY[numpy.dtype(name)]
    except (KeyError, TypeError):
        raise error(Status.UNSUPPORTED_TYPE, f"dtype {name!r}: must be one of {', '.join(DTYPES)}") from None


def dtype_of_code(code: int) -> Dtype:
    return _BY_CODE[code]


class _DLTensor(ctypes.Structure):
    """DLTensor of dlpack.h, with which a DLManagedTensor begins."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes, _capsule_pointer.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
_HOST = (1, 3)  # kDLCPU, kDLCUDAHost


class View(NamedTuple):
    """Elements of an array that lie next to each other. They are there as long as `owner` and the array are."""

    address: int
    dtype: Dtype
    shape: tuple[int, ...]
    writable: bool
    owner: Any

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def address_of(array: numpy.ndarray[Any, Any]) -> int:
    """Where its elements begin."""
    try:
        # A fifth of the time of array.ctypes.data.
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # read-only, empty, or of a type that buffers do not know
        return array.ctypes.data


def view(array: Array, what: str) -> View:
    """The memory of an array, for as long as a call takes; an InvalidError or a DtypeError that begins with `what`."""
    if isinstance(array, numpy.ndarray):
        if array.dtype not in _BY_NUMPY:
            raise error(Status.UNSUPPORTED_TYPE, f"{what}: is of {array.dtype}: must be of {', '.join(DTYPES)}")
        if not array.flags.c_contiguous:
            raise _scattered(what, "numpy.ascontiguousarray")
        return View(address_of(array), _BY_NUMPY[array.dtype], array.shape, array.flags.writeable, array)
    if not hasattr(array, "__dlpack__"):
        raise error(
            Status.UNSUPPORTED_TYPE,
            f"{what}: is a {type(array).__name__}: must be an array of numpy, or one that has __dlpack__",
        )
    device = array.__dlpack_device__()[0]
    if device not in _HOST:
        raise error(
            Status.BAD_BUFFER, f"{what}: is in the memory of a device (DLPack's {int(device)}): must be in that of the host"
        )
    try:
        capsule = array.__dlpack__()
    except (BufferError, RuntimeError, ValueError) as reason:  # as torch where a gradient is wanted of the tensor
        raise error(Status.BAD_BUFFER, f"{what}: does not give its memory away: {reason}") from reason
    tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    dtype = _BY_DLPACK.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if dtype is None:
        raise error(
            Status.UNSUPPORTED_TYPE,
            f"{what}: is of a type that is not here (DLPack's {tensor.code}, of {tensor.bits} bits): "
            f"must be of {', '.join(DTYPES)}",
        )
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    if tensor.strides:
        expected = 1
        for i in reversed(range(tensor.ndim)):
            if shape[i] != 1 and tensor.strides[i] != expected and 0 not in shape:
                raise _scattered(what, "contiguous()")
            expected *= shape[i]
    # The capsule frees its tensor when it goes, since nobody has taken it: nothing else is to be done.
    return View((tensor.data or 0) + tensor.byte_offset, dtype, shape, True, capsule)


def _scattered(what: str, remedy: str) -> Exception:
    return error(
        Status.BAD_BUFFER, f"{what}: its elements do not lie next to each other: give a contiguous array, by {remedy}"
    )


def checked(array: Array, what: str, dtype: Dtype, count: int | None, writable: bool = False) -> View:
    """The same of `count` elements of `dtype`; None: of any number."""
    if type(array) is numpy.ndarray and array.dtype is dtype.numpy and (count is None or array.size == count):
        flags = array.flags
        if flags.c_contiguous and (flags.writeable or not writable):  # what is usual, without looking up more
            return View(address_of(array), dtype, array.shape, flags.writeable, array)
    found = view(array, what)
    if found.dtype is not dtype:
        raise error(Status.UNSUPPORTED_TYPE, f"{what}: is of {found.dtype.name}: must be of {dtype.name}")
    if count is not None and found.size != count:
        raise error(Status.BAD_SIZE, f"{what}: has {found.size} elements: must have {count}")
    if writable and not found.writable:
        raise error(Status.BAD_BUFFER, f"{what}: is read-only: must be memory that may be written")
    return found


def ids_view(ids: Array, what: str = "ids") -> View:
    """Those of rows, of any integer type."""
    found = view(ids, what)
    if found.dtype.code > DTYPES["uint64"].code:
        raise error(Status.UNSUPPORTED_TYPE, f"{what}: are of {found.dtype.name}: must be of {IDS}")
    return found


def empty(shape: tuple[int, ...], dtype: Dtype) -> numpy.ndarray[Any, Any]:
    """A new array of numpy."""
    if dtype.numpy is None:
        raise error(
            Status.UNSUPPORTED_TYPE, "numpy has no bfloat16: install ml_dtypes, or give an array with __dlpack__ as `out`"
        )
    return numpy.empty(shape, dtype.numpy)
