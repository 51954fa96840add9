#!/usr/bin/env python3
"""Dense steps of gradstep against torch, DeepSpeed, paddle and optax on the CPU: ./dev bench peers dense

Every number is a ratio of steps that ran interleaved in one process, in an order that turns from round to round: the median of the
ratios of the single rounds, with quartiles. torch and DeepSpeed run beside gradstep in a process of their own, so do paddle and
optax, for each number of threads. One untimed step comes before each sample, which is long enough to count, so that what fits into
a cache is there. With one thread the clock is the processor time of the process. With two it is that on the wall, of the shortest
step of a sample: where others use the machine, a thread that waits for a core, for milliseconds, would be all that is measured.

- torch: step() of torch.optim with its defaults, with fused=True, and of many tensors with foreach=True.
- DeepSpeed: step() of DeepSpeedCPUAdam, compiled here by its own build on first use.
- paddle: step() of paddle.optimizer. optax: one jitted update and apply_updates, weights and state donated.
- gradstep: gradstep_parameter_update of the C library, and of many tensors gradstep_parameters_update, through ctypes, with the
  policies of that system's dialect. On two threads it runs on the OpenMP runtime of the process, where there is one.

Each has its own weights, gradients and state, and gives our weights to some units in the last place before it is timed. With
--newer it is rules that few systems have, beside torch or optax, on one thread, as matrices: they give our steps to less than a
hundredth.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import gc
import importlib.metadata
import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import themes
from lines import Lines, Quartiles, add_option, quartiles

RATE, MOMENTUM, DECAY, CHECKED_STEPS = 0.01, 0.9, 0.01, 3
RULES = ("sgd", "momentum", "adagrad", "adam", "adamw")
SIZES = {"4 Ki": [(4 << 10,)], "64 Ki": [(64 << 10,)], "256 Ki": [(256 << 10,)], "4 Mi": [(4 << 20,)], "32 Mi": [(32 << 20,)],
         "1000 x 1000": [(1000,)] * 1000}

# Newer rules by peer: the configuration of gradstep's rule, and the shapes of its tensors.
MATRICES = {"4 Mi": [(2048, 2048)], "32 Mi": [(8192, 4096)]}
NEWER: dict[tuple[str, str], tuple[dict[str, Any], dict[str, list[tuple[int, ...]]]]] = {
    ("torch", "muon"): ({"name": "muon"}, {"1024 x 1024": [(1024, 1024)], "4096 x 1024": [(4096, 1024)]}),
    ("torch", "adafactor"): ({"dialect": "torch", "name": "adafactor"}, {"4096 x 4096": [(4096, 4096)]}),
    ("optax", "ademamix"): ({"dialect": "optax", "name": "ademamix"}, MATRICES),
    ("optax", "adan"): ({"dialect": "optax", "name": "adan"}, MATRICES),
    ("optax", "adafactor"): ({"dialect": "optax", "name": "adafactor"}, MATRICES),
    ("optax", "schedule_free"): ({"name": "schedule_free_adam"}, MATRICES),
    ("optax", "prodigy"): ({"name": "prodigy", "use_bias_correction": True}, MATRICES),
}
SAMPLE = 400e-6  # seconds, of one round

# What is wanted of they / gradstep: by peer, rule, size and threads.
WANTED = {
    **{("torch fused", rule, "64 Ki", 1): x for rule, x in zip(RULES, (3.5, 2.8, 1.8, 3.5))},
    **{("torch fused", rule, "32 Mi", 1): 1.05 for rule in RULES[:4]},
    ("torch fused", "adam", "64 Ki", 2): 3.0,
    ("torch fused", "adam", "4 Mi", 2): 1.1,
    ("torch fused", "adam", "1000 x 1000", 1): 6.5,
    ("torch fused", "adam", "1000 x 1000", 2): 15.0,
    ("DeepSpeed", "adam", "64 Ki", 1): 1.45,
    ("DeepSpeed", "adam", "256 Ki", 1): 1.25,
    ("DeepSpeed", "adam", "32 Mi", 1): 1.0,
    ("paddle", "adam", "32 Mi", 1): 1.9,
    ("optax", "adam", "32 Mi", 1): 1.7,
    **{("optax", rule, size, 1): 1.5 for of, rule in NEWER if of == "optax" for size in MATRICES},
    **{("torch default", "muon", size, 1): 1.1 for size in ("1024 x 1024", "4096 x 1024")},
    ("torch default", "adafactor", "4096 x 4096", 1): 3.0,
}


def on_a_line(x: Any) -> Any:
    """A copy that begins on a line of the cache, as the peers' own tensors do."""
    memory = numpy.empty(x.nbytes + 64, numpy.uint8)
    first = -memory.ctypes.data % 64
    out = memory[first : first + x.nbytes].view(x.dtype)
    out[:] = x.ravel()
    return out


class Gradstep:
    """Parameters of the C library."""

    name, FLOAT32 = "gradstep", 4

    def __init__(self, rule: str, threads: int, weights: list[Any], gradients: list[Any], dialect: str) -> None:
        from gradstep import _library

        self.library, self.check, self.failure = _library.library, _library.check, _library.new_error()
        named = {"momentum": "momentum" if dialect == "paddle" else "sgd_momentum"}.get(rule, rule)
        newer, _ = NEWER.get((dialect, rule), ({}, {}))
        policies: dict[str, Any] = {
            "rule": newer or {"dialect": dialect, "name": named, **({"momentum": MOMENTUM} if rule == "momentum" else {})},
            "schedule": {"name": "constant", "rate": rate_of(rule)},
            "threads": threads,
        }
        if rule == "adamw":
            policies["regularizer"] = {"name": "decoupled", "rate": DECAY}
        text = json.dumps(policies).encode()
        self.gradients, self.handles, self.counts = [on_a_line(x) for x in gradients], [], [x.size for x in weights]
        for w in weights:
            out = ctypes.c_void_p()
            self.must(self.library.gradstep_parameter_create(
                text, len(text), self.FLOAT32, w.ctypes.data, 1, w.size, ctypes.byref(out), ctypes.addressof(self.failure)))
            if newer:
                extents = (ctypes.c_uint64 * w.ndim)(*w.shape)
                self.must(self.library.gradstep_parameter_set_shape(out, extents, w.ndim, ctypes.addressof(self.failure)))
            self.handles.append(out.value)
        self.step = self.one_call(len(weights))

    def one_call(self, n: int) -> Callable[[], None]:
        failure, must = ctypes.addressof(self.failure), self.must
        if n == 1:
            call = self.library.gradstep_parameter_update
            arguments: tuple[Any, ...] = self.handles[0], self.gradients[0].ctypes.data, self.counts[0]
        else:
            call = self.library.gradstep_parameters_update
            addresses = [x.ctypes.data for x in self.gradients]
            arguments = ((ctypes.c_void_p * n)(*self.handles), (ctypes.c_void_p * n)(*addresses),
                         (ctypes.c_uint64 * n)(*self.counts), n)

        def step() -> None:
            if call(*arguments, None, failure):
                must(self.failure.code)

        return step

    def must(self, status: int) -> None:
        self.check(status, self.failure)

    def weights(self) -> list[Any]:
        out = []
        for handle, count in zip(self.handles, self.counts):
            data, size = ctypes.c_void_p(), ctypes.c_uint64()
            self.must(self.library.gradstep_parameter_values(
                handle, ctypes.byref(data), ctypes.byref(size), ctypes.addressof(self.failure)))
            out.append(numpy.ctypeslib.as_array(ctypes.cast(data, ctypes.POINTER(ctypes.c_float)), (count,)).copy())
        return out

    def close(self) -> None:
        for handle in self.handles:
            self.library.gradstep_parameter_release(handle)


class Torch:
    powers_of_beta_in_float = False

    def __init__(self, rule: str, weights: list[Any], gradients: list[Any], kind: str) -> None:
        import torch

        self.name = f"torch {kind}"
        self.parameters = [torch.nn.Parameter(torch.from_numpy(x).clone()) for x in weights]
        for p, g in zip(self.parameters, gradients):
            p.grad = torch.from_numpy(g).clone()
        self.step = self.optimizer(rule, {} if kind == "default" else {kind: True}).step

    def optimizer(self, rule: str, options: dict[str, Any]) -> Any:
        from torch import optim

        if rule == "momentum":
            return optim.SGD(self.parameters, lr=RATE, momentum=MOMENTUM, **options)
        if rule == "adamw":
            return optim.AdamW(self.parameters, lr=RATE, weight_decay=DECAY, **options)
        if rule == "muon":
            return optim.Muon(self.parameters, lr=RATE, weight_decay=0)
        if rule == "adafactor":
            return optim.Adafactor(self.parameters, lr=RATE)
        kind = {"sgd": optim.SGD, "adagrad": optim.Adagrad, "adam": optim.Adam}[rule]
        return kind(self.parameters, lr=RATE, **options)

    def weights(self) -> list[Any]:
        return [p.detach().numpy() for p in self.parameters]

    def close(self) -> None:
        pass


class DeepSpeed(Torch):
    powers_of_beta_in_float = True

    def __init__(self, rule: str, weights: list[Any], gradients: list[Any]) -> None:
        super().__init__(rule, weights, gradients, "")
        self.name = "DeepSpeed"

    def optimizer(self, rule: str, options: dict[str, Any]) -> Any:
        from deepspeed.ops.adam import DeepSpeedCPUAdam

        return DeepSpeedCPUAdam(self.parameters, lr=RATE, weight_decay=DECAY if rule == "adamw" else 0, adamw_mode=True)


class Paddle:
    name, powers_of_beta_in_float = "paddle", True

    def __init__(self, rule: str, weights: list[Any], gradients: list[Any]) -> None:
        import paddle

        self.parameters = []
        for w, g in zip(weights, gradients):
            p = paddle.create_parameter([w.size], "float32", default_initializer=paddle.nn.initializer.Assign(w))
            p.grad = paddle.to_tensor(g)
            self.parameters.append(p)
        kind = {"sgd": "SGD", "momentum": "Momentum", "adagrad": "Adagrad", "adam": "Adam", "adamw": "AdamW"}[rule]
        options = {"momentum": {"momentum": MOMENTUM}, "adagrad": {"epsilon": 1e-6}, "adamw": {"weight_decay": DECAY}}
        self.step = getattr(paddle.optimizer, kind)(RATE, parameters=self.parameters, **options.get(rule, {})).step

    def weights(self) -> list[Any]:
        return [p.numpy() for p in self.parameters]

    def close(self) -> None:
        pass


class Optax:
    name, powers_of_beta_in_float = "optax", True

    def __init__(self, rule: str, weights: list[Any], gradients: list[Any]) -> None:
        import jax
        import optax

        from optax import contrib

        optimizer = {"sgd": lambda: optax.sgd(RATE), "momentum": lambda: optax.sgd(RATE, momentum=MOMENTUM),
                     "adagrad": lambda: optax.adagrad(RATE), "adam": lambda: optax.adam(RATE),
                     "adamw": lambda: optax.adamw(RATE, weight_decay=DECAY), "ademamix": lambda: contrib.ademamix(RATE),
                     "adan": lambda: optax.adan(RATE), "adafactor": lambda: optax.adafactor(RATE),
                     "schedule_free": lambda: contrib.schedule_free_adamw(RATE, weight_decay=0.0),
                     "prodigy": lambda: contrib.prodigy(rate_of(rule))}[rule]()

        def update(w: Any, state: Any, g: Any) -> Any:
            updates, state = optimizer.update(g, state, w)
            return optax.apply_updates(w, updates), state

        jitted = jax.jit(update, donate_argnums=(0, 1))
        # Copies: jax takes memory of numpy's for its own where it is aligned.
        self.parameters = [jax.numpy.array(x, copy=True) for x in weights]
        self.gradients = [jax.numpy.array(x, copy=True) for x in gradients]
        # Copies again: prodigy's state begins with the weights, and a buffer can be donated once.
        self.state = jax.tree.map(lambda x: jax.numpy.array(x, copy=True), optimizer.init(self.parameters))

        def step() -> None:
            self.parameters, self.state = jitted(self.parameters, self.state, self.gradients)
            jax.block_until_ready(self.parameters)

        self.step = step

    def weights(self) -> list[Any]:
        return [numpy.asarray(x) for x in self.parameters]

    def close(self) -> None:
        pass


def rate_of(rule: str) -> float:
    """The learning rate: prodigy's is a factor of the one that it finds."""
    return 1.0 if rule == "prodigy" else RATE


def seconds(step: Callable[[], Any], repetitions: int, threads: int) -> float:
    if threads == 1:
        start = time.process_time()
        for _ in range(repetitions):
            step()
        return (time.process_time() - start) / repetitions
    shortest = float("inf")
    for _ in range(repetitions):
        start = time.perf_counter()
        step()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest


def race(variants: list[Any], rounds: int, threads: int) -> list[list[float]]:
    """Seconds of a step of each, round by round."""
    at_least = 1 if threads == 1 else 5
    repetitions = [max(at_least, round(SAMPLE / min(seconds(v.step, 1, threads) for _ in range(3)))) for v in variants]
    times: list[list[float]] = [[] for _ in variants]
    gc.collect()
    gc.disable()
    for turn in range(rounds):
        for k in range(len(variants)):
            k = (k + turn) % len(variants)
            variants[k].step()
            times[k].append(seconds(variants[k].step, repetitions[k], threads))
    gc.enable()
    return times


def check(peer: Any, ours: Any, before: list[Any], what: str) -> None:
    """Ends the process if the weights differ by more than roundings explain: in each step both round the weight once, and their
    way to what they subtract has fewer than sixteen roundings. A beta2 of float, in whose powers too each step may round once,
    makes 1 - beta2^t wrong by 2 t units of 2^-25, of about 0.001 t; half of that, by the root, is in the step."""
    rounding = 2.0**-24
    way = 2.0**-25 / 0.001 if peer.powers_of_beta_in_float else 16 * rounding
    for k, (a, b, w) in enumerate(zip(peer.weights(), ours, before)):
        a, b, w = (x.astype(numpy.float64) for x in (a, b, w))
        bound = 2 * rounding * CHECKED_STEPS * numpy.maximum(abs(w), abs(b)) + 2 * way * abs(b - w)
        wrong = numpy.flatnonzero(~(abs(a - b) <= bound))
        if wrong.size:
            i = wrong[0]
            sys.exit(f"{peer.name}, {what}: after {CHECKED_STEPS} steps weight {i} of tensor {k} is {a[i]:.9g}, ours {b[i]:.9g}")


def check_steps(peer: Any, ours: Any, before: list[Any], what: str) -> None:
    """Ends the process unless the steps of both differ by less than a hundredth of their norm: sums of 2^25 floats in any order, and
    products of bfloat16 in muon, explain so much, and another rule or number does not."""
    for a, b, w in zip(peer.weights(), ours, before):
        a, b, w = (x.astype(numpy.float64).ravel() for x in (a, b, w))
        rounding = CHECKED_STEPS * 2.0**-24 * numpy.linalg.norm(w)
        difference, step = numpy.linalg.norm(a - b), numpy.linalg.norm(b - w)
        if not difference <= 0.01 * step + rounding:
            sys.exit(f"{peer.name}, {what}: after {CHECKED_STEPS} steps of the norm {step:.6g} the weights differ by {difference:.6g}")


def variants_of(group: str, rule: str, threads: int, weights: list[Any], gradients: list[Any]) -> list[Any]:
    ours = Gradstep(rule, threads, weights, gradients, group)
    if group == "paddle":
        return [Paddle(rule, weights, gradients), ours]
    if group == "optax":
        return [Optax(rule, weights, gradients), ours]
    if (group, rule) in NEWER:
        return [Torch(rule, weights, gradients, "default"), ours]
    kinds = ["default", *(["foreach"] if len(weights) > 1 else []), "fused"]
    out = [Torch(rule, weights, gradients, kind) for kind in kinds]
    if rule in ("adam", "adamw") and has_deepspeed():
        out.append(DeepSpeed(rule, weights, gradients))
    return [*out, ours]


@functools.cache
def has_deepspeed() -> bool:
    try:
        import torch
        from deepspeed.ops.adam import DeepSpeedCPUAdam

        DeepSpeedCPUAdam([torch.nn.Parameter(torch.zeros(1))])
        return True
    except Exception as what:  # whatever a compiler, or what looks for one, has to say
        print(f"DeepSpeed's CPUAdam could not be compiled, and is left out: {what}", file=sys.stderr)
        return False


def begin(group: str, threads: int) -> None:
    """Loads the peers, with so many threads, and then gradstep, which looks for their OpenMP."""
    if group == "torch":
        import torch

        torch.set_num_threads(threads)
    elif group == "paddle":
        import paddle

        paddle.set_device("cpu")
        # For others to find: gradstep's threads are then those.
        ctypes.CDLL(str(Path(paddle.__file__).with_name("libs") / "libiomp5.so"), mode=ctypes.RTLD_GLOBAL)
    else:
        # XLA starts as many threads as it may use processors.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
        import jax

        jax.devices()


def child(group: str, threads: int, options: argparse.Namespace) -> None:
    """Races of one process; a line of JSON for each ratio."""
    begin(group, threads)
    random = numpy.random.default_rng(1)
    newer = [(rule, sizes) for (of, rule), (_, sizes) in NEWER.items() if of == group]
    for rule, sizes in newer if options.newer else [(rule, SIZES) for rule in RULES]:
        for size, shapes in sizes.items():
            what = f"{rule}, {size}"
            if not re.search(options.only, f"{group}, {what}, {threads}"):
                continue
            weights = [random.uniform(-1, 1, shape).astype(numpy.float32) for shape in shapes]
            gradients = [random.uniform(-1, 1, shape).astype(numpy.float32) for shape in shapes]
            variants = variants_of(group, rule, threads, weights, gradients)
            for v in variants:
                for _ in range(CHECKED_STEPS):
                    v.step()
            expected = variants[-1].weights()
            for v in variants[:-1]:
                (check_steps if (group, rule) in NEWER else check)(v, expected, weights, what)
            del expected, weights, gradients
            *theirs, ours = race(variants, options.rounds, threads)
            for v, times in zip(variants, theirs):
                low, median, high = quartiles(a / b for a, b in zip(times, ours))
                print(json.dumps({"peer": v.name, "rule": rule, "floats": size, "threads": threads,
                                  "clock": "CPU" if threads == 1 else "wall",
                                  "measured": median, "low": low, "high": high, "their_us": statistics.median(times) * 1e6,
                                  "our_us": statistics.median(ours) * 1e6}), flush=True)
            for v in variants:
                v.close()
            del variants, v


def environment(threads: int) -> dict[str, str]:
    out = dict(os.environ, OMP_NUM_THREADS=str(threads), DS_ACCELERATOR="cpu", JAX_PLATFORMS="cpu", GLOG_minloglevel="2",
               TF_CPP_MIN_LOG_LEVEL="2", DEEPSPEED_LOG_LEVEL="error", CUDA_VISIBLE_DEVICES="",
               THP_MEM_ALLOC_ENABLE="1")  # torch's own switch for huge pages, which gradstep's memory has
    folder = Path(sys.executable).parent
    out["PATH"] = f"{folder}{os.pathsep}{out['PATH']}"  # ninja, by which DeepSpeed is compiled
    out["TORCH_EXTENSIONS_DIR"] = str(folder.parent / "extensions")
    return out


def processor() -> str:
    with open("/proc/cpuinfo") as cpu:
        return next((line.split(":")[1].strip() for line in cpu if line.startswith("model name")), "unknown CPU")


def versions() -> dict[str, str]:
    names = {"torch": "torch", "DeepSpeed": "deepspeed", "paddle": "paddlepaddle", "optax": "optax"}
    out = {name: importlib.metadata.version(package) for name, package in names.items()}
    out["optax"] += f" (jax {importlib.metadata.version('jax')})"
    return out


def draw(path: str, results: list[dict[str, Any]], known: dict[str, str]) -> None:
    """A panel for each rule and number of threads: they / gradstep over the sizes."""
    pyplot = themes.prepare()
    rules = [rule for rule in RULES if any(x["rule"] == rule for x in results)]
    counts = sorted({x["threads"] for x in results})
    sizes = [size for size in SIZES if any(x["floats"] == size for x in results)]
    peers = ("torch default", "torch foreach", "torch fused", "DeepSpeed", "paddle", "optax")
    colours = dict(zip(peers, themes.COLOURS))
    figure, panels = pyplot.subplots(len(rules), len(counts), squeeze=False, sharex=True, sharey=True,
                                     figsize=(4.3 * len(counts) + 0.6, 2.1 * len(rules) + 1.9))
    for row, rule in zip(panels, rules):
        for panel, threads in zip(row, counts):
            panel.axhline(1, color=themes.INK, linewidth=1)
            for peer, colour in colours.items():
                of = [x for x in results if (x["peer"], x["rule"], x["threads"]) == (peer, rule, threads)]
                lone = [x for x in of if x["floats"] == "1000 x 1000"]
                line = [x for x in of if x["floats"] != "1000 x 1000"]
                for part, style in ((line, "o-"), (lone, "D")):
                    at, middle = [sizes.index(x["floats"]) for x in part], [x["measured"] for x in part]
                    beside = [[x["measured"] - x["low"] for x in part], [x["high"] - x["measured"] for x in part]]
                    panel.errorbar(at, middle, beside, fmt=style, color=colour, markersize=3.5, linewidth=1.2,
                                   elinewidth=0.8)
            panel.set_yscale("log", base=2)
            panel.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
            panel.set_title(f"{rule}, {threads} thread{'s' if threads > 1 else ''}", fontsize=10)
            panel.set_xticks(range(len(sizes)), [size.replace(" x ", " x\n") for size in sizes])
            panel.grid(True, axis="y")
    for panel in panels[-1]:
        panel.set_xlabel("floats in a tensor (1000 x 1000: in a thousand tensors)")
    figure.supylabel("their time / gradstep's (log scale); above 1, gradstep is faster", fontsize=10)
    figure.suptitle("Time of a step of other libraries relative to gradstep\n(median and quartiles)", fontweight="bold", fontsize=12)
    here = [peer for peer in colours if any(x["peer"] == peer for x in results)]
    handles = [pyplot.Line2D([], [], color=colours[peer], marker="o", markersize=3.5) for peer in here]
    names = [f"{peer} {known[peer.split()[0]]}" for peer in here]
    figure.legend(handles, names, loc="lower center", ncols=3, frameon=False)
    figure.tight_layout(rect=(0, 0.05, 1, 0.99))
    themes.save(figure, path)


def report(x: dict[str, Any], lines: Lines) -> bool:
    """Prints a ratio; whether it misses what is wanted of it."""
    wanted = WANTED.get((x["peer"], x["rule"], x["floats"], x["threads"]))
    what = f"{x['peer']}, {x['rule']}, {x['floats']}, {x['threads']} thread{'s' if x['threads'] > 1 else ''}"
    more = {name: x[name] for name in ("peer", "rule", "floats", "threads", "clock", "their_us", "our_us")}
    verdict = lines.add(what, Quartiles(x["low"], x["measured"], x["high"]), at_least=wanted, **more)
    print(f"| {what} | {x['measured']:.2f} | {x['low']:.2f} to {x['high']:.2f} | {wanted or ''} | {verdict} | "
          f"{x['their_us']:.4g} | {x['our_us']:.4g} | {x['clock']} |", flush=True)
    return verdict == "MISS"


def measured(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for group in ("torch", "optax") if options.newer else ("torch", "paddle", "optax"):
        for threads in (1,) if options.newer else (1, 2):
            arguments = [sys.executable, __file__, "--child", group, str(threads), "--rounds", str(options.rounds)]
            if options.newer:
                arguments.append("--newer")
            with subprocess.Popen([*arguments, "--only", options.only], env=environment(threads), text=True,
                                  stdout=subprocess.PIPE) as process:
                assert process.stdout is not None
                yield from (json.loads(line) for line in process.stdout if line.startswith("{"))
            if process.returncode:
                sys.exit(process.returncode)


def read_json(path: str) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """The versions and the ratios of a file of --json; of ratios that are there twice, as the file of two runs has them, the later one."""
    known: dict[str, str] = {}
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    with open(path) as file:
        for line in map(json.loads, file):
            if "about" in line:
                known.update(line["about"])
            else:
                found[tuple(line[name] for name in ("peer", "rule", "floats", "threads"))] = line
    return known, list(found.values())


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev bench peers dense", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=25, help="rounds of a comparison (default: 25)")
    parser.add_argument("--only", default="", metavar="REGEX",
                        help='lines that match, as "torch, adam, 64 Ki, 1": process, rule, floats, threads')
    parser.add_argument("--newer", action="store_true", help="rules that few systems have: muon, adafactor, prodigy and others")
    add_option(parser)
    parser.add_argument("--svg", help="draw them into this file")
    parser.add_argument("--from-json", metavar="FILE", help="measure nothing: the ratios of this file")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a line misses what is wanted of it")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], int(options.child[1]), options)
        return 0
    if options.from_json:
        known, found = read_json(options.from_json)
    else:
        import gradstep

        known, found = versions(), measured(options)
        print(f"{processor()}; {', '.join(f'{k} {v}' for k, v in known.items())}; gradstep {gradstep.version()} "
              f"({gradstep.simd_level()}), numpy {numpy.__version__}, Python {sys.version.split()[0]}; {options.rounds} rounds\n")
    print("| they / gradstep | median | quartiles | at least | | their us | our us | clock |")
    print("|---|---|---|---|---|---|---|---|")
    lines = Lines(options.json, known)
    lines.section = "they / gradstep"
    results, missed = [], 0
    for one in found:
        results.append(one)
        missed += report(one, lines)
    if not results:
        sys.exit(f"--only: there is nothing that matches {options.only!r}")
    if options.svg:
        draw(options.svg, results, known)
    return 1 if missed and options.strict else 0


if __name__ == "__main__":
    sys.exit(main())
