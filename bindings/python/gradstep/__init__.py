"""gradstep for Python: fused optimizer steps (clip, decay, update, average, cast) in one pass over memory.

    import gradstep, numpy

    w = gradstep.Parameter(gradstep.adam(lr=0.1), numpy.zeros(3))
    w.update(numpy.ones(3))
    print(w.values())

- `Parameter`, `Table`, `KeyedTable` and `Model` keep values and state in the library.
- `Server` and `Worker` train parameters and tables on several machines, with `gradstep.mpi` over MPI.
- `Updater` updates values and state in your own arrays.
- `gradstep.sparse` passes sparse matrices and columns of a CSV file to tables.
- `gradstep.torch` contains drop-in replacements for torch's optimizers.
- `gradstep.adam` and the other rules make configurations. `schedules`, `regularizers`, `averages` and `clips` make their parts.

The guides are docs/how_to/python.md and docs/how_to/pytorch.md. docs/reference/configuration_keys.md lists every key of a
configuration.
"""

from typing import TYPE_CHECKING

from . import averages, clips, regularizers, rules, schedules, sparse
from ._arrays import Array, Ids, SupportsDLPack
from ._constructors import Options, Policy
from ._hash import hash_texts
from ._hints import attributes_of_module
from ._library import (
    ConfigError,
    DtypeError,
    Error,
    FileError,
    InvalidError,
    NotCompiledError,
    NotFiniteError,
    OutOfMemoryError,
    OutOfRangeError,
    RankError,
    ReleasedError,
    SequenceError,
    Status,
    simd_level,
    version,
)
from ._parameter import KeyCounts, KeyedRow, KeyedTable, LoadReport, Model, Parameter, Table, file_names
from ._server import Geo, Message, Server, Transport, Worker
from ._shared import Clock, Config, StepOptions, canonical
from ._updater import Slot, Updater, first_nonfinite, global_norm
from .rules import *  # noqa: F403

__version__ = "0.1.0"  # also the version of the library in the wheel

__all__ = [
    "Array",
    "Clock",
    "Config",
    "ConfigError",
    "DtypeError",
    "Error",
    "FileError",
    "Geo",
    "Ids",
    "InvalidError",
    "KeyCounts",
    "KeyedRow",
    "KeyedTable",
    "LoadReport",
    "Message",
    "Model",
    "NotCompiledError",
    "NotFiniteError",
    "Options",
    "OutOfMemoryError",
    "OutOfRangeError",
    "Parameter",
    "Policy",
    "RankError",
    "ReleasedError",
    "SequenceError",
    "Server",
    "Slot",
    "Status",
    "StepOptions",
    "SupportsDLPack",
    "Table",
    "Transport",
    "Updater",
    "Worker",
    "averages",
    "canonical",
    "clips",
    "file_names",
    "first_nonfinite",
    "global_norm",
    "hash_texts",
    "regularizers",
    "rules",
    "schedules",
    "simd_level",
    "sparse",
    "version",
]
__all__ += rules.__all__

if not TYPE_CHECKING:  # type checkers would take any name for one of the package
    _hints = {"adamw": "it is adam with regularizer=gradstep.regularizers.decoupled(0.01), or gradstep.dialects.torch.adamw"}
    __getattr__ = attributes_of_module(__name__, __all__, _hints)
    setattr(rules, "__getattr__", attributes_of_module(rules.__name__, rules.__all__, _hints))
    for _module in averages, clips, regularizers, schedules, sparse:
        setattr(_module, "__getattr__", attributes_of_module(_module.__name__, _module.__all__))
