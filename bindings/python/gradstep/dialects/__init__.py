# Written by bindings/python/write_constructors.py from docs/reference/configuration.schema.json.
"""Configurations by the names of other frameworks: `gradstep.dialects.keras.adam(lr=1e-3)`."""

from . import dlib, dynamicemb, ensmallen, fbgemm, keras, optax, paddle, tensorflow, torch

__all__ = ["dlib", "dynamicemb", "ensmallen", "fbgemm", "keras", "optax", "paddle", "tensorflow", "torch"]
