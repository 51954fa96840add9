"""What parameters and updaters have in common: handles, configurations, clocks and options of a step."""

from __future__ import annotations

import copyreg
import ctypes
import json
import math
import operator
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Union

import numpy

from ._library import GIVEN_EPOCH, GIVEN_RATE, CClock, CStepOptions, Status, check, error, library, new_error

if TYPE_CHECKING:
    from typing_extensions import Self

Config = Union[str, Mapping[str, Any]]


class Clock(NamedTuple):
    """The progress of a run: the number of steps and of samples so far, and the epoch."""

    step: int = 0
    samples: int = 0
    epoch: int = 0


class StepOptions(TypedDict, total=False):
    """Options for a single step. An option that you leave out has its default, as has a `rate` or an `epoch` of None."""

    gradient_scale: float  #: multiplies every gradient as it is read; 1
    rate_scale: float  #: multiplies the learning rate, >= 0; 1
    rate: float | None  #: the learning rate of this step, >= 0, instead of what the schedule says
    samples: int  #: that this step has seen; the clock advances by it
    epoch: int | None  #: of the clock, from this step on; >= 0
    zero_gradient: bool  #: sets the gradient to zero as soon as it is read


_OPTIONS = {"gradient_scale": 1.0, "rate_scale": 1.0, "rate": math.nan, "samples": 0, "epoch": -1, "zero_gradient": 0}
_GIVEN = {"rate": GIVEN_RATE, "epoch": GIVEN_EPOCH}  # there the default is what the library takes for "not given"


def c_options(options: Mapping[str, Any]) -> CStepOptions:
    """The structure of C, with those that are given."""
    unknown = options.keys() - _OPTIONS.keys()
    if unknown:
        raise TypeError(f"{sorted(unknown)[0]!r} is no option of a step: there is {', '.join(_OPTIONS)}")
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
    """An integer of Python, of numpy or of another library as Python's; None for anything else, bool too."""
    if isinstance(number, (bool, numpy.bool_)):
        return None
    try:
        return operator.index(number)
    except TypeError:
        return None


def int64(number: Any, what: str) -> int:
    """An integer for the library, of which ctypes would take the lowest 64 bits without a word."""
    result = integer(number)
    if result is None:
        raise error(Status.UNSUPPORTED_TYPE, f"{what}: {number!r} is a {type(number).__name__}; expected an integer")
    if not -(2**63) <= result < 2**63:
        raise error(Status.BAD_VALUE, f"{what}: is {result}; expected >= -2^63 and < 2^63")
    return result


def real(number: Any, what: str) -> float:
    """A number for the library as a float."""
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
    """A shape as a tuple of integers >= 0; one integer is the length of a vector."""
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
    """A path for the library, which ends a text at its first NUL."""
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
    """Raises for a name of a parameter that the library cannot take."""
    if not isinstance(name, str):
        raise error(Status.UNSUPPORTED_TYPE, f"{what}: {name!r} is a {type(name).__name__}; expected a str")
    if "\0" in name:
        raise error(Status.BAD_VALUE, f"{what}: {name!r} contains NUL; expected a text without it")
    try:
        name.encode()
    except UnicodeEncodeError as reason:
        raise error(Status.BAD_VALUE, f"{what}: {name!r} cannot be encoded ({reason.reason}); expected Unicode text") from None


def options_address(options: Mapping[str, Any]) -> Any:
    """What a function takes for options: a reference, or None for no options."""
    return ctypes.byref(c_options(options)) if options else None


INFINITY = "infinity"  # the word of a configuration for it, since JSON has no number


def plain(value: Any, where: str = "config") -> Any:
    """A value of a configuration as JSON has it: numbers of numpy become Python's, infinity becomes its word."""
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
        if math.isnan(number) or number == -math.inf:
            raise error(Status.BAD_CONFIG, f"{where}: {number} is not a number of JSON; expected a finite number")
        if (number == 0 and value != 0) or math.isinf(number) != bool(numpy.isinf(value)):  # of numpy.longdouble
            raise error(Status.BAD_CONFIG, f"{where}: no float holds {value!r}; expected a finite number")
        return INFINITY if math.isinf(number) else number
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
    """The text of a configuration that is a dict or a str."""
    if isinstance(config, str):
        return _encoded(config, "config")
    if not isinstance(config, Mapping):
        raise error(Status.BAD_CONFIG, f"config: is a {type(config).__name__}; expected a dict, or a str of JSON")
    try:
        return json.dumps(plain(config), allow_nan=False).encode()
    except RecursionError:
        raise error(Status.BAD_CONFIG, "config: contains itself, or is nested too deeply; expected a plain dict") from None


def text_of(call: Callable[[Any, int, Any], int]) -> str:
    """What a function writes into a buffer, of which it first says how long it has to be."""
    written = ctypes.c_uint64()
    call(None, 0, ctypes.byref(written))
    buffer = ctypes.create_string_buffer(written.value + 1)
    call(buffer, len(buffer), ctypes.byref(written))
    return buffer.raw[: written.value].decode()


def canonical(config: Config) -> dict[str, Any]:
    """Returns the configuration as the library reads it, with all defaults. Raises ConfigError if it is invalid."""
    text, failure = config_bytes(config), new_error()

    def call(buffer: Any, size: int, written: Any) -> int:
        status = library.gradstep_config_canonical(text, len(text), buffer, size, written, ctypes.byref(failure))
        if buffer is not None or status != Status.BAD_SIZE:
            check(status, failure)
        return int(status)

    result: dict[str, Any] = json.loads(text_of(call))
    return result


class Handle:
    """An object of the library, which goes with the last that refers to it, or at the end of the program."""

    def __init__(self, address: int, release: Callable[[int], None]) -> None:
        self.address = address
        weakref.finalize(self, release, address)

    def __reduce_ex__(self, _: object) -> Any:
        raise TypeError("a handle of the library is not copied; expected a copy of the object that has it")


def attributes_of(instance: Any) -> dict[str, Any]:
    """What an instance has beside the members of its class here: the attributes of a subclass, and those that users set."""
    slots: list[str] = copyreg._slotnames(type(instance))  # type: ignore[attr-defined]
    found = {name: getattr(instance, name) for name in slots if hasattr(instance, name)}
    found.update(vars(instance))
    return {name: value for name, value in found.items() if name not in instance._members}


class Owner:
    """Has one handle. It is used by one thread at a time; different ones by different threads.

    A copy has a handle of its own: copies and pickles are made of the configuration and the state, by `_saved` and `_restore`, and of
    the attributes that subclasses and users add. `_members` are all others.
    """

    _kind = ""  # of functions: gradstep_KIND_...
    _members = frozenset({"_owned", "_handle", "_failure", "_failure_at"})

    def __init__(self, address: int) -> None:
        self._owned: Handle | None = Handle(address, getattr(library, f"gradstep_{self._kind}_release"))
        self._handle: int | None = address  # at hand for the steps
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

    def _fail(self, status: int) -> None:
        if self._handle is None:
            raise error(Status.BAD_HANDLE, f"this {type(self).__name__} has been released")
        check(status, self._failure)

    def _call(self, function: str, *arguments: Any) -> None:
        """gradstep_KIND_FUNCTION of this handle."""
        status = getattr(library, f"gradstep_{self._kind}_{function}")(self._handle, *arguments, self._failure_at)
        if status:
            self._fail(status)

    def release(self) -> None:
        """Frees the memory now. Afterwards every other call raises ReleasedError. You can call it twice."""
        self._handle = None
        self._owned = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def config(self) -> dict[str, Any]:
        """The complete configuration, with all defaults."""
        result: dict[str, Any] = json.loads(self._config_text())
        return result

    def _config_text(self) -> str:
        def call(buffer: Any, size: int, written: Any) -> int:
            status = getattr(library, f"gradstep_{self._kind}_config")(
                self._handle, buffer, size, written, self._failure_at
            )
            if status and (buffer is not None or status != Status.BAD_SIZE):
                self._fail(status)
            return int(status)

        return text_of(call)

    def _rule_name(self) -> str:
        return str(json.loads(self._config_text())["rule"]["name"])

    @property
    def clock(self) -> Clock:
        """The steps, samples and epoch so far."""
        clock = CClock(ctypes.sizeof(CClock))
        self._call("clock", ctypes.byref(clock))
        return Clock(clock.step, clock.samples, clock.epoch)

    def seek(self, clock: Clock) -> None:
        """Sets the clock, for example to the clock of a saved run."""
        at = [int64(number, name) for name, number in Clock(*clock)._asdict().items()]
        self._call("seek", ctypes.byref(CClock(ctypes.sizeof(CClock), 0, *at)))

    def set_numbers(self, numbers: Mapping[str, float]) -> None:
        """Changes hyperparameters from the next step on and keeps the state. The keys are the paths that errors name:

            w.set_numbers({"rule.beta1": 0.85, "regularizer.rate": 0.01})

        All numbers are checked before any of them changes.
        """
        n = len(numbers)
        for path in numbers:
            if not isinstance(path, str):
                raise error(
                    Status.BAD_CONFIG, f"the key {path!r} is a {type(path).__name__}; expected a path like 'rule.beta1'"
                )
            if "\0" in path:
                raise error(Status.BAD_CONFIG, f"{path!r} has a byte 0 in it; expected a path like 'rule.beta1'")
        paths = (ctypes.c_char_p * n)(*(_encoded(path, "numbers") for path in numbers))
        values = (ctypes.c_double * n)(*(real(number, path) for path, number in numbers.items()))
        self._call("set_numbers", paths, values, n)
