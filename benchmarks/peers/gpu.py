#!/usr/bin/env python3
"""Steps of gradstep on a GPU beside torch's: ./dev bench peers gpu

Both update the same kinds of tensors, on torch's stream. Every number is a ratio of steps that ran interleaved in this process:
the median of the ratios of the single rounds, with quartiles. A sample is the device's time from before the first of some steps to
after the last, steps put on the stream one after another, as in a training loop. First both take the same steps and are compared.

- torch.optim with fused=True, or with foreach=True where torch has no fused one, on gradients that are there.
- torch.optim.Adagrad and SparseAdam on the sparse gradient of an embedding, which is not coalesced; adding duplicates is part of the step.
"""
import argparse
import ctypes
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from lines import Lines, add_option, quartiles

import torch

RATE, STEPS_COMPARED = 0.01, 4
DIFFERENT = []  # a line for each comparison of values that failed
POINTER, SIZE = ctypes.c_void_p, ctypes.c_size_t


def gpt2_small():
    """The shapes of GPT-2 with 124 million parameters: 148 tensors, of 768 to 38.6 million elements."""
    width, layers, words, places = 768, 12, 50257, 1024
    layer = [width, width, width * 3 * width, 3 * width, width * width, width, width, width, width * 4 * width, 4 * width,
             4 * width * width, width]
    return [words * width, places * width] + layers * layer + [width, width]


MODELS = {
    "one tensor of 2^28": [1 << 28],
    "one tensor of 2^20": [1 << 20],
    "GPT-2 small": gpt2_small(),
    "1000 tensors of 1000": [1000] * 1000,
}
RULES = {
    "sgd": lambda p: torch.optim.SGD(p, lr=RATE, fused=True),
    "momentum": lambda p: torch.optim.SGD(p, lr=RATE, momentum=0.9, fused=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=RATE, foreach=True),
    "adam": lambda p: torch.optim.Adam(p, lr=RATE, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=RATE, fused=True),
    "adamw, foreach": lambda p: torch.optim.AdamW(p, lr=RATE, foreach=True),
}


def load(path):
    library = ctypes.CDLL(path)
    library.peers_gpu_new.argtypes, library.peers_gpu_new.restype = (ctypes.c_char_p, SIZE, POINTER, POINTER, POINTER, POINTER), POINTER
    library.peers_gpu_new_table.argtypes, library.peers_gpu_new_table.restype = (ctypes.c_char_p, SIZE, SIZE, POINTER), POINTER
    library.peers_gpu_step.argtypes = library.peers_gpu_delete.argtypes = library.peers_gpu_delete_table.argtypes = (POINTER,)
    library.peers_gpu_update.argtypes = POINTER, POINTER, SIZE, POINTER, SIZE
    library.peers_gpu_copy.argtypes = POINTER, POINTER, SIZE
    return library


def must(result, what):
    if result != 0:
        sys.exit(f"gradstep could not {what}")


def seconds(step, repeats):
    """Of one step, on the device."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(repeats):
        step()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3 / repeats


class Report:
    def __init__(self, options):
        self.rounds = options.rounds
        self.lines = Lines(options.json, {"GPU": torch.cuda.get_device_name(), "torch": torch.__version__})
        self.lines.section = "a GPU: torch / gradstep"

    def race(self, what, theirs, ours, seconds_wanted=0.02):
        repeats = max(1, min(200, int(seconds_wanted / max(seconds(theirs, 3), seconds(ours, 3)))))
        samples = []
        for round in range(self.rounds + 1):
            pair = [seconds(step, repeats) for step in ((theirs, ours) if round % 2 else (ours, theirs))]
            samples.append(pair if round % 2 else pair[::-1])
        samples = samples[1:]  # the first one warms up
        ratio = quartiles(a / b for a, b in samples)
        microseconds = [statistics.median(s[k] for s in samples) * 1e6 for k in (0, 1)]
        self.lines.add(what, ratio)
        print(f"| {what} | {ratio.median:.2f} | {ratio.low:.2f} to {ratio.high:.2f} | {microseconds[0]:.0f} | {microseconds[1]:.0f} |",
              flush=True)


def require_close(a, b, what):
    # Each step rounds an update of at most about 4 rates, in some 16 operations, and a weight.
    bound = STEPS_COMPARED * 2.0 ** -24 * (16 * 4 * RATE + max(1.0, float(b.abs().max())))
    apart = float((a - b).abs().max())
    if not apart <= bound:
        DIFFERENT.append(f"{what}: gradstep and torch differ by {apart}; expected at most {bound}")


def dense(library, report, model, sizes, rule, make):
    torch.manual_seed(1)
    tensors = {}
    for who in ("torch", "gradstep"):
        weights = [torch.nn.Parameter(torch.ones(n, device="cuda")) for n in sizes]
        tensors[who] = weights
    for a, b in zip(*tensors.values()):
        a.grad = torch.rand_like(a) + 0.5
        b.grad = a.grad
    optimizer = make(tensors["torch"])
    of = tensors["gradstep"]
    count = len(sizes)
    pointers = [(POINTER * count)(*(x.data_ptr() for x in each)) for each in (of, [w.grad for w in of])]
    stream = torch.cuda.current_stream().cuda_stream
    ours = library.peers_gpu_new(rule.split(",")[0].encode(), count, (SIZE * count)(*sizes), *pointers, stream)
    if not ours:
        sys.exit(f"gradstep has no {rule}")
    for _ in range(STEPS_COMPARED):
        optimizer.step()
        must(library.peers_gpu_step(ours), "take a step")
    for a, b in zip(*tensors.values()):
        require_close(a.detach(), b.detach(), f"{rule}, {model}")
    report.race(f"{rule}, {model}", optimizer.step, lambda: must(library.peers_gpu_step(ours), "take a step"))
    library.peers_gpu_delete(ours)


def tables(library, report, rows, batch, width, only):
    for rule, make in (("adagrad", torch.optim.Adagrad), ("adam", torch.optim.SparseAdam)):
        name = f"a table of {rule}, {rows} x {width}"
        if only not in name:
            continue
        torch.manual_seed(1)
        weight = torch.nn.Parameter(torch.zeros(rows, width, device="cuda"))
        optimizer = make([weight], lr=RATE)
        table = library.peers_gpu_new_table(rule.encode(), rows, width, torch.cuda.current_stream().cuda_stream)
        if not table:
            sys.exit(f"no table of {rule}")
        # A Zipf law of exponent 1.05 by its inverse, on shuffled rows.
        shuffled = torch.randperm(rows, device="cuda")
        uniform = torch.rand(8, batch, device="cuda", dtype=torch.float64)
        top = rows ** -0.05
        ranks = ((1 - uniform * (1 - top)) ** (-1 / 0.05) - 1).long().clamp(0, rows - 1)
        batches = [(shuffled[some], torch.rand(batch, width, device="cuda") - 0.5) for some in ranks]
        sparse = [torch.sparse_coo_tensor(ids[None], g, (rows, width), check_invariants=False) for ids, g in batches]
        turn = {"torch": 0, "gradstep": 0}

        def next_of(who, of):
            turn[who] += 1
            return of[turn[who] % len(of)]

        def theirs():
            weight.grad = next_of("torch", sparse)
            optimizer.step()

        def ours():
            ids, g = next_of("gradstep", batches)
            must(library.peers_gpu_update(table, ids.data_ptr(), batch, g.data_ptr(), width), "update a table")

        for _ in range(STEPS_COMPARED):
            theirs(), ours()
        out = torch.empty(rows, width)
        must(library.peers_gpu_copy(table, out.data_ptr(), rows * width), "copy a table")
        # torch adds duplicates in an order that differs from run to run, and SparseAdam adds epsilon before its correction: a check
        # that both do the same, not of bits.
        touched = torch.cat([ids for ids, _ in batches[1:1 + STEPS_COMPARED]]).unique().cpu()
        apart = (out[touched] - weight.detach().cpu()[touched]).abs()
        if not float(apart.mean()) < 1e-3 * RATE:
            DIFFERENT.append(f"{rule}: the tables differ by {float(apart.mean())} on average")
        distinct = sum(len(ids.unique()) for ids, _ in batches) / len(batches) / batch
        report.race(f"{name}, {batch} ids of which {100 * distinct:.0f} % distinct", theirs, ours)
        library.peers_gpu_delete_table(table)


def main():
    parser = argparse.ArgumentParser(prog="./dev bench peers gpu", description=__doc__.splitlines()[0])
    parser.add_argument("library", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=15, help="rounds of a comparison (default: 15)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only lines whose name contains this text")
    add_option(parser)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("torch finds no GPU here")
    library, report = load(options.library), Report(options)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, CUDA {torch.version.cuda}, {options.rounds} rounds\n")
    print("| torch / gradstep | median | quartiles | torch, us | gradstep, us |\n|---|---|---|---|---|")
    for model, sizes in MODELS.items():
        for rule, make in RULES.items():
            if options.only in f"{rule}, {model}":
                dense(library, report, model, sizes, rule, make)
    for width in (16, 64):
        tables(library, report, 1 << 21, 1 << 16, width, options.only)
    return "\n".join(DIFFERENT) or 0


if __name__ == "__main__":
    sys.exit(main())
