# Written by bindings/python/write_constructors.py from docs/reference/configuration.schema.json.
"""Configurations by the names of other frameworks: `gradstep.dialects.keras.adam(lr=1e-3)`."""

from .._hints import attributes_of_module
from . import bert, deepspeed, dlib, dynamicemb, ensmallen, fbgemm, keras, mlx, optax, paddle, tensorflow, timm, torch

__all__ = ["bert", "deepspeed", "dlib", "dynamicemb", "ensmallen", "fbgemm", "keras", "mlx", "optax", "paddle", "tensorflow", "timm", "torch"]

for _module in bert, deepspeed, dlib, dynamicemb, ensmallen, fbgemm, keras, mlx, optax, paddle, tensorflow, timm, torch:
    setattr(_module, "__getattr__", attributes_of_module(_module.__name__, _module.__all__))
