"""Drop-in replacements for torch's optimizers and embeddings on the CPU, such as `gradstep.torch.AdamW` for `torch.optim.AdamW`.

The classes have torch's arguments, defaults, checks, `param_groups`, closures and hooks. They work with every
`torch.optim.lr_scheduler`, and a `state_dict` has torch's names. Parameters can be float32, float64, bfloat16, float16 or complex.
The state of 16-bit parameters is float32, while torch's is 16-bit.

`Embedding`, `EmbeddingBag` and `KeyedEmbeddingBag` replace torch's modules. Their rows are in a table, and backward updates it.

One call of the library updates all tensors with the same options, learning rate and dtype, on torch's number of threads.
"""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as reason:
    if reason.name == "torch":
        raise ModuleNotFoundError("gradstep.torch needs torch 2.2 or newer; pip install torch", name="torch") from None
    raise

from typing import TYPE_CHECKING

from .._hints import attributes_of_module
from ._classes import SGD, Adagrad, Adam, AdamW, RMSprop, SparseAdam
from ._embedding import Embedding, EmbeddingBag, KeyedEmbeddingBag, TableOptimizer
from ._memory import StateError
from ._more import ASGD, Adadelta, Adafactor, Adamax, Muon, NAdam, RAdam
from ._optimizer import Optimizer

__all__ = [
    "ASGD",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Embedding",
    "EmbeddingBag",
    "KeyedEmbeddingBag",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "SparseAdam",
    "StateError",
    "TableOptimizer",
]

if not TYPE_CHECKING:
    __getattr__ = attributes_of_module(__name__, __all__)
