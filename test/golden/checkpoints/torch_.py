#!/usr/bin/env python3
"""Writes the files of this folder: a model trained by torch for three steps, saved for `gradstep import-torch` by the function
that docs/how_to/checkpoints.md shows, and in after.safetensors what torch makes of it in the next three.

    python3 -m venv venv
    venv/bin/pip install --no-deps --requirement benchmarks/peers/requirements.txt safetensors==0.8.0 packaging
    benchmarks/peers/cuda_stubs.sh venv/lib/python3*/site-packages/torch/lib venv/stubs
    LD_LIBRARY_PATH=venv/stubs venv/bin/python test/golden/checkpoints/torch_.py

The numbers here are those of torch 2.14.1, by the path of a loop over tensors (foreach=False), whose roundings
test/dialects/golden.hpp counts. On another processor some last digits differ.

CASE.safetensors     after step 3
after.safetensors    gradient/STEP/NAME, the same for all cases (those of float64, too), and CASE/STEP/NAME: the parameter
                     after STEP = 4, 5, 6
"""

import re
from pathlib import Path

import torch
from safetensors.torch import save_file

FOLDER = Path(__file__).resolve().parent
SAVED_AT, LAST = 3, 6
SHAPES = {"weight": (3, 4), "bias": (3,)}

# The optimizer, its options, and those of the second group, in which the bias is.
CASES = {
    "sgd": (torch.optim.SGD, {"weight_decay": 0.25}, {"weight_decay": 0}),
    "sgd_momentum": (torch.optim.SGD, {"momentum": 0.875, "dampening": 0.25}, {}),
    "sgd_nesterov": (torch.optim.SGD, {"momentum": 0.875, "nesterov": True}, {}),
    "rmsprop": (torch.optim.RMSprop, {"alpha": 0.75}, {}),
    "rmsprop_centered": (torch.optim.RMSprop, {"alpha": 0.75, "eps": 0.125, "centered": True}, {}),
    "rmsprop_momentum": (torch.optim.RMSprop, {"momentum": 0.5}, {}),
    "rmsprop_centered_momentum": (torch.optim.RMSprop, {"eps": 0.125, "centered": True, "momentum": 0.5}, {}),
    "adagrad": (torch.optim.Adagrad, {"lr_decay": 0.125, "initial_accumulator_value": 0.5}, {"eps": 0.125}),
    "adam": (torch.optim.Adam, {"betas": (0.75, 0.875)}, {"eps": 0.125}),
    "adam_amsgrad": (torch.optim.Adam, {"betas": (0.75, 0.875), "amsgrad": True}, {}),
    "adamw": (torch.optim.AdamW, {"betas": (0.75, 0.875), "weight_decay": 0.25}, {"weight_decay": 0}),
    "adamw_double": (torch.optim.AdamW, {"betas": (0.75, 0.875), "weight_decay": 0.25}, {"weight_decay": 0}),
}
# Whose state is to be found under its names, and no more.
OTHERS = {
    "adadelta": (torch.optim.Adadelta, {}, {}),
    "adamax": (torch.optim.Adamax, {}, {}),
    "nadam": (torch.optim.NAdam, {"momentum_decay": 0.25, "weight_decay": 0.5, "decoupled_weight_decay": True}, {}),
    "radam": (torch.optim.RAdam, {}, {}),
    "adam_bfloat16": (torch.optim.Adam, {"amsgrad": True, "maximize": True}, {}),
    "sgd_float16": (torch.optim.SGD, {"momentum": 0.5}, {}),
}
DTYPES = {"adamw_double": torch.float64, "adam_bfloat16": torch.bfloat16, "sgd_float16": torch.float16}


def documented() -> dict:
    """What the Python of the page defines, so that it is what was tested."""
    page = (FOLDER.parents[2] / "docs/how_to/checkpoints.md").read_text()
    code = next(block for block in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
                if "def save_for_gradstep" in block)
    out: dict = {}
    exec(code, out)
    return out


def main() -> None:
    save_for_gradstep = documented()["save_for_gradstep"]
    numbers = torch.Generator().manual_seed(12)
    initial = {name: torch.randn(shape, generator=numbers) for name, shape in SHAPES.items()}
    gradients = [{name: torch.randn(shape, generator=numbers) for name, shape in SHAPES.items()} for _ in range(LAST)]
    after = {f"gradient/{t}/{name}": g for t in range(SAVED_AT + 1, LAST + 1) for name, g in gradients[t - 1].items()}
    for case, (optimizer_type, options, of_bias) in (CASES | OTHERS).items():
        model = torch.nn.Module()
        dtype = DTYPES.get(case, torch.float32)
        for name, x in initial.items():
            model.register_parameter(name, torch.nn.Parameter(x.to(dtype)))
        model.register_parameter("unused", torch.nn.Parameter(torch.ones(2, dtype=dtype))) # has no gradient, and so no state
        groups = [{"params": [model.weight]}, {"params": [model.bias], "lr": 0.0625} | of_bias]
        if case in OTHERS:
            groups.append({"params": [model.unused]})
        optimizer = optimizer_type(groups, lr=0.125, foreach=False, **options)
        for t, gradient in enumerate(gradients, start=1):
            for name, g in gradient.items():
                getattr(model, name).grad = g.to(dtype)
            optimizer.step()
            if t == SAVED_AT:
                save_for_gradstep(FOLDER / f"{case}.safetensors", model, optimizer)
            elif t > SAVED_AT and case in CASES:
                after |= {f"{case}/{t}/{name}": getattr(model, name).detach().clone() for name in SHAPES}
    save_file(after, FOLDER / "after.safetensors", {"written by": f"torch {torch.__version__}"})


if __name__ == "__main__":
    main()
