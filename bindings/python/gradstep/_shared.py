"""What parameters and updaters have in common: handles, configurations, clocks and options of a step."""

from __future__ import annotations

import ctypes
import json
import math
import operator
import weakref
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypedDict, Union

from ._library import GIVEN_EPOCH, GIVEN_RATE, CClock, CStepOptions, Status, check, error, library, new_error

Config = Union[str, Mapping[str, Any]]


class Clock(NamedTuple):
    """Where a run stands: the steps so far, the samples that they have seen, and the epoch."""

    step: int = 0
    samples: int = 0
    epoch: int = 0


class StepOptions(TypedDict, total=False):
    """Options for a single step; one that is left out has its default, and so has a `rate` or an `epoch` of None."""

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
    for name in ("samples", "epoch"):
        values[name] = int64(values[name], name)
    return CStepOptions(ctypes.sizeof(CStepOptions), 0, **values, given=given)


def zeroes(options: Mapping[str, Any]) -> bool:
    """Whether a step with these options writes into its gradients."""
    return bool(options.get("zero_gradient"))


def int64(number: Any, what: str) -> int:
    """An integer for the library, of which ctypes would take the lowest 64 bits without a word."""
    result = operator.index(number)
    if not -(2**63) <= result < 2**63:
        raise error(Status.BAD_VALUE, f"{what}: is {result}: must be >= -2^63 and < 2^63")
    return result


def options_address(options: Mapping[str, Any]) -> Any:
    """What a function takes for options: a reference, or None for no options."""
    return ctypes.byref(c_options(options)) if options else None


def config_bytes(config: Config) -> bytes:
    """The text of a configuration that is a dict or a str."""
    if isinstance(config, str):
        return config.encode()
    if not isinstance(config, Mapping):
        raise error(Status.BAD_CONFIG, f"config: is a {type(config).__name__}: must be a dict, or a str of JSON")
    try:
        return json.dumps(dict(config), allow_nan=False).encode()
    except (TypeError, ValueError) as reason:
        raise error(Status.BAD_CONFIG, f"config: {reason}") from reason


def text_of(call: Callable[[Any, int, Any], int]) -> str:
    """What a function writes into a buffer, of which it first says how long it has to be."""
    written = ctypes.c_uint64()
    call(None, 0, ctypes.byref(written))
    buffer = ctypes.create_string_buffer(written.value + 1)
    call(buffer, len(buffer), ctypes.byref(written))
    return buffer.raw[: written.value].decode()


def canonical(config: Config) -> dict[str, Any]:
    """The configuration as the library understands it: complete, with every default. A ConfigError says what is wrong."""
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


class Owner:
    """Has one handle. It is used by one thread at a time; different ones by different threads."""

    _kind = ""  # of functions: gradstep_KIND_...

    def __init__(self, address: int) -> None:
        self._owned: Handle | None = Handle(address, getattr(library, f"gradstep_{self._kind}_release"))
        self._handle: int | None = address  # at hand for the steps
        self._failure = new_error()
        self._failure_at = ctypes.addressof(self._failure)

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
        """Gives the memory back now, and not when the object goes; then it can do nothing more. Twice is fine."""
        self._handle = None
        self._owned = None

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def config(self) -> dict[str, Any]:
        """The configuration, complete, with every default."""
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

    @property
    def clock(self) -> Clock:
        """Where the run stands."""
        clock = CClock(ctypes.sizeof(CClock))
        self._call("clock", ctypes.byref(clock))
        return Clock(clock.step, clock.samples, clock.epoch)

    def seek(self, clock: Clock) -> None:
        """Puts the clock to where a run stood."""
        at = [int64(number, name) for name, number in Clock(*clock)._asdict().items()]
        self._call("seek", ctypes.byref(CClock(ctypes.sizeof(CClock), 0, *at)))

    def set_numbers(self, numbers: Mapping[str, float]) -> None:
        """Changes numbers of the configuration from the next step on, by their paths as errors name them, and keeps the state:

            updater.set_numbers({"rule.beta1": 0.85, "regularizer.rate": 0.01})

        All are checked before any is changed.
        """
        n = len(numbers)
        for path in numbers:
            if "\0" in path:
                raise error(Status.BAD_CONFIG, f"{path!r} has a byte 0 in it; expected a path like 'rule.beta1'")
        paths = (ctypes.c_char_p * n)(*(path.encode() for path in numbers))
        self._call("set_numbers", paths, (ctypes.c_double * n)(*numbers.values()), n)
