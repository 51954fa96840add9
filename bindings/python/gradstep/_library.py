"""Loads the C library, and declares its functions, structures and errors."""

from __future__ import annotations

import ctypes
import enum
import os
from pathlib import Path
from typing import Any

ABI = (0, 4)  # GRADSTEP_ABI_MAJOR and _MINOR of include/gradstep/c/gradstep.h, which this module follows


class Status(enum.IntEnum):
    """The kind of an error, `Error.code`: the values of gradstep_status_code (docs/reference/errors.md)."""

    OK = 0
    NULL_ARGUMENT = -1
    BAD_HANDLE = -2
    BAD_CONFIG = -3
    NOT_COMPILED = -4
    UNSUPPORTED_TYPE = -5
    BAD_SIZE = -6
    BAD_BUFFER = -7
    BAD_VALUE = -8
    NOT_FINITE = -9
    BAD_SEQUENCE = -10
    OUT_OF_MEMORY = -11
    IO_ERROR = -12
    EXECUTOR_FAILED = -13
    INTERNAL_ERROR = -14
    RANK_FAILED = -15


class Error(Exception):
    """The base class of gradstep's exceptions. The message contains the value and what is allowed. Unless a method says
    otherwise, a failed call changes nothing.

    Each class is also the matching exception of Python, so that `except ValueError` works.
    """

    def __init__(self, message: str, code: Status = Status.INTERNAL_ERROR) -> None:
        super().__init__(message)
        self.code = code  #: the kind of error, a `Status`

    @property
    def id(self) -> str:
        """The stable id of the kind of error, such as "bad_size"; docs/reference/errors.md lists each with cause and cure."""
        return self.code.name.lower()


class ConfigError(Error, ValueError):
    """The configuration is not JSON, or has an unknown key or a number out of range. The message contains the path."""


class NotCompiledError(Error, NotImplementedError):
    """The library was compiled without this combination of policies. The message contains the closest ones."""


class DtypeError(Error, TypeError):
    """The dtype is unknown to gradstep, or differs from the dtype of the parameter."""


class InvalidError(Error, ValueError):
    """A wrong size, a number out of range, or an array that is not contiguous or overlaps another one."""


class OutOfRangeError(InvalidError, IndexError):
    """The table has no such row. It is also an IndexError, so that `for row in table` ends."""


class ReleasedError(Error, ValueError):
    """The object has been released."""


class NotFiniteError(Error, FloatingPointError):
    """A gradient contains NaN or infinity, and the configuration has `"on_nonfinite": "raise"`."""


class SequenceError(Error, RuntimeError):
    """A call in the wrong order, such as a step while averages replace the values, or between `compress` and `apply`."""


class OutOfMemoryError(Error, MemoryError):
    """The system did not provide memory."""


class FileError(Error, OSError):
    """The system could not read or write a file. `errno`, `strerror` and `filename` contain the system's reason.

    It is also Python's exception for that errno, so that `except FileNotFoundError` and `except PermissionError` work.
    """

    def __init__(self, message: str, code: Status = Status.IO_ERROR, errno: int = 0, filename: str | None = None) -> None:
        super().__init__(message, code)
        if errno:
            self.errno, self.strerror = errno, os.strerror(errno)
        self.filename = filename

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return _file_error, (self.args[0], self.errno or 0, self.filename)


class RankError(Error, ConnectionError):
    """Another rank of a job does not answer, or the transport has failed."""


_file_errors: dict[type[OSError], type[FileError]] = {OSError: FileError}


def _file_error(message: str, errno: int = 0, filename: str | None = None) -> FileError:
    """Makes the FileError of an errno. Its class is also Python's exception for it, such as FileNotFoundError."""
    python = type(OSError(errno, "")) if errno else OSError
    if python not in _file_errors:
        members = {"__doc__": FileError.__doc__, "__module__": FileError.__module__}
        _file_errors[python] = type("FileError", (FileError, python), members)
    return _file_errors[python](message, Status.IO_ERROR, errno, filename)


_KINDS: dict[Status, type[Error]] = {
    Status.NULL_ARGUMENT: InvalidError,
    Status.BAD_HANDLE: ReleasedError,
    Status.BAD_CONFIG: ConfigError,
    Status.NOT_COMPILED: NotCompiledError,
    Status.UNSUPPORTED_TYPE: DtypeError,
    Status.BAD_SIZE: InvalidError,
    Status.BAD_BUFFER: InvalidError,
    Status.BAD_VALUE: InvalidError,
    Status.NOT_FINITE: NotFiniteError,
    Status.BAD_SEQUENCE: SequenceError,
    Status.OUT_OF_MEMORY: OutOfMemoryError,
    Status.IO_ERROR: FileError,
    Status.RANK_FAILED: RankError,
}


def error(code: Status, message: str) -> Error:
    """Makes the exception for a status code."""
    return _KINDS.get(code, Error)(message, code)


class CError(ctypes.Structure):
    """gradstep_error."""

    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("code", ctypes.c_int32),
        ("message", ctypes.c_char * 240),
        ("system_code", ctypes.c_int32),
    ]


class CSlot(ctypes.Structure):
    """gradstep_slot."""

    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("dtype", ctypes.c_int32),
        ("name", ctypes.c_char * 32),
        ("count", ctypes.c_uint64),
    ]


class CStepOptions(ctypes.Structure):
    """gradstep_step_options."""

    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("reserved", ctypes.c_int32),
        ("gradient_scale", ctypes.c_double),
        ("rate_scale", ctypes.c_double),
        ("rate", ctypes.c_double),
        ("samples", ctypes.c_int64),
        ("epoch", ctypes.c_int64),
        ("zero_gradient", ctypes.c_int32),
        ("reserved_too", ctypes.c_int32),
        ("given", ctypes.c_uint32),
        ("reserved_last", ctypes.c_uint32),
        ("loss", ctypes.c_double),
    ]


GIVEN_RATE, GIVEN_EPOCH, GIVEN_LOSS = 1, 2, 4  # enum gradstep_given


class CTensorOptions(ctypes.Structure):
    """gradstep_tensor_options."""

    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("reserved", ctypes.c_int32),
        ("rate_scales", ctypes.POINTER(ctypes.c_double)),
        ("decays", ctypes.POINTER(ctypes.c_double)),
        ("steps", ctypes.POINTER(ctypes.c_int64)),
        ("ids", ctypes.c_void_p),
    ]


class CClock(ctypes.Structure):
    """gradstep_clock."""

    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("reserved", ctypes.c_int32),
        ("step", ctypes.c_int64),
        ("samples", ctypes.c_int64),
        ("epoch", ctypes.c_int64),
        ("state", ctypes.c_double * 4),
    ]


class CSamOptions(ctypes.Structure):
    """gradstep_sam_options."""

    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("adaptive", ctypes.c_int32),
        ("rho", ctypes.c_double),
        ("eta", ctypes.c_double),
        ("epsilon", ctypes.c_double),
    ]


class CLoadOptions(ctypes.Structure):
    """gradstep_load_options."""

    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("missing", ctypes.c_int32),
        ("unexpected", ctypes.c_int32),
        ("rows", ctypes.c_int32),
        ("renamed_count", ctypes.c_uint64),
        ("renamed_from", ctypes.POINTER(ctypes.c_char_p)),
        ("renamed_to", ctypes.POINTER(ctypes.c_char_p)),
    ]


class CBagOptions(ctypes.Structure):
    """gradstep_bag_options."""

    _fields_ = [("struct_size", ctypes.c_uint32), ("mode", ctypes.c_int32), ("weights", ctypes.c_void_p)]


class CTableInfo(ctypes.Structure):
    """gradstep_table_info."""

    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("dtype", ctypes.c_int32),
        ("state_dtype", ctypes.c_int32),
        ("concurrent", ctypes.c_int32),
        ("num_rows", ctypes.c_uint64),
        ("width", ctypes.c_uint64),
        ("skipped", ctypes.c_uint64),
        ("keyed", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
    ]


class CKeyCounts(ctypes.Structure):
    """gradstep_key_counts."""

    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("reserved", ctypes.c_int32),
        ("admitted", ctypes.c_uint64),
        ("turned_away", ctypes.c_uint64),
        ("no_room", ctypes.c_uint64),
        ("skipped", ctypes.c_uint64),
        ("evicted", ctypes.c_uint64),
    ]


class CRow(ctypes.Structure):
    """gradstep_row."""

    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("age", ctypes.c_uint32),
        ("touch_count", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("key", ctypes.c_uint64),
        ("width", ctypes.c_uint64),
        ("values", ctypes.c_void_p),
        ("slots", ctypes.c_uint64),
        ("state", ctypes.POINTER(ctypes.c_void_p)),
    ]


class CMessage(ctypes.Structure):
    """gradstep_message."""

    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("to", ctypes.c_int32),
        ("bytes", ctypes.c_void_p),
        ("size", ctypes.c_uint64),
    ]


class CServerInfo(ctypes.Structure):
    """gradstep_server_info."""

    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("finished", ctypes.c_int32),
        ("tensors", ctypes.c_uint64),
        ("pushes", ctypes.c_uint64),
        ("staleness", ctypes.c_double),
    ]


class CWorkerInfo(ctypes.Structure):
    """gradstep_worker_info."""

    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("stopped", ctypes.c_int32),
        ("workers", ctypes.c_uint64),
        ("position", ctypes.c_uint64),
        ("applied", ctypes.c_uint64),
        ("durable", ctypes.c_uint64),
    ]


class CWorkerOptions(ctypes.Structure):
    """gradstep_worker_options."""

    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("num_servers", ctypes.c_int32),
        ("max_in_flight", ctypes.c_uint64),
        ("max_kept", ctypes.c_uint64),
        ("check_elements", ctypes.c_int32),
        ("job", ctypes.c_uint32),
    ]


SEND = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_uint64)
RECEIVE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
TASK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(CError))


class CTransport(ctypes.Structure):
    """gradstep_transport."""

    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("rank", ctypes.c_int32),
        ("ranks", ctypes.c_int32),
        ("concurrent", ctypes.c_int32),
        ("timeout_ms", ctypes.c_int64),
        ("send", SEND),
        ("receive", RECEIVE),
        ("host", ctypes.c_void_p),
    ]


ROW_TEST = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(CRow))
ROW_SCORE = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p, ctypes.POINTER(CRow))


_ints, _longs, _text = ctypes.c_int32, ctypes.c_uint64, ctypes.c_char_p
_at = ctypes.c_void_p  # an address as int, or None; also for handles and structures

# The arguments before the last one, a gradstep_error. All these functions return a status.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "config_canonical": (_text, ctypes.c_size_t, _at, _longs, _at),
    "config_check_change": (_text, ctypes.c_size_t, _text, ctypes.c_size_t),
    "parameter_create": (_text, ctypes.c_size_t, _ints, _at, _longs, _longs, _at),
    "parameter_update": (_at, _at, _longs, _at),
    "parameter_update_rows": (_at, _at, _ints, _longs, _at, _longs, _at),
    "parameters_update": (_at, _at, _at, _longs, _at),
    "parameters_ascend": (_at, _at, _at, _longs, _at, _at),
    "parameters_descend": (_at, _at, _at, _longs, _at),
    "parameter_set_bfloat16_copy": (_at, _at, _longs),
    "parameter_values": (_at, _at, _at),
    "parameter_dtype": (_at, _at),
    "parameter_set_values": (_at, _at, _longs),
    "parameter_append": (_at, _at, _longs),
    "parameter_keep": (_at, _at, _longs),
    "parameter_permute": (_at, _at, _ints, _longs),
    "parameter_reset": (_at, _at, _ints, _longs),
    "parameter_row": (_at, ctypes.c_int64, _at, _longs),
    "parameter_rows": (_at, _at, _ints, _longs, _at, _longs),
    "parameter_flush": (_at,),
    "parameter_slot_count": (_at, _at),
    "parameter_slot": (_at, _longs, _at, _at),
    "parameter_set_shape": (_at, _at, _longs),
    "parameter_clock": (_at, _at),
    "parameter_seek": (_at, _at),
    "parameter_set_numbers": (_at, _at, _at, _longs),
    "parameter_config": (_at, _at, _longs, _at),
    "parameter_average": (_at, _at, _longs),
    "parameter_apply_average": (_at,),
    "parameter_restore": (_at,),
    "parameter_state_bytes": (_at, _at),
    "parameter_save": (_at, _at, _longs, _at),
    "parameter_load": (_at, _at, _longs),
    "parameter_message_bound": (_at, _at),
    "parameter_compress": (_at, _at, _longs, _at, _at, _longs, _at),
    "parameter_apply_messages": (_at, _at, _at, _longs),
    "parameters_save_file": (_at, _at, _longs, _text),
    "parameters_load_file": (_at, _at, _longs, _text),
    "parameters_check_names": (_at, _at, _longs),
    "parameters_set_names": (_at, _at, _longs),
    "parameters_load_file_with": (_at, _at, _longs, _text, _at, _at, _at, _longs, _at),
    "file_names": (_text, _at, _longs, _at),
    "table_create": (_text, ctypes.c_size_t, _at),
    "table_config": (_at, _at, _longs, _at),
    "table_describe": (_at, _at),
    "table_slot_count": (_at, _at),
    "table_slot": (_at, _longs, _at),
    "table_update": (_at, _at, _ints, _longs, _at, _longs, _at),
    "table_update_bags": (_at, _at, _ints, _longs, _at, _longs, _at, _longs, _at, _at),
    "table_rows": (_at, _at, _ints, _longs, _at, _longs),
    "table_int8_rows": (_at, _at, _ints, _longs, _at, _longs),
    "table_bags": (_at, _at, _ints, _longs, _at, _longs, _at, _at, _longs),
    "table_averages": (_at, _at, _ints, _longs, _at, _longs),
    "table_apply_average": (_at,),
    "table_restore": (_at,),
    "table_set_rows": (_at, _at, _ints, _longs, _at, _longs),
    "table_reset": (_at, _at, _ints, _longs),
    "table_grow": (_at, _longs),
    "table_append": (_at, _at, _longs),
    "table_keep": (_at, _at, _longs),
    "table_permute": (_at, _at, _ints, _longs),
    "table_contains": (_at, _longs, _at),
    "table_keys": (_at, _longs, _at, _longs, _at),
    "table_key_counts": (_at, _at),
    "table_reserve": (_at, _longs),
    "table_hold": (_at, _at, _ints, _longs),
    "table_unhold": (_at, _at, _ints, _longs),
    "table_evict_older_than": (_at, ctypes.c_int64, _at),
    "table_evict": (_at, _at, _at, _at),
    "table_evict_to": (_at, _longs, _at, _at, _at),
    "table_changed_since": (_at, ctypes.c_int64, _ints, _at),
    "table_apply_changes": (_at, _at, _longs),
    "bytes_view": (_at, _at, _at),
    "table_flush": (_at,),
    "table_clock": (_at, _at),
    "table_seek": (_at, _at),
    "table_state_bytes": (_at, _at),
    "table_save": (_at, _at, _longs, _at),
    "table_load": (_at, _at, _longs),
    "table_save_file": (_at, _text),
    "table_load_file": (_at, _text, _at, _at),
    "server_create": (_text, ctypes.c_size_t, _ints, _ints, _at),
    "server_describe": (_at, _at),
    "server_table": (_at, _text, _at),
    "server_parameter": (_at, _text, _at, _at),
    "server_begin": (_at, _at),
    "server_handle": (_at, _ints, _at, _longs, _at),
    "server_message": (_at, _longs, _at),
    "server_run": (_at, _at),
    "server_after_every": (_at, _longs, _at, _at),
    "server_checkpoint": (_at, _text, _longs),
    "server_save_file": (_at, _text),
    "server_load_file": (_at, _text),
    "server_reopen": (_at,),
    "worker_create": (_at, _at, _at),
    "worker_describe": (_at, _at),
    "worker_size": (_at, _text, _at),
    "worker_pull": (_at, _text, _ints, _at, _longs),
    "worker_pull_rows": (_at, _text, _at, _ints, _longs, _ints, _at, _longs),
    "worker_push": (_at, _text, _ints, _at, _longs),
    "worker_push_rows": (_at, _text, _at, _ints, _longs, _ints, _at, _longs),
    "worker_barrier": (_at,),
    "worker_go_on_from": (_at, _longs),
    "worker_stop": (_at,),
    "geo_create": (_at, _text, _at, _at),
    "geo_exchange": (_at,),
    "hash_texts": (_text, _longs, _at, _longs, _at, _at, _longs, _at),
    "hash_integers": (_text, _longs, _at, _ints, _longs, _at),
    "updater_create": (_text, ctypes.c_size_t, _ints, _at),
    "updater_slot_count": (_at, _at),
    "updater_slot": (_at, _longs, _at),
    "updater_slot_size": (_at, _longs, _longs, _longs, _at),
    "updater_initialize": (_at, _at, _at, _longs),
    "updater_initialize_matrix": (_at, _at, _at, _longs, _longs),
    "updater_weights_set": (_at, _at, _at, _longs, _longs),
    "updater_next_step": (_at, _at),
    "updater_clock": (_at, _at),
    "updater_seek": (_at, _at),
    "updater_set_numbers": (_at, _at, _at, _longs),
    "updater_config": (_at, _at, _longs, _at),
    "updater_apply": (_at, _at, _at, _at, _longs),
    "updater_apply_many": (_at, _at, _at, _at, _at, _longs),
    "updater_apply_matrices": (_at, _at, _at, _at, _at, _at, _longs),
    "updater_apply_with": (_at, _at, _at, _at, _at, _at, _longs, _at),
    "updaters_settle": (_at, _at, _at, _at, _at, _longs),
    "global_norm": (_ints, _at, _at, _longs, _at, _at),
    "first_nonfinite": (_ints, _at, _at, _longs, _at, _at, _at),
}


def _declare(library: ctypes.CDLL) -> None:
    """Declares the types of every function. If one is missing, the AttributeError contains its name."""
    for name, arguments in _FUNCTIONS.items():
        function = getattr(library, "gradstep_" + name)
        function.argtypes, function.restype = (*arguments, _at), ctypes.c_int32
    for kind in ("parameter", "table", "updater", "bytes", "server", "worker", "geo"):
        function = getattr(library, f"gradstep_{kind}_release")
        function.argtypes, function.restype = (_at,), None
    library.gradstep_inbox_allocate.argtypes = (_at, _ints, _longs)
    library.gradstep_inbox_allocate.restype = _at
    library.gradstep_simd_level.restype = _text
    library.gradstep_features.restype = ctypes.c_uint64


def _version(library: ctypes.CDLL) -> str:
    library.gradstep_version.restype = _text
    return bytes(library.gradstep_version()).decode()


def _load() -> ctypes.CDLL:
    inside = Path(__file__).with_name("libgradstep.so")
    path = str(inside) if inside.exists() else os.environ.get("GRADSTEP_LIBRARY", "")
    if not path:
        raise ImportError(
            f"gradstep: {inside} does not exist; expected an installed wheel, or the path of a libgradstep.so in the environment "
            "variable GRADSTEP_LIBRARY"
        )
    try:
        library = ctypes.CDLL(path)
        library.gradstep_abi_version.restype = ctypes.c_uint32
        found = divmod(library.gradstep_abi_version(), 65536)
    except (OSError, AttributeError) as what:
        raise ImportError(f"gradstep: {path} cannot be loaded; expected a libgradstep.so for this system: {what}") from what
    if found[0] != ABI[0] or found[1] < ABI[1]:
        raise ImportError(
            f"gradstep: {path} has the ABI {found[0]}.{found[1]}; expected {ABI[0]}.{ABI[1]}, or the same with a larger minor number"
        )
    try:
        _declare(library)
    except AttributeError as what:
        raise ImportError(
            f"gradstep: {path} is version {_version(library)} with the ABI {found[0]}.{found[1]}, and lacks a function; expected "
            f"every function of the ABI {ABI[0]}.{ABI[1]}: {what}"
        ) from what
    return library


library = _load()


def check(status: int, failure: CError, filename: str | None = None) -> None:
    """Raises the error in `failure` if the status is not 0. `filename` becomes the file name of a FileError."""
    if status:
        message = failure.message.decode("utf-8", "replace")
        if status == Status.IO_ERROR:
            raise _file_error(message, failure.system_code, filename)
        known = status in Status._value2member_map_
        raise error(Status(status) if known else Status.INTERNAL_ERROR, message)


def check_created(status: int, failure: CError) -> None:
    """Like `check`, for a constructor that takes numpy arrays, whose dtype is float64 unless the caller gives one."""
    try:
        check(status, failure)
    except NotCompiledError as refused:
        message = str(refused)
        if not message.startswith("float64: "):
            raise
        raise error(refused.code, f"{message}: values.astype(numpy.float32)") from None


def new_error() -> CError:
    """Makes a gradstep_error that functions can write to."""
    return CError(ctypes.sizeof(CError))


def version() -> str:
    """Returns the version of the C library, such as "0.1.0"."""
    return _version(library)


def simd_level() -> str:
    """Returns the instruction set of updates: "sse2", "avx2" (with FMA) or "avx512".

    It is the best that processor and system support, or the one in the environment variable GRADSTEP_SIMD. "" if the variable
    names none that runs here: every constructor then raises an exception that says so.
    """
    return bytes(library.gradstep_simd_level()).decode()
