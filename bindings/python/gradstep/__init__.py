"""Optimizer update rules in one pass over memory: the callers' side of the C library of gradstep.

    import gradstep, numpy

    w = gradstep.Parameter({"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.1}}, numpy.zeros(3))
    w.update(numpy.ones(3))
    print(w.values())

`Parameter`, `Table` and `Model` keep values and state in the library; `Updater` works on memory of the caller's, and
`gradstep.torch` has optimizers for torch. docs/python.md is the manual, docs/configuration_reference.md has every key of a
configuration.
"""

from ._arrays import Array, SupportsDLPack
from ._library import (
    ConfigError,
    DtypeError,
    Error,
    FileError,
    InvalidError,
    NotCompiledError,
    NotFiniteError,
    OutOfMemoryError,
    ReleasedError,
    SequenceError,
    Status,
    simd_level,
    version,
)
from ._parameter import Model, Parameter, Table
from ._shared import Clock, Config, StepOptions, canonical
from ._updater import Slot, Updater

__all__ = [
    "Array",
    "Clock",
    "Config",
    "ConfigError",
    "DtypeError",
    "Error",
    "FileError",
    "InvalidError",
    "Model",
    "NotCompiledError",
    "NotFiniteError",
    "OutOfMemoryError",
    "Parameter",
    "ReleasedError",
    "SequenceError",
    "Slot",
    "Status",
    "StepOptions",
    "SupportsDLPack",
    "Table",
    "Updater",
    "canonical",
    "simd_level",
    "version",
]
