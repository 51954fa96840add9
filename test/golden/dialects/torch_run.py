"""What the scripts of optimizers for torch share, besides common.py."""

import importlib.util
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from common import Case, State


def import_without_init(package: str, *subpackages: str) -> None:
    """Lets files of a package be imported without its __init__.py, whose dependencies are not installed."""
    folder = Path(importlib.util.find_spec(package).origin).parent
    for name, path in ((package, folder), *((f"{package}.{x}", folder / x) for x in subpackages)):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [str(path)]


def steps(
    optimizer: torch.optim.Optimizer, weight: torch.nn.Parameter, case: Case, gradients: np.ndarray, state: Callable[[], State]
) -> Iterator[State]:
    """The state before the first step and after each step."""
    yield state()
    for rate, gradient in zip(case.rates(), gradients, strict=True):
        optimizer.param_groups[0]["lr"] = rate
        weight.grad = torch.from_numpy(gradient.copy())
        optimizer.step()
        yield state()
