#!/usr/bin/env python3
"""Writes the files gradstep_CASE.safetensors of this folder: a model trained by gradstep.torch for three steps, saved for
`gradstep import-torch` by the function that docs/how_to/checkpoints.md shows, and in gradstep_after.safetensors what gradstep.torch makes
of it in the next three, which a checkpoint must reproduce bit for bit.

    venv/bin/pip install bindings/python                                # the venv of torch_.py
    venv/bin/python test/golden/checkpoints/gradstep_torch_.py

gradstep_after.safetensors    DTYPE/gradient/STEP/NAME, and CASE/STEP/NAME: the parameter after STEP
"""

import torch
from safetensors.torch import save_file
from torch_ import FOLDER, LAST, SAVED_AT, SHAPES, documented

import gradstep.torch

ADAM = {"rule": {"name": "adam", "beta1": 0.75, "beta2": 0.875}}
# The class, its options, the type of the parameters, and the step after which they are saved.
CASES = {
    "sgd": (gradstep.torch.SGD, {}, torch.float32, SAVED_AT),
    "sgd_momentum": (gradstep.torch.SGD, {"momentum": 0.875, "dampening": 0.25}, torch.float32, SAVED_AT),
    "adagrad_untouched": (gradstep.torch.Adagrad, {"initial_accumulator_value": 0.5}, torch.float32, 0),
    "adam_bfloat16": (gradstep.torch.Adam, {"betas": (0.75, 0.875)}, torch.bfloat16, SAVED_AT),
    "mixed": (gradstep.torch.Optimizer, {"config": ADAM | {"element": "mixed"}}, torch.bfloat16, SAVED_AT),
    "lion": (gradstep.torch.Optimizer, {"config": {"rule": {"name": "lion"}}}, torch.float32, SAVED_AT),
}


def main() -> None:
    numbers = torch.Generator().manual_seed(12)
    initial = {name: torch.randn(shape, generator=numbers) for name, shape in SHAPES.items()}
    gradients = [{name: torch.randn(shape, generator=numbers) for name, shape in SHAPES.items()} for _ in range(LAST)]
    after = {}
    for case, (optimizer_type, options, dtype, saved_at) in CASES.items():
        model = torch.nn.Module()
        for name, x in initial.items():
            model.register_parameter(name, torch.nn.Parameter(x.to(dtype)))
        optimizer = optimizer_type(model.parameters(), lr=0.125, **options)
        for t in range(LAST + 1):
            if t != 0:
                for name, g in gradients[t - 1].items():
                    getattr(model, name).grad = g.to(dtype)
                    after[f"{str(dtype).removeprefix('torch.')}/gradient/{t}/{name}"] = g.to(dtype)
                optimizer.step()
            if t == saved_at:
                documented()["save_for_gradstep"](FOLDER / f"gradstep_{case}.safetensors", model, optimizer)
            elif t > saved_at:
                after |= {f"{case}/{t}/{name}": getattr(model, name).detach().clone() for name in SHAPES}
    save_file(after, FOLDER / "gradstep_after.safetensors")


if __name__ == "__main__":
    main()
