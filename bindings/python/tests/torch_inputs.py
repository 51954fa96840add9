"""gradstep.torch on the inputs of torch's own tests (torch.testing._internal.common_optimizers): `./dev test python-torch` runs it.

Every OptimizerInput of a class, with each implementation that torch has on the CPU (for loop, foreach, fused), each dtype, and
parameters of many layouts takes some steps by the class of this package, and is compared with torch's for loop on contiguous
parameters of double or complex double. A case that ours does not pass is a failure if torch's class, run the same way, passes it.
"""

from __future__ import annotations

import argparse
import collections
import copy
import functools
import sys
import types
import unittest
import warnings
from collections.abc import Callable, Iterator
from typing import Any

try:
    import expecttest  # noqa: F401
except ImportError:  # torch's tests need one name of it
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase = unittest.TestCase  # type: ignore[attr-defined]

import torch

import gradstep.torch

warnings.simplefilter("ignore")
torch.set_num_threads(1)

STEPS = 4
# How far weights of about 1 may be from the reference after STEPS steps: torch rounds its state to the dtype, ours is wider.
TOLERANCE = {
    torch.float64: 1e-9,
    torch.float32: 2e-5,
    torch.complex128: 1e-9,
    torch.complex64: 2e-5,
    torch.bfloat16: 0.1,
    torch.float16: 0.02,
}
# torch keeps the product of NAdam's momenta in float32, which is a relative error of 1e-7 in a step of 0.05 at most.
TOLERANCE_OF_NADAM = 4 * 1e-7 * 0.05
REAL = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
COMPLEX = [torch.complex64, torch.complex128]


@functools.lru_cache(maxsize=None)
def drawn(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Of magnitudes in [0.5, 1] and both signs, the same in every dtype up to rounding."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    result = (torch.rand(shape, generator=generator, dtype=torch.float64) + 1) / 2
    result *= torch.randint(2, shape, generator=generator) * 2 - 1
    if dtype.is_complex:
        return torch.complex(result, result.flip(0) if shape else -result).to(dtype)
    return result.to(dtype)


def numbers(*shape: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    return drawn(shape, dtype, seed).clone()


def leaf(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().requires_grad_()


def contiguous(dtype: torch.dtype) -> list[torch.Tensor]:
    return [leaf(numbers(3, 4, dtype=dtype)), leaf(numbers(5, dtype=dtype, seed=1))]


def of_layout(make: Callable[[torch.Tensor], torch.Tensor], *shape: int) -> Callable[[torch.dtype], list[torch.Tensor]]:
    return lambda dtype: [leaf(make(numbers(*shape, dtype=dtype, seed=i))) for i in range(2)]


LAYOUTS: dict[str, Callable[[torch.dtype], list[torch.Tensor]]] = {
    "contiguous": contiguous,
    "transposed": of_layout(lambda x: x.t().contiguous().t(), 3, 4),
    "channels_last": of_layout(lambda x: x.contiguous(memory_format=torch.channels_last), 2, 3, 4, 2),
    "a column, w[..., 0]": of_layout(lambda x: torch.stack([x, x], -1)[..., 0], 3, 4),
    "every second, w[::2]": of_layout(lambda x: torch.repeat_interleave(x, 2, 0)[::2], 5),
    "part of a row": of_layout(lambda x: torch.cat([x, x], 1)[:, : x.shape[1]], 3, 4),
    "of one number": of_layout(lambda x: x),
    "empty": of_layout(lambda x: x, 0),
    "expanded gradient": contiguous,
    "one without a gradient": contiguous,
    "two groups": contiguous,
    "through a state_dict": contiguous,
    "sparse gradient": of_layout(lambda x: x, 6, 2),
    "sparse gradient of elements": of_layout(lambda x: x, 6),
}


def gradients(layout: str, parameters: list[torch.Tensor], step: int) -> list[torch.Tensor | None]:
    result: list[torch.Tensor | None] = []
    for i, p in enumerate(parameters):
        g = numbers(*p.shape, dtype=p.dtype, seed=10 * step + i)
        if layout.startswith("sparse gradient"):
            rows = torch.tensor([[1, 4, 1]]) + step % 2
            g = torch.sparse_coo_tensor(rows, g[:3], p.shape, check_invariants=True)
        elif layout == "expanded gradient":
            g = g.flatten()[:1].expand(p.shape) if g.numel() else g
        elif layout == "one without a gradient" and i == step % 2:
            result.append(None)
            continue
        result.append(g)
    return result


def train(make: Callable[..., Any], layout: str, parameters: list[torch.Tensor], arguments: dict[str, Any]) -> None:
    """Some steps; the weights are those of the parameters then."""
    groups: Any = parameters
    if layout == "two groups":
        groups = [{"params": parameters[:1]}, {"params": parameters[1:], "lr": 0.05}]
    optimizer = make(groups, **copy.deepcopy(arguments))
    for step in range(STEPS):
        if layout == "through a state_dict" and step == 2:
            saved = copy.deepcopy(optimizer.state_dict())
            optimizer = make(groups, **copy.deepcopy(arguments))
            optimizer.load_state_dict(saved)
        for p, g in zip(parameters, gradients(layout, parameters, step)):
            p.grad = g
        optimizer.step()


def outcome(make: Callable[..., Any], layout: str, dtype: torch.dtype, arguments: dict[str, Any], expected: list[torch.Tensor]) -> str:
    """Empty if the weights are the expected ones, otherwise what is wrong."""
    parameters = LAYOUTS[layout](dtype)
    try:
        train(make, layout, parameters, arguments)
    except Exception as reason:
        return f"{type(reason).__name__}: {str(reason).splitlines()[0] if str(reason) else ''}"
    wide = torch.complex128 if dtype.is_complex else torch.float64
    allowed = max(TOLERANCE[dtype], TOLERANCE_OF_NADAM if make.__name__ == "NAdam" else 0)
    for p, q in zip(parameters, expected):
        if p.numel() and not float((p.detach().to(wide) - q).abs().max()) <= allowed:
            return f"differs by {float((p.detach().to(wide) - q).abs().max()):.3g}"
    return ""


def cases(info: Any) -> Iterator[tuple[str, str, torch.dtype, dict[str, Any]]]:
    """Every combination: what it is, the layout, the dtype, the arguments."""
    flags: list[dict[str, Any]] = [{}]
    for flag in ("foreach", "fused"):
        if flag in info.supported_impls:
            flags.append({flag: True})
    layouts = [x for x in LAYOUTS if info.supports_sparse or info.only_supports_sparse_grads or not x.startswith("sparse")]
    if info.only_supports_sparse_grads:
        layouts = [x for x in layouts if x.startswith("sparse")]
    for given in info.optim_inputs_func(device="cpu"):
        for flag in flags:
            for dtype in REAL + (COMPLEX if info.supports_complex else []):
                for layout in layouts:
                    yield f"{given.desc}, {flag or 'no flag'}, {dtype}, {layout}", layout, dtype, {**given.kwargs, **flag}


def reference(name: str, layout: str, arguments: dict[str, Any], known: dict[Any, Any], dtype: torch.dtype) -> list[torch.Tensor] | None:
    """The weights by torch's for loop on contiguous doubles; None if it does not take the arguments."""
    plain = {x: y for x, y in arguments.items() if x not in ("foreach", "fused")}
    key = layout, repr(plain), dtype.is_complex
    if key not in known:
        of_torch = getattr(torch.optim, name)
        parameters = [leaf(x.detach().clone(memory_format=torch.contiguous_format)) for x in LAYOUTS[layout](torch.complex128 if dtype.is_complex else torch.float64)]
        try:
            train(of_torch, layout, parameters, {**plain, **({} if name == "SparseAdam" else {"foreach": False})})
            known[key] = [x.detach() for x in parameters]
        except Exception:
            known[key] = None
    return known[key]


def errors(info: Any) -> Iterator[tuple[str, Callable[[Any], str]]]:
    """The inputs that torch refuses: what they are, and a function of a class that says what is wrong with the error."""
    for each in info.optim_error_inputs_func(device="cpu", dtype=torch.float32):
        given = each.optimizer_error_input

        def check(make: Any, each: Any = each, given: Any = given) -> str:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                try:
                    parameters = given.params if given.params is not None else [torch.nn.Parameter(torch.randn(1, 1))]
                    optimizer = make(copy.deepcopy(parameters) if isinstance(parameters, dict) else parameters, **given.kwargs)
                    if each.error_on.name == "STEP_ERROR":
                        optimizer.step()
                except each.error_type as reason:
                    import re

                    return "" if re.search(each.error_regex, str(reason)) else f"says {reason}"
                except Exception as reason:
                    return f"{type(reason).__name__}: {reason}"
            return "no error"

        yield f"error: {given.desc}", check


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--only", help="the class of this name")
    arguments.add_argument("--torch", action="store_true", help="also count what torch.optim passes")
    arguments.add_argument("--all", action="store_true", help="list what both classes fail")
    options = arguments.parse_args()
    try:
        from torch.testing._internal.common_optimizers import optim_db
    except ImportError as reason:  # a torch without its tests, or without what they need
        print(f"torch's inputs cannot be imported: {reason}", file=sys.stderr)
        return 1
    total: collections.Counter[str] = collections.Counter()
    print(f"torch {torch.__version__}: cases passed of those of torch.testing._internal.common_optimizers")
    for info in optim_db:
        ours, theirs = getattr(gradstep.torch, info.name, None), getattr(torch.optim, info.name)
        if ours is None or (options.only and options.only != info.name):
            continue
        count: collections.Counter[str] = collections.Counter()
        known: dict[Any, Any] = {}

        def note(what: str, of_ours: str, by_torch: Callable[[], str], count: Any = count, name: str = info.name) -> None:
            of_torch = by_torch() if of_ours or options.torch else ""
            count["cases"] += 1
            count["ours"] += not of_ours
            count["torch"] += not of_torch
            if of_ours and not of_torch:
                count["failures"] += 1
                print(f"  FAILED {name}, {what}: {of_ours}")
            elif options.all and of_ours:
                print(f"  as torch: {name}, {what}: {of_ours}; torch: {of_torch}")

        for what, layout, dtype, given in cases(info):
            if info.name == "Adagrad" and dtype.is_complex and layout.startswith("sparse"):
                total["refused"] += 1
                continue  # docs/how_to/pytorch.md says so
            if info.name == "Adafactor" and layout == "channels_last":
                total["refused"] += 1
                continue  # it has four dimensions; the same page
            expected = reference(info.name, layout, given, known, dtype)
            if expected is None:
                continue  # torch has no numbers for it
            run = functools.partial(outcome, layout=layout, dtype=dtype, arguments=given, expected=expected)
            note(what, run(ours), functools.partial(run, theirs))
        for what, check in errors(info):
            note(what, check(ours), functools.partial(check, theirs))
        of_torch = f", torch.optim {count['torch']:5}" if options.torch else ""
        print(f"{info.name:10} {count['cases']:5} cases: gradstep.torch passes {count['ours']:5}{of_torch}")
        total += count
    of_torch = f", torch.optim {total['torch']:5}" if options.torch else ""
    print(
        f"in all     {total['cases']:5} cases: gradstep.torch passes {total['ours']:5}{of_torch}; "
        f"{total['failures']} that only torch passes; left out: {total['refused']}, which are refused: complex "
        "Adagrad with sparse gradients, and Adafactor with four dimensions"
    )
    return 1 if total["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
