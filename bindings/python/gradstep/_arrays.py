"""The memory of arrays as arguments of the C library: an address, a number of elements, and a dtype."""

from __future__ import annotations

import ctypes
import itertools
import math
import operator
import warnings
import weakref
from array import array as _standard_array
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, Union

import numpy

from ._hints import did_you_mean
from ._library import Error, Status, error
from ._shared import integer

try:
    from ml_dtypes import bfloat16 as _bfloat16
except ImportError:
    _bfloat16 = None


class SupportsDLPack(Protocol):
    """A tensor of another library, such as torch or jax, on the CPU."""

    def __dlpack__(self) -> Any: ...
    def __dlpack_device__(self) -> Any: ...


Array = Union["numpy.ndarray[Any, Any]", SupportsDLPack]
Ids = Union[Array, Sequence[int], range]


class Dtype(NamedTuple):
    """A dtype: its number in C, its size in bytes, and numpy's dtype if numpy has one."""

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
_BFLOAT = 4  # kDLBfloat
_ALL.append(Dtype("bfloat16", 7, 2, (_BFLOAT, 16), _bfloat16 and numpy.dtype(_bfloat16)))

DTYPES = {x.name: x for x in _ALL}
_BY_CODE = {x.code: x for x in DTYPES.values()}
_BY_DLPACK = {x.dlpack: x for x in DTYPES.values()}
_ID_TYPES = {x.numpy: x for x in DTYPES.values() if x.code <= DTYPES["uint64"].code}
_BY_NUMPY = {x.numpy: x for x in DTYPES.values() if x.numpy is not None}


def dtype_of(name: Any) -> Dtype:
    """The dtype of a name or a numpy dtype."""
    if isinstance(name, str) and name in DTYPES:
        return DTYPES[name]
    try:
        return _BY_NUMPY[numpy.dtype(name)]
    except (KeyError, TypeError):
        raise error(
            Status.UNSUPPORTED_TYPE, f"dtype: {name!r}{did_you_mean(name, DTYPES)}; expected one of {', '.join(DTYPES)}"
        ) from None


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


_READ_ONLY, _IS_COPIED = 1, 2  # bits of DLManagedTensorVersioned.flags


class _Version(ctypes.Structure):
    """DLPackVersion."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32)]


class _VersionedTensor(ctypes.Structure):
    """DLManagedTensorVersioned, since DLPack 1.0."""

    _fields_ = [
        ("version", _Version),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    ]


_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.argtypes, _capsule_name.restype = (ctypes.py_object,), ctypes.c_char_p
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes, _capsule_pointer.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
_VERSIONED = b"dltensor_versioned"
HOST_DEVICE = 1  # kDLCPU
_HOST = (HOST_DEVICE, 3)  # kDLCUDAHost
# Libraries with writable tensors. Their older versions lack DLPack 1.0, which says whether a tensor is writable.
_WRITABLE_LIBRARIES = ("torch", "paddle")


class View(NamedTuple):
    """The contiguous elements of an array. The memory is valid while `owner` and the array exist."""

    address: int
    dtype: Dtype
    shape: tuple[int, ...]
    writable: bool
    owner: Any

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def address_of(array: numpy.ndarray[Any, Any]) -> int:
    """The address of the first element."""
    try:
        # A fifth of the time of array.ctypes.data.
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # read-only, empty, or of a dtype that the buffer protocol lacks
        return array.ctypes.data


def view(array: Array, what: str) -> View:
    """The memory of an array during one call. Raises an InvalidError or a DtypeError that begins with `what`."""
    if isinstance(array, numpy.ndarray):
        if array.dtype not in _BY_NUMPY:
            raise error(Status.UNSUPPORTED_TYPE, f"{what}: is of {array.dtype}; expected {', '.join(DTYPES)}")
        if isinstance(array, numpy.ma.MaskedArray):
            raise error(
                Status.UNSUPPORTED_TYPE, f"{what}: is a masked array, whose mask would be ignored; expected array.filled(0)"
            )
        if not array.flags.c_contiguous:
            raise _scattered(what, "numpy.ascontiguousarray")
        return View(address_of(array), _BY_NUMPY[array.dtype], array.shape, array.flags.writeable, array)
    tensor, writable, capsule = _foreign(array, what)
    dtype = _BY_DLPACK.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if dtype is None:
        raise error(
            Status.UNSUPPORTED_TYPE,
            f"{what}: is of a type that is not here (DLPack's {tensor.code}, of {tensor.bits} bits); "
            f"expected {', '.join(DTYPES)}",
        )
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    if not _is_contiguous(tensor, shape):
        raise _scattered(what, "contiguous()")
    # No consumer has taken the tensor, so the capsule frees it when the capsule is collected.
    return View((tensor.data or 0) + tensor.byte_offset, dtype, shape, writable, capsule)


def _foreign(array: Any, what: str) -> tuple[_DLTensor, bool, Any]:
    """The tensor of another library, whether it is writable, and the capsule that owns it."""
    if not hasattr(array, "__dlpack__"):
        raise error(
            Status.UNSUPPORTED_TYPE,
            f"{what}: is a {type(array).__name__}; expected an array of numpy, or one that has __dlpack__",
        )
    is_neg = getattr(array, "is_neg", None)
    if callable(is_neg) and is_neg():  # torch's capsule does not contain this bit
        raise error(
            Status.BAD_BUFFER, f"{what}: its memory holds the negative of its values; expected tensor.resolve_neg()"
        )
    storage = getattr(array, "untyped_storage", None)
    if callable(storage) and type(array).__module__ not in ("torch", "torch.nn.parameter"):
        # A subclass of torch.Tensor, such as FakeTensor: its capsule can contain an address near 0.
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                is_there = storage().data_ptr() != 0
        except (RuntimeError, NotImplementedError, TypeError):
            is_there = False
        if not is_there and array.numel() != 0:
            raise _without_memory(array, what)
    try:
        device = array.__dlpack_device__()[0]
        if device not in _HOST:
            raise error(
                Status.BAD_BUFFER,
                f"{what}: is in the memory of a device (DLPack's {int(device)}); expected the memory of the host",
            )
        try:
            capsule = array.__dlpack__(max_version=(1, 1))
        except TypeError:  # before DLPack 1.0
            capsule = array.__dlpack__()
    except (BufferError, RuntimeError, ValueError) as reason:  # such as torch, if the tensor requires a gradient
        if isinstance(reason, Error):
            raise
        raise error(Status.BAD_BUFFER, f"{what}: does not export its memory ({reason}); expected an array that does") from reason
    if _capsule_name(capsule) == _VERSIONED:
        versioned = _VersionedTensor.from_address(_capsule_pointer(capsule, _VERSIONED))
        if versioned.version.major != 1:
            raise error(
                Status.BAD_BUFFER, f"{what}: is of DLPack {versioned.version.major}.{versioned.version.minor}; expected 1.x"
            )
        tensor, writable = versioned.tensor, not versioned.flags & (_READ_ONLY | _IS_COPIED)
    else:
        tensor, writable = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor")), _may_be_written(array)
    if not tensor.data and all(tensor.shape[i] for i in range(tensor.ndim)):
        raise _without_memory(array, what)
    return tensor, writable, capsule


def _without_memory(array: Any, what: str) -> Exception:
    return error(
        Status.BAD_BUFFER, f"{what}: is a {type(array).__name__} without memory; expected a tensor that has its values"
    )


def _may_be_written(array: Any) -> bool:
    """Whether memory of DLPack before 1.0 is writable. DLPack cannot say it then, and jax's memory is not, for example."""
    return any(kind.__module__.partition(".")[0] in _WRITABLE_LIBRARIES for kind in type(array).__mro__)


def _is_contiguous(tensor: _DLTensor, shape: tuple[int, ...]) -> bool:
    if not tensor.strides or 0 in shape:
        return True
    expected = 1
    for i in reversed(range(tensor.ndim)):
        if shape[i] != 1 and tensor.strides[i] != expected:
            return False
        expected *= shape[i]
    return True


def _scattered(what: str, remedy: str) -> Exception:
    return error(
        Status.BAD_BUFFER, f"{what}: its elements do not lie next to each other; expected a contiguous array, as by {remedy}"
    )


def checked(
    array: Array, what: str, dtype: Dtype, shape: tuple[int, ...] | None, writable: bool = False, *others: tuple[int, ...]
) -> View:
    """Like `view`, and checks that the array is of `dtype` and has `shape`, or one of `others`, or is flat: one dimension with as
    many elements. None: any shape."""
    if type(array) is numpy.ndarray and array.dtype is dtype.numpy and (shape is None or array.shape == shape):
        flags = array.flags
        if flags.c_contiguous and (flags.writeable or not writable):  # the usual case, without further look-ups
            return View(address_of(array), dtype, array.shape, flags.writeable, array)
    found = view(array, what)
    if found.dtype is not dtype:
        hint = f"; use astype(numpy.{dtype.name})" if dtype.numpy is not None and isinstance(array, numpy.ndarray) else ""
        raise error(Status.UNSUPPORTED_TYPE, f"{what}: is of {found.dtype.name}; expected {dtype.name}{hint}")
    if shape is not None and found.shape != shape:
        count = math.prod(shape)
        if found.size != count:
            raise error(Status.BAD_SIZE, f"{what}: has {found.size} elements; expected {count}")
        require_shape(found, what, shape, *others)
    if writable and not found.writable:
        why = ""
        if not isinstance(array, numpy.ndarray) and _capsule_name(found.owner) != _VERSIONED:
            why = f" (a {type(array).__name__} does not say by DLPack 1.0 that it may be written)"
        raise error(Status.BAD_BUFFER, f"{what}: is read-only{why}; expected memory that may be written")
    return found


def bfloat16_view(array: Array, what: str, shape: tuple[int, ...]) -> View:
    """Writable memory of `shape`, or flat, for numbers in bfloat16: of numpy's uint16, or of bfloat16."""
    if isinstance(array, numpy.ndarray) and array.dtype == numpy.uint16:
        return checked(array.view(numpy.float16), what, DTYPES["float16"], shape, True)
    if isinstance(array, numpy.ndarray) and array.dtype != _bfloat16:
        raise error(Status.UNSUPPORTED_TYPE, f"{what}: is of {array.dtype}; expected uint16, or bfloat16 of ml_dtypes")
    return checked(array, what, DTYPES["bfloat16"], shape, True)


def require_shape(found: View, what: str, *allowed: tuple[int, ...]) -> None:
    """Raises if an array with the right number of elements has another shape of two or more dimensions: its elements can be in
    another order, as in a transposed matrix."""
    if len(found.shape) > 1 and found.shape not in allowed:
        shapes = " or ".join(map(str, dict.fromkeys(shape for shape in allowed if len(shape) > 1)))
        raise error(Status.BAD_SIZE, f"{what}: has the shape {found.shape}; expected {f'{shapes}, or ' * bool(shapes)}one dimension")


ROWS, KEYS = 2**63, 2**64  # the limits of row numbers and of keys, which int64 can hold with the same bits


def ids_view(ids: Ids, what: str = "ids", behind: int = ROWS) -> View:
    """The memory of row ids below `behind`: any integer array, a list or a range. It is converted if the library cannot read it."""
    if type(ids) is numpy.ndarray:  # the usual case, without further look-ups
        found = _ID_TYPES.get(ids.dtype)
        if found is not None and ids.flags.c_contiguous:
            return View(address_of(ids), found, ids.shape, False, ids)
    elif not isinstance(ids, numpy.ndarray) and hasattr(ids, "__dlpack__"):
        tensor, writable, capsule = _foreign(ids, what)
        shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
        dtype = _BY_DLPACK.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
        if dtype is not None and dtype.code <= DTYPES["uint64"].code and _is_contiguous(tensor, shape):
            return View((tensor.data or 0) + tensor.byte_offset, dtype, shape, writable, capsule)
        if tensor.code > 1:  # kDLInt, kDLUInt
            name = dtype.name if dtype else "bool" if tensor.code == 6 else f"DLPack's type {tensor.code}"
            raise _no_ids(name, what)
    array = ids_array(ids, what, behind)
    return View(address_of(array), _BY_NUMPY[array.dtype], array.shape, False, array)


def ids_array(ids: Ids, what: str = "ids", behind: int = ROWS) -> numpy.ndarray[Any, Any]:
    """Converts row ids to a contiguous numpy array of a dtype that the library can read."""
    array: numpy.ndarray[Any, Any]
    if isinstance(ids, range):
        require_ids((*ids[:1], *ids[-1:]), what, behind)
        array = numpy.empty(0, numpy.int64)
        if ids:
            array = numpy.arange(len(ids), dtype=numpy.uint64)
            array = (array * numpy.uint64(ids.step % KEYS) + numpy.uint64(ids.start % KEYS)).view(numpy.int64)
    elif isinstance(ids, numpy.ndarray):
        array = ids
    elif hasattr(ids, "__dlpack__"):
        foreign: Any = ids
        array = numpy.from_dlpack(foreign)
    elif isinstance(ids, (Sequence, _standard_array)) and not isinstance(ids, (str, bytes, bytearray)):
        array = _ids_of_sequence(ids, what, behind)
    elif hasattr(ids, "__array__") and not isinstance(ids, numpy.generic):  # such as pandas
        array = numpy.asarray(ids)
    else:
        raise error(
            Status.UNSUPPORTED_TYPE, f"{what}: {ids!r} is a {type(ids).__name__}; expected an array, a list or a range of integers"
        )
    if array.dtype.kind not in "iu":
        raise _no_ids(str(array.dtype), what)
    if isinstance(array, numpy.ma.MaskedArray):
        raise error(
            Status.UNSUPPORTED_TYPE, f"{what}: are a masked array, whose mask would be ignored; expected ids.compressed()"
        )
    if array.dtype not in _BY_NUMPY:
        array = array.astype(numpy.int64 if array.dtype.kind == "i" else numpy.uint64)
    return numpy.ascontiguousarray(array).reshape(array.shape)


def _ids_of_sequence(ids: Sequence[Any], what: str, behind: int) -> numpy.ndarray[Any, Any]:
    try:
        array = numpy.asarray(ids)
    except (ValueError, UserWarning):  # a warning of numpy before 1.24
        raise error(Status.BAD_SIZE, f"{what}: contains lists of different lengths; expected lists of one length") from None
    if array.size == 0:
        return numpy.empty(array.shape, numpy.int64)
    numbers: Any = ids
    for _ in range(array.ndim - 1):
        numbers = itertools.chain.from_iterable(numbers)
    # numpy would round these numbers, or convert them to integers.
    if array.dtype.kind not in "iu" or not {bool, numpy.bool_}.isdisjoint(map(type, numbers)):
        numbers = ids
        for _ in range(array.ndim - 1):
            numbers = itertools.chain.from_iterable(numbers)
        numbers = list(numbers)
        require_ids(numbers, what, behind)
        of_bits = numpy.array([operator.index(number) % KEYS for number in numbers], numpy.uint64)
        return of_bits.view(numpy.int64).reshape(array.shape)
    return array


def require_ids(numbers: Iterable[Any], what: str, behind: int) -> None:
    """Raises unless all numbers are integers in the range of int64, or below `behind`."""
    for number in numbers:
        row = integer(number)
        if row is None:
            raise error(Status.UNSUPPORTED_TYPE, f"{what}: {number!r} is a {type(number).__name__}; expected integers")
        if not -(2**63) <= row < behind:
            allowed = "the number of a row" if behind == ROWS else "a key of 64 bits"
            raise error(Status.BAD_VALUE, f"{what}: {number} is out of range; expected {allowed}")


def _no_ids(dtype: str, what: str) -> Exception:
    hint = ", as numpy.flatnonzero(mask) gives them" if dtype == "bool" else ""
    return error(Status.UNSUPPORTED_TYPE, f"{what}: are of {dtype}; expected integers{hint}")


def empty(shape: tuple[int, ...], dtype: Dtype) -> numpy.ndarray[Any, Any]:
    """Makes a new numpy array."""
    if dtype.numpy is None:
        raise error(
            Status.UNSUPPORTED_TYPE,
            "dtype: numpy has no bfloat16; expected ml_dtypes to be installed, or an array with __dlpack__ as `out`",
        )
    return numpy.empty(shape, dtype.numpy)


class _Borrowed:
    """Exposes memory of the library to numpy. The numpy array keeps this object alive, and with it the handle."""

    def __init__(self, interface: dict[str, Any], owner: Any) -> None:
        self.__array_interface__ = interface
        self.owner = owner


def borrowed(
    address: int, shape: tuple[int, ...], dtype: numpy.dtype[Any], owner: Any, borrowers: weakref.WeakSet[Any]
) -> numpy.ndarray[Any, Any]:
    """Makes a read-only array over memory that is valid while `owner` exists. `borrowers` has an item while the array exists."""
    if 0 in shape:
        array = numpy.empty(shape, dtype)
        array.flags.writeable = False
        return array
    # The dtypes of ml_dtypes are "void" in this interface.
    interface = {"version": 3, "shape": shape, "typestr": dtype.str, "data": (address, True)}
    memory = _Borrowed(interface, owner)
    borrowers.add(memory)
    return numpy.asarray(memory).view(dtype)


def capsule(
    array: numpy.ndarray[Any, Any], dtype: Dtype, stream: Any, max_version: Any, device: Any, copy: bool | None
) -> Any:
    """Makes the DLPack capsule of an array with elements of `dtype`, which numpy can represent by another dtype."""
    of_numpy = array.view(f"u{dtype.itemsize}") if dtype.dlpack[0] == _BFLOAT else array
    options = {"max_version": max_version, "dl_device": device, "copy": copy}
    given = {name: value for name, value in options.items() if value is not None}
    try:
        try:
            made = of_numpy.__dlpack__(stream=stream, **given)
        except TypeError:  # before numpy 2.1
            made = of_numpy.__dlpack__(stream=stream)
    except BufferError:
        if array.flags.writeable:
            raise
        raise BufferError(
            "__dlpack__: the values are read-only, which takes DLPack 1.0 to say; expected max_version=(1, 0) or later, and numpy "
            "2.1 or later; values() gives a copy"
        ) from None
    if of_numpy is not array:
        versioned = _capsule_name(made) == _VERSIONED
        at = _capsule_pointer(made, _VERSIONED if versioned else b"dltensor")
        tensor = _VersionedTensor.from_address(at).tensor if versioned else _DLTensor.from_address(at)
        tensor.code = _BFLOAT
    return made
