"""Optimizers of torch for tensors on the CPU: `gradstep.torch.AdamW(model.parameters())` is a drop-in
replacement for `torch.optim.AdamW`.

The classes have torch's arguments, defaults and checks, `param_groups`, `state_dict` with torch's names, closures and hooks, and
work with every `torch.optim.lr_scheduler`. Parameters are of float, double, bfloat16 or float16, or complex; the state of 16-bit
parameters is float, where torch's is of 16 bits. Tensors of all groups that have the same options, rate and dtype are updated by
one call of the library, on torch's number of threads.
"""

from ._classes import SGD, Adagrad, Adam, AdamW, RMSprop, SparseAdam
from ._memory import StateError
from ._more import ASGD, Adadelta, Adamax, NAdam, RAdam
from ._optimizer import Optimizer

__all__ = [
    "ASGD",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "SparseAdam",
    "StateError",
]
