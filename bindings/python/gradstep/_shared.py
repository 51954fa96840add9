"""Shared by parameters and updaters: handles, configurations, clocks and the options of a step."""

from __future__ import annotations

import copyreg
import ctypes
import json
import math
import operator
import os
import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Union

import numpy

from ._hints import did_you_mean
from ._library import (
    GIVEN_EPOCH,
    GIVEN_LOSS,
    GIVEN_RATE,
    CClock,
    CError,
    CSlot,
    CStepOptions,
    InvalidError,
    Status,
    check,
    error,
    library,
    new_error,
)

if TYPE_CHECKING:
    from typing_extensions import Self

Config = Union[str, Mapping[str, Any]]


class Clock(NamedTuple):
    """The progress of a run."""

    step: int = 0  #: the number of steps so far
    samples: int = 0  #: the number of samples so far: the sum of the option `samples` of all steps
    epoch: int = 0  #: the epoch that the option `epoch` has set
    #: what the rule keeps of all steps, such as the running weight of a schedule-free rule; zeros for most rules. To
    #: resume, pass the clock on as it is.
    state: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)


class StepOptions(TypedDict, total=False):
    """Options of a single step. Every option has a default."""

    gradient_scale: float  #: multiplies every gradient as it is read; any finite number, 1 by default
    rate_scale: float  #: multiplies the learning rate; finite and >= 0, 1 by default
    rate: float | None  #: replaces the schedule's learning rate in this step; finite and >= 0; None: use the schedule
    samples: int  #: the number of samples in this step, which is added to the clock; >= 0, 0 by default
    epoch: int | None  #: sets the clock's epoch, from this step on; >= 0; None: unchanged
    zero_gradient: bool  #: sets the gradient to zero after reading it; the array must be writable; False by default
    #: the loss whose gradient the step gets, without loss scaling, for `polyak_sgd`, `momo` and `momo_adam`, which need it;
    #: finite; other rules ignore it
    loss: float | None


_OPTIONS = {
    "gradient_scale": 1.0,
    "rate_scale": 1.0,
    "rate": math.nan,
    "samples": 0,
    "epoch": -1,
    "zero_gradient": 0,
    "loss": math.nan,
}
_GIVEN = {"rate": GIVEN_RATE, "epoch": GIVEN_EPOCH, "loss": GIVEN_LOSS}  # for these, the default means "not given" to the library


def c_options(options: Mapping[str, Any]) -> CStepOptions:
    """Makes the C structure from the given options and the defaults."""
    unknown = options.keys() - _OPTIONS.keys()
    if unknown:
        first = sorted(unknown)[0]
        raise TypeError(
            f"options: {first!r} is no option of a step{did_you_mean(first, _OPTIONS)}; expected one of {', '.join(_OPTIONS)}"
        )
    values = {**_OPTIONS, **options, "zero_gradient": zeroes(options)}
    given = 0
    for name, bit in _GIVEN.items():
        if options.get(name) is None:
            values[name] = _OPTIONS[name]
        else:
            given |= bit
    for name in options:
        if name != "zero_gradient":
            values[name] = (int64 if name in ("samples", "epoch") else real)(values[name], name)
    return CStepOptions(ctypes.sizeof(CStepOptions), 0, **values, given=given)


def zeroes(options: Mapping[str, Any]) -> bool:
    """Whether a step with these options writes into its gradients."""
    return bool(options.get("zero_gradient"))


def integer(number: Any) -> int | None:
    """Converts an integer of Python, numpy or another library to an int; None if it is not an integer, or is a bool."""
    if isinstance(number, (bool, numpy.bool_)):
        return None
    try:
        return operator.index(number)
    except TypeError:
        return None


def int64(number: Any, what: str) -> int:
    """Checks an integer for the library. ctypes would silently keep the lowest 64 bits only."""
    result = integer(number)
    if result is None:
        raise error(Status.UNSUPPORTED_TYPE, f"{what}: {number!r} is a {type(number).__name__}; expected an integer")
    if not -(2**63) <= result < 2**63:
        raise error(Status.BAD_VALUE, f"{what}: is {result}; expected >= -2^63 and < 2^63")
    return result


def real(number: Any, what: str) -> float:
    """Converts a number for the library to a float."""
    if type(number) is float:
        return number
    try:
        if isinstance(number, (bool, str, bytes, bytearray)):
            raise TypeError
        return float(number)
    except TypeError:
        raise error(
            Status.UNSUPPORTED_TYPE, f"{what}: {number!r} is a {type(number).__name__}; expected a number"
        ) from None
    except OverflowError:
        raise error(Status.BAD_VALUE, f"{what}: the number is too large; expected a number that a float holds") from None


def shape_of(shape: Any) -> tuple[int, ...]:
    """Converts a shape to a tuple of integers >= 0. An integer is the length of a vector."""
    is_one = hasattr(shape, "__index__") and getattr(shape, "ndim", 0) == 0
    if isinstance(shape, (str, bytes, bytearray)) or not (is_one or isinstance(shape, (Sequence, numpy.ndarray))):
        raise error(
            Status.UNSUPPORTED_TYPE,
            f"shape: {shape!r} is a {type(shape).__name__}; expected an integer or a tuple of integers",
        )
    numbers = []
    for given in (shape,) if is_one else tuple(shape):
        number = integer(given)
        if number is None:
            raise error(Status.UNSUPPORTED_TYPE, f"shape: {shape!r} has a {type(given).__name__}; expected integers")
        numbers.append(number)
    result = tuple(numbers)
    if any(number < 0 for number in result):
        raise error(Status.BAD_SIZE, f"shape: {result} has a negative number; expected numbers >= 0")
    if math.prod(result) >= 2**63 or max(result, default=0) >= 2**63:
        raise error(Status.BAD_SIZE, f"shape: {result} has 2^63 elements or more; expected fewer")
    return result


def path_bytes(path: str | bytes | os.PathLike[str]) -> bytes:
    """Encodes a path for the library, which reads a string up to its first NUL."""
    try:
        result = os.fsencode(path)
    except TypeError:
        raise error(
            Status.UNSUPPORTED_TYPE,
            f"path: {path!r} is a {type(path).__name__}; expected a str, bytes or an os.PathLike",
        ) from None
    except UnicodeEncodeError as reason:
        raise error(
            Status.BAD_VALUE, f"path: {path!r} cannot be encoded ({reason.reason}); expected the name of a file"
        ) from None
    if b"\0" in result:
        raise error(Status.BAD_VALUE, f"path: {path!r} contains NUL; expected the name of a file")
    return result


def check_name(name: Any, what: str = "name") -> None:
    """Raises if the library cannot represent the name of a parameter."""
    if not isinstance(name, str):
        raise error(Status.UNSUPPORTED_TYPE, f"{what}: {name!r} is a {type(name).__name__}; expected a str")
    if "\0" in name:
        raise error(Status.BAD_VALUE, f"{what}: {name!r} contains NUL; expected a text without it")
    try:
        name.encode()
    except UnicodeEncodeError as reason:
        raise error(Status.BAD_VALUE, f"{what}: {name!r} cannot be encoded ({reason.reason}); expected Unicode text") from None


def options_address(options: Mapping[str, Any]) -> Any:
    """The options as an argument of a C function: a reference, or None if there are none."""
    return ctypes.byref(c_options(options)) if options else None


INFINITY = "infinity"  # JSON has no number for it
MINUS_INFINITY = "-infinity"


def plain(value: Any, where: str = "config") -> Any:
    """Converts a value of a configuration to types that JSON can represent. Infinities become the strings INFINITY
    and MINUS_INFINITY."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        if not value.isascii():
            _encoded(value, where)
        return str.__str__(value)
    if isinstance(value, Mapping):
        result = {}
        for key, of_key in value.items():
            if not isinstance(key, str):
                raise error(
                    Status.BAD_CONFIG, f"{where}: the key {key!r} is a {type(key).__name__}; expected a str"
                )
            _encoded(key, where)
            result[str.__str__(key)] = plain(of_key, key if where == "config" else f"{where}.{key}")
        return result
    if isinstance(value, numpy.ndarray) or (isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray))):
        if isinstance(value, numpy.ndarray) and value.ndim == 0:
            return plain(value[()], where)
        return [plain(each, f"{where}[{number}]") for number, each in enumerate(value)]
    if isinstance(value, numpy.bool_):
        return bool(value)
    if isinstance(value, (float, numpy.floating)):
        number = float(value)
        if math.isnan(number):
            raise error(Status.BAD_CONFIG, f"{where}: {number} is not a number of JSON; expected a finite number")
        if (number == 0 and value != 0) or math.isinf(number) != bool(numpy.isinf(value)):  # of numpy.longdouble
            raise error(Status.BAD_CONFIG, f"{where}: no float holds {value!r}; expected a finite number")
        if math.isinf(number):
            return INFINITY if number > 0 else MINUS_INFINITY
        return number
    if hasattr(value, "tolist") and not isinstance(value, numpy.generic):  # numbers and arrays of torch
        return plain(value.tolist(), where)
    whole = integer(value)
    if whole is not None:
        if abs(whole) >= 2**1024:
            raise error(Status.BAD_CONFIG, f"{where}: the integer has {whole.bit_length()} bits; expected fewer than 1024")
        return whole
    raise error(
        Status.BAD_CONFIG,
        f"{where}: {value!r} is a {type(value).__name__}; expected a number, a str, a bool, a list or a dict",
    )


def _encoded(text: str, where: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as reason:
        raise error(
            Status.BAD_CONFIG, f"{where}: {text!r} cannot be encoded ({reason.reason}); expected Unicode text"
        ) from None


def config_bytes(config: Config) -> bytes:
    """Encodes a configuration, a dict or a str, as JSON."""
    if isinstance(config, str):
        if re.fullmatch(r"[A-Za-z]\w*", config) and config not in ("null", "true", "false"):
            raise error(
                Status.BAD_CONFIG,
                f"config: {config!r} is not JSON; expected a dict, as gradstep.adam(lr=1e-3) makes, or a str of JSON",
            )
        return _encoded(config, "config")
    if not isinstance(config, Mapping):
        raise error(Status.BAD_CONFIG, f"config: is a {type(config).__name__}; expected a dict, or a str of JSON")
    try:
        return json.dumps(plain(config), allow_nan=False).encode()
    except RecursionError:
        raise error(Status.BAD_CONFIG, "config: contains itself, or is nested too deeply; expected a plain dict") from None


def text_of(call: Callable[[Any, int, Any], object]) -> str:
    """Calls a function twice: for the length of its text, then for the text."""
    written = ctypes.c_uint64()
    call(None, 0, ctypes.byref(written))
    buffer = ctypes.create_string_buffer(written.value + 32)  # another thread can add rows, and digits of their number
    call(buffer, len(buffer), ctypes.byref(written))
    return buffer.raw[: written.value].decode()


def canonical(config: Config) -> dict[str, Any]:
    """Returns the complete configuration, as the library reads it, with every default filled in.

    config: a dict, or a str of JSON.

    Raises `ConfigError` if the configuration is invalid. The message contains the path of the key.
    """
    text, failure = config_bytes(config), new_error()

    def call(buffer: Any, size: int, written: Any) -> int:
        status = library.gradstep_config_canonical(text, len(text), buffer, size, written, ctypes.byref(failure))
        if buffer is not None or status != Status.BAD_SIZE:
            check(status, failure)
        return int(status)

    result: dict[str, Any] = json.loads(text_of(call))
    return result


def check_change(before: Config, now: Config) -> None:
    """Raises `ConfigError` if state of the configuration `before` cannot be used with `now`.

    The numbers that must be the same in all steps, such as initial values, must be equal.
    """
    old, new, failure = config_bytes(before), config_bytes(now), new_error()
    check(library.gradstep_config_check_change(old, len(old), new, len(new), ctypes.byref(failure)), failure)


class Handle:
    """Owns an object of the library. It is released with the last reference to the handle. What is left when the program ends goes
    with it: a daemon thread can still be in a call."""

    def __init__(self, address: int, release: Callable[[int], None]) -> None:
        self.address = address
        weakref.finalize(self, release, address).atexit = False

    def __reduce_ex__(self, _: object) -> Any:
        raise TypeError("Handle: a handle of the library is not copied; expected a copy of the object that has it")


class LentHandle(Handle):
    """An object of the library that belongs to another one, whose handle it keeps."""

    def __init__(self, address: int, owner: Handle) -> None:
        self.address = address
        self._owner = owner


def attributes_of(instance: Any) -> dict[str, Any]:
    """The attributes that subclasses and users added to an instance."""
    slots: list[str] = copyreg._slotnames(type(instance))  # type: ignore[attr-defined]
    found = {name: getattr(instance, name) for name in slots if hasattr(instance, name)}
    found.update(vars(instance))
    return {name: value for name, value in found.items() if name not in instance._members}


class Owner:
    """Owns one handle. Objects are not thread-safe; different objects can be used from different threads.

    A copy has its own handle. Copies and pickles contain the configuration and the state, by `_saved` and `_restore`, and the
    attributes that subclasses and users add. `_members` names all other attributes.
    """

    _kind = ""  # KIND in the names of functions: gradstep_KIND_...
    _members = frozenset({"_owned", "_handle", "_failure", "_failure_at"})

    def __init__(self, address: int) -> None:
        self._take(Handle(address, getattr(library, f"gradstep_{self._kind}_release")))

    def _take(self, handle: Handle) -> None:
        self._owned: Handle | None = handle
        self._handle: int | None = handle.address  # a copy, for a fast access in every step
        self._failure = new_error()
        self._failure_at = ctypes.addressof(self._failure)

    def _saved(self) -> dict[str, Any]:
        raise NotImplementedError

    def _restore(self, saved: dict[str, Any]) -> None:
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        return {**self._saved(), "attributes": attributes_of(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._restore(state)
        for name, value in state.get("attributes", {}).items():
            setattr(self, name, value)

    def _fail(self, status: int, failure: CError | None = None) -> None:
        if self._handle is None:
            raise error(Status.BAD_HANDLE, f"handle: this {type(self).__name__} has been released; expected one that is open")
        check(status, failure or self._failure)

    def _call(self, function: str, *arguments: Any) -> None:
        """Calls gradstep_KIND_FUNCTION with this handle."""
        status = getattr(library, f"gradstep_{self._kind}_{function}")(self._handle, *arguments, self._failure_at)
        if status:
            self._fail(status)

    def _described_slots(self) -> list[CSlot]:
        """The slots of the state of an updater or a keyed table."""
        number = ctypes.c_uint64()
        self._call("slot_count", ctypes.byref(number))
        slots = [CSlot(ctypes.sizeof(CSlot)) for _ in range(number.value)]
        for index, slot in enumerate(slots):
            self._call("slot", index, ctypes.byref(slot))
        return slots

    def release(self) -> None:
        """Releases the memory now, before the object is garbage-collected.

        All later calls raise `ReleasedError`, except that you can call `release` again.
        """
        self._handle = None
        self._owned = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def config(self) -> dict[str, Any]:
        """The complete configuration, with every default filled in."""
        result: dict[str, Any] = json.loads(self._config_text())
        return result

    def _config_text(self) -> str:
        def call(buffer: Any, size: int, written: Any) -> None:
            try:
                self._call("config", buffer, size, written)
            except InvalidError as refused:
                if buffer is not None or refused.code != Status.BAD_SIZE:
                    raise

        return text_of(call)

    def _rule_name(self) -> str:
        return str(json.loads(self._config_text())["rule"]["name"])

    @property
    def clock(self) -> Clock:
        """The progress of the run: steps, samples, epoch, and what the rule keeps of all steps."""
        clock = CClock(ctypes.sizeof(CClock))
        self._call("clock", ctypes.byref(clock))
        return Clock(clock.step, clock.samples, clock.epoch, tuple(clock.state))

    def seek(self, clock: Clock) -> None:
        """Sets the clock to the progress of a run. Values and state do not change.

        Raises `SequenceError` if the configuration has "catch_up": "exact" or "replay"; use `load_state` instead. Raises
        `InvalidError` if the clock lacks the state that a schedule-free rule keeps in it.
        """
        if not isinstance(clock, tuple) or not 1 <= len(clock) <= len(Clock._fields):
            raise TypeError(f"seek: clock is a {type(clock).__name__}; expected a gradstep.Clock, such as Clock(step=100)")
        *counts, state = Clock(*clock)
        at = [int64(number, name) for name, number in zip(Clock._fields, counts)]
        numbers = [real(x, "state") for x in state]
        if len(numbers) != len(Clock().state):
            raise error(Status.BAD_VALUE, f"state: has {len(numbers)} numbers; expected {len(Clock().state)}")
        self._call("seek", ctypes.byref(CClock(ctypes.sizeof(CClock), 0, *at, tuple(numbers))))

    def set_numbers(self, numbers: Mapping[str, float]) -> None:
        """Changes hyperparameters from the next step on, and keeps values, state and clock.

            w.set_numbers({"rule.beta1": 0.85, "regularizer.rate": 0.01})

        numbers: the new value of each path in the configuration. Error messages use the same paths.

        All numbers are checked before any is changed. Raises `ConfigError` if one is out of range, or must be the same in all steps
        (such as an initial value), and `SequenceError` if inactive rows have a history of steps ("catch_up": "exact" or "replay").
        """
        n = len(numbers)
        for path in numbers:
            if not isinstance(path, str):
                raise error(
                    Status.BAD_CONFIG, f"numbers: the key {path!r} is a {type(path).__name__}; expected a path like 'rule.beta1'"
                )
            if "\0" in path:
                raise error(Status.BAD_CONFIG, f"numbers: {path!r} has a byte 0 in it; expected a path like 'rule.beta1'")
        paths = (ctypes.c_char_p * n)(*(_encoded(path, "numbers") for path in numbers))
        values = (ctypes.c_double * n)(*(real(number, path) for path, number in numbers.items()))
        self._call("set_numbers", paths, values, n)
