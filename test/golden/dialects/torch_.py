#!/usr/bin/env python3
"""Writes torch.txt: torch.optim on one tensor, by the path of a loop over tensors (foreach=False, fused=False)."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from common import SIZE, Case, State, write
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


class Function(NamedTuple):
    """A function of the dialect: the class, what of its options makes this function, its state by our names."""

    optimizer: type[torch.optim.Optimizer]
    options: tuple[str, ...]
    slots: dict[str, str]
    switches: dict[str, Any] = {}
    average: Callable[[torch.nn.Module, Case], AveragedModel] | None = None


MOMENTS = {"m": "exp_avg", "v": "exp_avg_sq"}
ADAM = ("beta1", "beta2", "eps")

FUNCTIONS = {
    "sgd": Function(torch.optim.SGD, (), {}),
    "sgd_momentum": Function(torch.optim.SGD, ("momentum", "dampening"), {"m": "momentum_buffer"}),
    "sgd_nesterov": Function(torch.optim.SGD, ("momentum",), {"m": "momentum_buffer"}, {"nesterov": True}),
    "rmsprop": Function(torch.optim.RMSprop, ("alpha", "eps"), {"n": "square_avg"}),
    "rmsprop_centered": Function(
        torch.optim.RMSprop, ("alpha", "eps"), {"n": "square_avg", "a": "grad_avg"}, {"centered": True}
    ),
    "rmsprop_momentum": Function(
        torch.optim.RMSprop, ("alpha", "eps", "momentum"), {"n": "square_avg", "b": "momentum_buffer"}
    ),
    "rmsprop_centered_momentum": Function(
        torch.optim.RMSprop,
        ("alpha", "eps", "momentum"),
        {"n": "square_avg", "a": "grad_avg", "b": "momentum_buffer"},
        {"centered": True},
    ),
    "adagrad": Function(torch.optim.Adagrad, ("lr_decay", "initial_accumulator_value", "eps"), {"n": "sum"}),
    "adadelta": Function(torch.optim.Adadelta, ("rho", "eps"), {"n": "square_avg", "u": "acc_delta"}),
    "adam": Function(torch.optim.Adam, ADAM, MOMENTS),
    "adam_amsgrad": Function(torch.optim.Adam, ADAM, MOMENTS | {"v_max": "max_exp_avg_sq"}, {"amsgrad": True}),
    "adamw": Function(torch.optim.AdamW, (*ADAM, "weight_decay"), MOMENTS),
    "adamax": Function(torch.optim.Adamax, ADAM, {"m": "exp_avg", "u": "exp_inf"}),
    "nadam": Function(torch.optim.NAdam, (*ADAM, "momentum_decay"), MOMENTS),
    "radam": Function(torch.optim.RAdam, ADAM, MOMENTS),
    "sparse_adam": Function(torch.optim.SparseAdam, ADAM, MOMENTS),
    "rprop": Function(
        torch.optim.Rprop,
        ("initial_step", "etaminus", "etaplus", "step_size_min", "step_size_max"),
        {"eta": "step_size", "p": "prev"},
    ),
    "asgd": Function(torch.optim.ASGD, ("lambd", "alpha", "t0"), {"average": "ax"}),
    "sgd_averaged": Function(torch.optim.SGD, (), {}, average=lambda model, _: AveragedModel(model)),
    "adam_ema": Function(
        torch.optim.Adam,
        (*ADAM, "decay"),
        MOMENTS,
        average=lambda model, case: AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(case.options["decay"])),
    ),
}


def defaults(optimizer: type[torch.optim.Optimizer]) -> dict[str, Any]:
    """The defaults in the constructor, betas as beta1, beta2, and so on for the pairs of Rprop, whose rate is a start."""
    parameters = inspect.signature(optimizer).parameters.values()
    given = {p.name: p.default for p in parameters if p.default is not p.empty}
    if "betas" in given:
        given["beta1"], given["beta2"] = given.pop("betas")
    if "etas" in given:
        given["etaminus"], given["etaplus"] = given.pop("etas")
        given["step_size_min"], given["step_size_max"] = given.pop("step_sizes")
        given["initial_step"], given["lr"] = given["lr"], 1.0
    return given


def default(name: str, **chosen: float) -> Case:
    """The case of a function's own defaults, but for those chosen."""
    given = defaults(FUNCTIONS[name].optimizer) | chosen
    return Case(name, given["lr"], {option: given[option] for option in FUNCTIONS[name].options})


# For each function its defaults come first; torch's momentum is 0, which is another function here.
CASES = [
    default("sgd"),
    Case("sgd", 0.1, {"weight_decay": 0.01}, later_lr=0.02),
    default("sgd_momentum", momentum=0.9),
    Case("sgd_momentum", 0.1, {"momentum": 0.5, "dampening": 0.25}, later_lr=0.02),
    default("sgd_nesterov", momentum=0.9),
    Case("sgd_nesterov", 0.1, {"momentum": 0.6}, later_lr=0.02),
    default("rmsprop"),
    Case("rmsprop", 0.1, {"alpha": 0.9, "eps": 0.001}, later_lr=0.02),
    default("rmsprop_centered"),
    Case("rmsprop_centered", 0.1, {"alpha": 0.8, "eps": 0.01}, later_lr=0.02),
    default("rmsprop_momentum", momentum=0.9),
    Case("rmsprop_momentum", 0.1, {"alpha": 0.9, "eps": 0.001, "momentum": 0.5}, later_lr=0.02),
    default("rmsprop_centered_momentum", momentum=0.9),
    Case("rmsprop_centered_momentum", 0.1, {"alpha": 0.8, "eps": 0.01, "momentum": 0.5}, later_lr=0.02),
    default("adagrad"),
    Case("adagrad", 0.1, {"lr_decay": 0.125, "initial_accumulator_value": 0.1, "eps": 0.001}),
    default("adadelta"),
    Case("adadelta", 0.1, {"rho": 0.95, "eps": 1e-4}, later_lr=0.02),
    default("adam"),
    Case("adam", 0.1, {"beta1": 0.8, "beta2": 0.99, "eps": 0.001}, later_lr=0.02),
    default("adam_amsgrad"),
    Case("adam_amsgrad", 0.1, {"beta1": 0.8, "beta2": 0.9, "eps": 0.001}, later_lr=0.02),
    default("adamw"),
    Case("adamw", 0.1, {"beta1": 0.8, "beta2": 0.99, "eps": 0.001, "weight_decay": 0.5}, later_lr=0.02),
    default("adamax"),
    Case("adamax", 0.1, {"beta1": 0.8, "beta2": 0.9, "eps": 0.001}, later_lr=0.02),
    default("nadam"),
    Case("nadam", 0.1, {"beta1": 0.8, "beta2": 0.99, "eps": 0.001, "momentum_decay": 0.25}, later_lr=0.02),
    default("radam"),
    Case("radam", 0.1, {"beta1": 0.8, "beta2": 0.9, "eps": 0.001}, later_lr=0.02),
    default("sparse_adam"),
    Case("sparse_adam", 0.1, {"beta1": 0.8, "beta2": 0.99, "eps": 0.001}, later_lr=0.02),
    default("sgd_averaged"),
    Case("sgd_averaged", 0.1, later_lr=0.02),
    default("adam_ema", decay=0.999),
    Case("adam_ema", 0.1, {"beta1": 0.8, "beta2": 0.99, "eps": 0.001, "decay": 0.75}, later_lr=0.02),
    default("rprop"),
    Case(
        "rprop",
        1.0,
        {"initial_step": 0.1, "etaminus": 0.25, "etaplus": 1.5, "step_size_min": 0.05, "step_size_max": 0.3},
    ),
    default("asgd"),
    Case("asgd", 0.1, {"lambd": 0.25, "alpha": 0.5, "t0": 0}),
]


def make(case: Case, weight: torch.Tensor) -> torch.optim.Optimizer:
    function = FUNCTIONS[case.name]
    options: dict[str, Any] = case.options | function.switches
    options.pop("decay", None)  # of the average
    if "beta1" in options:
        options["betas"] = (options.pop("beta1"), options.pop("beta2"))
    rate = options.pop("initial_step", case.lr)
    if "etaminus" in options:
        options["etas"] = (options.pop("etaminus"), options.pop("etaplus"))
        options["step_sizes"] = (options.pop("step_size_min"), options.pop("step_size_max"))
    paths = {name: False for name in ("foreach", "fused") if name in defaults(function.optimizer)}
    return function.optimizer([weight], lr=rate, **options, **paths)


def run(case: Case, weights: np.ndarray, gradients: np.ndarray) -> Iterator[State]:
    weight = torch.nn.Parameter(torch.from_numpy(weights))
    torch.set_default_dtype(weight.dtype)  # in which NAdam keeps its product of mu, and ASGD its rate
    optimizer = make(case, weight)
    slots = FUNCTIONS[case.name].slots
    model = torch.nn.ParameterList([weight])
    average = make_average(model, case) if (make_average := FUNCTIONS[case.name].average) else None

    def state() -> State:
        here = optimizer.state[weight]
        # What torch makes at the first step starts at 0, and Rprop's step sizes at their start.
        starts = {"eta": case.options.get("initial_step", 0.0)}
        kept = {slot: here.get(name, torch.full_like(weight, starts.get(slot, 0.0))) for slot, name in slots.items()}
        if case.name == "asgd" and "ax" not in here:
            kept["average"] = weight  # ax starts at 0 and equals the weights after the first step
        if average is not None:
            kept["average"] = next(average.parameters())
        return {name: x.detach().numpy().copy() for name, x in ({"w": weight} | kept).items()}

    yield state()
    for rate, gradient in zip(case.rates(), gradients, strict=True):
        if case.name != "rprop":
            optimizer.param_groups[0]["lr"] = rate
        weight.grad = torch.from_numpy(gradient.copy())
        if case.name == "sparse_adam":
            # Every element is there, zeros as well.
            weight.grad = torch.sparse_coo_tensor(torch.arange(SIZE)[None], weight.grad, check_invariants=True)
        optimizer.step()
        if average is not None:
            average.update_parameters(model)
        yield state()


if __name__ == "__main__":
    torch.set_num_threads(1)
    write("torch", f"torch {torch.__version__.split('+')[0]}", CASES, run)
