#!/usr/bin/env python3
"""What a step costs through Python: ./dev bench python

The crossing: one parameter of 16 floats, and a thousand of a thousand floats in one call, against as many calls, and against the
library's own call with everything prepared. With torch installed also steps of gradstep.torch against torch's fused ones.

All that is compared runs interleaved in this process, in an order that turns from round to round; a ratio is the median of those of
the single rounds, with quartiles.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy

import gradstep
from gradstep import _library

try:
    import torch

    import gradstep.torch
except ImportError:
    torch = None

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))
from lines import Lines, Quartiles, add_option, quartiles

ADAM = {"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.001}}


def race(rounds: int, repeat: int, runners: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Seconds of each in each round; one untimed call before each sample."""
    names, result = list(runners), {name: [] for name in runners}
    gc.disable()
    for round_number in range(rounds):
        turn = round_number % len(names)
        for name in names[turn:] + names[:turn]:
            run = runners[name]
            run()
            start = time.perf_counter()
            for _ in range(repeat):
                run()
            result[name].append((time.perf_counter() - start) / repeat)
        gc.collect()
    gc.enable()
    return result


def ratio(above: list[float], below: list[float]) -> Quartiles:
    return quartiles(a / b for a, b in zip(above, below))


def text(x: Quartiles) -> str:
    return f"{x.median:.2f} ({x.low:.2f} to {x.high:.2f})"


def crossing(lines: Lines, rounds: int) -> None:
    size = 16
    w = gradstep.Parameter(ADAM, numpy.zeros(size, numpy.float32))
    updater, weights = gradstep.Updater(ADAM), numpy.zeros(size, numpy.float32)
    g, others = numpy.ones(size, numpy.float32), [numpy.ones(size, numpy.float32) for _ in range(2)]
    state = updater.initialize(weights)
    library = _library.library
    at = g.ctypes.data, w._failure_at

    def new_array() -> None:
        others.reverse()
        w.update(others[0])

    def stateless() -> None:
        updater.next_step()
        updater.apply(weights, g, state)

    runners = {
        "a call of ctypes that does nothing": library.gradstep_features,
        "the library's update, all prepared": lambda: library.gradstep_parameter_update(
            w._handle, at[0], size, None, at[1]
        ),
        "Parameter.update, the gradient in the same array": lambda: w.update(g),
        "Parameter.update, in another array each time": new_array,
        "Updater.next_step and apply": stateless,
    }
    times = race(rounds, 2000, runners)
    lines.section = f"adam, {size} floats, a call"
    print(f"\n{lines.section}:")
    for name, seconds in times.items():
        lines.add(name, quartiles(x * 1e9 for x in seconds), "ns")
        print(f"  {statistics.median(seconds) * 1e9:7.0f} ns  {name}")


def batched(lines: Lines, rounds: int, count: int = 1000, size: int = 1000) -> None:
    def model() -> gradstep.Model:
        return gradstep.Model({f"w{i}": gradstep.Parameter(ADAM, numpy.zeros(size, numpy.float32)) for i in range(count)})

    one, each, raw = model(), model(), model()
    g = {name: numpy.ones(size, numpy.float32) for name in one}
    arguments = (
        (ctypes.c_void_p * count)(*[x._handle for x in raw.values()]),
        (ctypes.c_void_p * count)(*[x.ctypes.data for x in g.values()]),
        (ctypes.c_uint64 * count)(*[size] * count),
        count,
        None,
        None,
    )

    def single() -> None:
        for name, parameter in each.items():
            parameter.update(g[name])

    times = race(
        rounds,
        3,
        {
            "prepared": lambda: _library.library.gradstep_parameters_update(*arguments),
            "one": lambda: one.update(g),
            "single": single,
        },
    )
    median = {name: statistics.median(seconds) * 1e6 for name, seconds in times.items()}
    to_call, to_model = ratio(times["one"], times["prepared"]), ratio(times["single"], times["one"])
    lines.section = f"adam, {count} parameters of {size} floats"
    lines.add("Model.update / the library's call, all prepared", to_call)
    lines.add(f"{count} times Parameter.update / Model.update", to_model)
    for name, what in (("prepared", "the library's call, all prepared"), ("one", "Model.update"),
                       ("single", f"{count} times Parameter.update")):
        lines.add(what, quartiles(x * 1e6 for x in times[name]), "us")
    print(f"\n{lines.section}:")
    print(f"  {median['prepared']:7.0f} us  the library's call, all prepared")
    print(f"  {median['one']:7.0f} us  Model.update; to the library's call: {text(to_call)}")
    print(
        f"  {median['single']:7.0f} us  {count} times Parameter.update; to Model.update: {text(to_model)}"
    )


def model(count: int, size: int) -> list:
    """Tensors that have gradients."""
    result = [torch.rand(size).requires_grad_() for _ in range(count)]
    for x in result:
        x.grad = torch.rand(size)
    return result


def report(lines: Lines, name: str, times: dict[str, list[float]], below: str = "torch") -> None:
    """A line of two runners: the times, and their ratio."""
    above = next(iter(times))
    beside = ratio(times[above], times[below])
    lines.add(name, beside)
    print(
        f"  {name:48}: {statistics.median(times[above]) * 1e3:8.3f} ms, "
        f"{below} {statistics.median(times[below]) * 1e3:8.3f} ms, ratio {text(beside)}"
    )


def beside_torch(lines: Lines, rounds: int, name: str, kind: str, count: int, size: int, threads: int, **arguments: float) -> None:
    """A step beside torch's of a kind: "default", the optimizer as its constructor makes it without further arguments, or "fused"."""
    torch.set_num_threads(threads)
    ours = getattr(gradstep.torch, name)(model(count, size), **arguments)
    theirs = getattr(torch.optim, name)(model(count, size), **({"fused": True} if kind == "fused" else {}), **arguments)
    repeat = min(500, max(1, 2_000_000 // (count * size)))
    times = race(rounds, repeat, {"gradstep": ours.step, "torch": theirs.step})
    report(lines, f"torch {kind}, {threads} thread{'s' if threads > 1 else ''}, {count} x {size}", times)


def many_groups(lines: Lines, rounds: int, count: int = 150, size: int = 5000) -> None:
    """A group for each tensor, with the same options in all."""
    torch.set_num_threads(1)
    one, each = model(count, size), model(count, size)
    of_one, of_each = gradstep.torch.AdamW(one), gradstep.torch.AdamW([{"params": [x]} for x in each])
    report(lines, f"{count} groups / one group", race(rounds, 5, {"groups": of_each.step, "one": of_one.step}), "one")


def one_cycle(lines: Lines, rounds: int, count: int = 28, size: int = 1000) -> None:
    """OneCycleLR, which changes betas in every step by default, with its own time: beside torch's optimizer."""
    torch.set_num_threads(1)

    def runner(optimizer: torch.optim.Optimizer) -> Callable[[], object]:
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, 10**9)

        def run() -> None:
            optimizer.step()
            scheduler.step()

        return run

    ours, theirs = gradstep.torch.AdamW(model(count, size)), torch.optim.AdamW(model(count, size), fused=True)
    times = race(rounds, 200, {"gradstep": runner(ours), "torch": runner(theirs)})
    report(lines, f"AdamW with OneCycleLR, {count} tensors of {size}", times)


def compiled(lines: Lines, rounds: int) -> None:
    """torch.compile(optimizer.step), beside the step as it is."""
    torch.set_num_threads(1)
    for name, kind in (("gradstep.torch", gradstep.torch.AdamW), ("torch.optim", torch.optim.AdamW)):
        for count, size in ((1, 16), (6, 100), (28, 1000), (100, 1000)):
            optimizer = kind(model(count, size), **({"fused": True} if kind is torch.optim.AdamW else {}))
            times = race(rounds, 100, {"compiled": torch.compile(optimizer.step), "eager": optimizer.step})
            report(lines, f"{name}, {count} tensors of {size}", times, "eager")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=21)
    add_option(arguments)
    options = arguments.parse_args()
    rounds = options.rounds
    about = {"Python": sys.version.split()[0], "numpy": numpy.__version__}
    lines = Lines(options.json, about | ({"torch": torch.__version__} if torch else {}))
    print(
        f"gradstep {gradstep.version()} ({gradstep.simd_level()}), Python {sys.version.split()[0]}, numpy {numpy.__version__}"
        + (f", torch {torch.__version__}" if torch else "")
    )
    crossing(lines, rounds)
    batched(lines, rounds)
    if torch:
        large = ((100, 1000), (1000, 1000), (100, 10_000), (100, 100_000))
        small = ((6, 100), (6, 1000), (28, 100), (28, 1000))
        for title, name, arguments, sizes, runs in (
            ("AdamW", "AdamW", {}, large, (("default", 1), ("fused", 1), ("default", 2), ("fused", 2))),
            ("SGD", "SGD", {}, small, (("fused", 1),)),
            ("SGD with momentum", "SGD", {"momentum": 0.9}, (*small, *large), (("fused", 1),)),
        ):
            lines.section = f"{title}: a step of gradstep.torch / of torch.optim, tensors x floats"
            print(f"\n{lines.section}:")
            for kind, number in runs:
                for count, size in sizes:
                    beside_torch(lines, rounds, name, kind, count, size, number, **arguments)
        lines.section = "gradstep.torch.AdamW, groups and schedules"
        print(f"\n{lines.section}:")
        many_groups(lines, rounds)
        one_cycle(lines, rounds)
        lines.section = "torch.compile(AdamW.step) / the step without it"
        print(f"\n{lines.section}:")
        compiled(lines, rounds)


if __name__ == "__main__":
    main()
