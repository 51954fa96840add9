#!/usr/bin/env python3
"""Sparse rows of gradstep against torch and FBGEMM on the CPU: ./dev bench peers rows

Every number is a ratio of steps that ran interleaved in this process, in an order that rotates from round to round:
the median of the ratios of the single rounds, with quartiles. Each has one thread and one untimed step before each
sample, and the batches are so many that a row has left the caches before it comes again. What is timed:

- FBGEMM's generated kernel: the kernel, called from C++ on distinct ids, against a table under assume_unique. No Python.
- torch.optim.Adagrad, torch.optim.SparseAdam: step() on the gradient that nn.Embedding(sparse=True) left, which is not
  coalesced; adding the duplicates is part of step().
- FBGEMM's table batched embedding: backward() of bags of one id, which updates the table; its forward ran some steps
  before, untimed. There is no way to time the update without the backward that contains it.
- gradstep: update(ids, gradient rows), which adds the duplicates, called through ctypes.

Then modules, in a whole step of training: forward of 4096 bags of 20 ids, backward of a given gradient, and update.
gradstep.torch.EmbeddingBag against torch.nn.EmbeddingBag(sparse=True) with an optimizer of torch, and against FBGEMM's
table batched embedding with rowwise Adagrad.
"""
import os

import argparse
import collections
import ctypes
import importlib.util
import logging
import statistics
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from lines import Lines, add_option, quartiles

# torch's wheel has two copies of the record of what the processor can do. Loaded in torch's order, FBGEMM reads the copy
# that is never filled, and runs its scalar reference code. With this library first, all share one copy.
torch_folder = importlib.util.find_spec("torch").submodule_search_locations[0]
processor_record = ctypes.CDLL(os.path.join(torch_folder, "lib", "libc10.so"), mode=ctypes.RTLD_GLOBAL)
processor_record.cpuinfo_initialize()

os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # torch's own switch for huge pages, which gradstep's tables have
import numpy
import torch

logging.disable(logging.WARNING)  # FBGEMM reports the libraries that it loads
import fbgemm_gpu
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
from fbgemm_gpu.split_table_batched_embeddings_ops_training import ComputeDevice, SplitTableBatchedEmbeddingBagsCodegen

import gradstep.torch
from gradstep import dialects

RATE, EPSILON, ZIPF, WIDTH = 0.01, 1e-10, 1.05, 64
BAGS, IDS_OF_BAG = 4096, 20


def seconds(step):
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


class Gradstep:
    """A table of gradstep in our shared library."""

    library = None

    def __init__(self, rule, rows):
        self.table = self.library.peers_new_table(rule.encode(), rows, WIDTH)
        if not self.table:
            sys.exit("no table")

    def step(self, batch):
        ids, gradient = batch
        arguments = self.table, ids.data_ptr(), len(ids), gradient.data_ptr()
        return seconds(lambda: self.library.peers_update(*arguments) and sys.exit("the table refused a batch"))

    def row(self, row):
        out = torch.empty(WIDTH)
        self.library.peers_row(self.table, row, out.data_ptr())
        return out

    @classmethod
    def load(cls, path):
        cls.library = library = ctypes.CDLL(path)
        pointer, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
        library.peers_new_table.argtypes, library.peers_new_table.restype = (text, size, size), pointer
        library.peers_update.argtypes = pointer, pointer, size, pointer
        library.peers_row.argtypes = pointer, ctypes.c_int64, pointer
        library.peers_zipf.argtypes = size, size, size, ctypes.c_double, pointer
        library.peers_race_fbgemm.argtypes = text, ctypes.c_int, size, size, size, ctypes.c_int, pointer, pointer


class Torch:
    """An nn.Embedding with sparse gradients and one of torch's optimizers."""

    def __init__(self, optimizer, rows, **options):
        self.name = optimizer.__name__
        self.weight = torch.nn.Parameter(torch.zeros(rows, WIDTH))
        self.optimizer = optimizer([self.weight], lr=RATE, **options)
        self.gradients = {}  # of each batch, made once: only step() is timed

    def step(self, batch):
        ids, gradient = batch
        if id(batch) not in self.gradients:
            self.weight.grad = None
            torch.nn.functional.embedding(ids, self.weight, sparse=True).backward(gradient)
            self.gradients[id(batch)] = self.weight.grad
        self.weight.grad = self.gradients[id(batch)]
        return seconds(self.optimizer.step)

    def row(self, row):
        return self.weight.detach()[row]


class Tbe:
    """FBGEMM's table batched embedding, with Adagrad in its backward."""

    name = "FBGEMM TBE"
    AHEAD = 4  # forwards before their backward, so that the rows are not in the cache by then

    def __init__(self, rows):
        self.module = SplitTableBatchedEmbeddingBagsCodegen(
            [(rows, WIDTH, EmbeddingLocation.HOST, ComputeDevice.CPU)],
            optimizer=EmbOptimType.EXACT_ADAGRAD, learning_rate=RATE, eps=EPSILON)
        self.weight = self.module.split_embedding_weights()[0]
        self.weight.zero_()
        self.waiting = collections.deque()

    def step(self, batch):
        ids, gradient = batch
        self.waiting.append((self.module(ids, torch.arange(len(ids) + 1)), gradient))
        if len(self.waiting) <= self.AHEAD:
            return 0.0
        output, gradient = self.waiting.popleft()
        return seconds(lambda: output.backward(gradient))

    def finish(self):
        while self.waiting:
            output, gradient = self.waiting.popleft()
            output.backward(gradient)

    def row(self, row):
        return self.weight.detach()[row]


class Module:
    """A module of bags in a whole step. Batches are ids, offsets with the end, weights of samples or None, and a gradient."""

    def step(self, batch):
        ids, offsets, weights, gradient = batch

        def train():
            self.zero_grad()
            self.module(ids, offsets, weights).backward(gradient)
            self.optimizer_step()

        return seconds(train)

    def zero_grad(self):
        pass

    optimizer_step = zero_grad

    def row(self, row):
        return self.weight.detach()[row]


class TorchBag(Module):
    def __init__(self, optimizer, rows, mode, **options):
        self.name = f"torch {optimizer.__name__}"
        self.module = torch.nn.EmbeddingBag(rows, WIDTH, mode=mode, sparse=True, include_last_offset=True, _weight=torch.zeros(rows, WIDTH))
        optimizer = optimizer(self.module.parameters(), lr=RATE, **options)
        self.weight, self.zero_grad, self.optimizer_step = self.module.weight, optimizer.zero_grad, optimizer.step


class TbeBag(Module):
    name = "FBGEMM TBE"

    def __init__(self, rows, mode):
        self.module = SplitTableBatchedEmbeddingBagsCodegen(
            [(rows, WIDTH, EmbeddingLocation.HOST, ComputeDevice.CPU)], optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD,
            learning_rate=RATE, eps=EPSILON, pooling_mode=PoolingMode.MEAN if mode == "mean" else PoolingMode.SUM)
        self.weight = self.module.split_embedding_weights()[0]
        self.weight.zero_()


class GradstepBag(Module):
    def __init__(self, config, rows, mode):
        self.module = gradstep.torch.EmbeddingBag(
            rows, WIDTH, {**config, "table": {"initial": 0}}, mode=mode, include_last_offset=True)

    def row(self, row):
        return torch.from_numpy(self.module.table.row(row))


def interleave(variants, batches, rounds):
    """Seconds of a step of each, round by round. Each walks through the batches, and they start apart."""
    places = [k * len(batches) // len(variants) for k in range(len(variants))]

    def next_step(k):
        places[k] += 1
        return variants[k].step(batches[places[k] % len(batches)])

    times = [[] for _ in variants]
    for round in range(rounds):
        for k in range(len(variants)):
            k = (k + round) % len(variants)
            next_step(k)
            times[k].append(next_step(k))
    return times


def report(lines, what, theirs, ours, bound, rows, missed):
    low, median, high = ratio = quartiles(a / b for a, b in zip(theirs, ours))
    theirs, ours = ([t * 1e9 / rows for t in of] for of in (theirs, ours))
    verdict = lines.add(what, ratio, at_least=bound)
    lines.add(f"{what}: theirs", quartiles(theirs), "ns an id")
    lines.add(f"{what}: ours", quartiles(ours), "ns an id")
    if verdict == "MISS":
        missed.append(what)
    each = " | ".join(f"{statistics.median(t):.0f}" for t in (theirs, ours))
    print(f"| {what} | {median:.2f} | {low:.2f} to {high:.2f} | {bound} | {verdict} | {each} |", flush=True)


def huge_pages(tensor):
    """How much of a tensor's mapping the system keeps in huge pages."""
    address, here = tensor.data_ptr(), False
    size = 0
    with open("/proc/self/smaps") as maps:
        for line in maps:
            fields = line.split()
            if "-" in fields[0] and not fields[0].endswith(":"):
                begin, end = (int(x, 16) for x in fields[0].split("-"))
                here = begin <= address < end
            elif here and fields[0] == "Rss:":
                size = int(fields[1])
            elif here and fields[0] == "AnonHugePages:":
                return f"{100 * int(fields[1]) // max(size, 1)} %"
    return "unknown"


def fbgemm_library():
    return os.path.join(os.path.dirname(fbgemm_gpu.__file__), "fbgemm.so")


def fbgemm_instructions():
    """What FBGEMM believes that the processor can do."""
    library = ctypes.CDLL(fbgemm_library())
    for name, function in (("AVX512", "fbgemmHasAvx512Support"), ("AVX2", "fbgemmHasAvx2Support")):
        has = getattr(library, f"_ZN6fbgemm{len(function)}{function}Ev")
        has.restype = ctypes.c_bool
        if has():
            return name
    return "scalar code"


def processor():
    with open("/proc/cpuinfo") as cpu:
        return next((line.split(":")[1].strip() for line in cpu if line.startswith("model name")), "unknown CPU")


def race_fbgemm_kernel(lines, options, missed):
    path = fbgemm_library().encode()
    for width in (64, 128):
        for bits in (64, 32):
            theirs, ours = numpy.zeros(options.rounds), numpy.zeros(options.rounds)
            if Gradstep.library.peers_race_fbgemm(path, bits, options.rows, width, options.batch, options.rounds,
                                                  theirs.ctypes.data, ours.ctypes.data):
                sys.exit(1)
            what = f"FBGEMM SparseAdaGrad, distinct int{bits} ids, width {width}"
            report(lines, what, theirs, ours, 1.25, options.batch, missed)


def race_with_duplicates(lines, options, missed):
    ids = torch.empty(options.batches, options.batch, dtype=torch.int64)
    if Gradstep.library.peers_zipf(options.rows, options.batch, options.batches, ZIPF, ids.data_ptr()):
        sys.exit(1)
    batches = [(some, torch.rand(options.batch, WIDTH) * 2 - 1) for some in ids]

    adagrad, adam = Gradstep("adagrad", options.rows), Gradstep("adam", options.rows)
    torch_adagrad = Torch(torch.optim.Adagrad, options.rows, eps=EPSILON)
    torch_adam = Torch(torch.optim.SparseAdam, options.rows)
    tbe = Tbe(options.rows)
    variants = [torch_adagrad, adagrad, torch_adam, adam, tbe]

    for variant in variants:  # touches all pages, and does the same to all
        for batch in batches:
            variant.step(batch)
    tbe.finish()
    for row in ids[0][:1000].tolist():
        # SparseAdam adds epsilon to the root before its bias correction: that shows where a gradient is near 0.
        for one, other, apart in ((torch_adagrad, adagrad, 1e-5), (tbe, adagrad, 1e-5),
                                  (torch_adam, adam, 0.05 * RATE)):
            difference = (one.row(row) - other.row(row)).abs().max().item()
            if not difference <= apart:
                sys.exit(f"{one.name} and gradstep differ in row {row} by {difference}")
    for batch in batches[:Tbe.AHEAD]:
        tbe.step(batch)

    times = interleave(variants, batches, options.rounds)
    with_duplicates = f"Zipf {ZIPF}, width {WIDTH}"
    report(lines, f"torch sparse Adagrad, step, {with_duplicates}", times[0], times[1], 5, options.batch, missed)
    report(lines, f"torch SparseAdam, step, {with_duplicates}", times[2], times[3], 6, options.batch, missed)
    report(lines, f"FBGEMM TBE Adagrad, backward and update, {with_duplicates}", times[4], times[1], 4.2, options.batch,
           missed)
    distinct = sum(len(torch.unique(some)) for some in ids) / ids.numel()
    print(f"\n{100 * distinct:.0f} % of the ids of a batch with duplicates are distinct. In huge pages: torch's weights "
          f"{huge_pages(torch_adagrad.weight)}, FBGEMM's {huge_pages(tbe.weight)}.")


def race_modules(lines, options, missed):
    count = BAGS * IDS_OF_BAG
    ids = torch.empty(options.batches, count, dtype=torch.int64)
    if Gradstep.library.peers_zipf(options.rows, count, options.batches, ZIPF, ids.data_ptr()):
        sys.exit(1)
    offsets = torch.arange(0, count + 1, IDS_OF_BAG)
    adagrad, adam = dialects.torch.adagrad(lr=RATE, eps=EPSILON), dialects.torch.sparse_adam(lr=RATE)
    rowwise = dialects.fbgemm.exact_rowwise_adagrad(lr=RATE, eps=EPSILON)
    races = [(lambda mode: TorchBag(torch.optim.Adagrad, options.rows, mode, eps=EPSILON), adagrad, ("sum", "mean", "weighted"), 4),
             (lambda mode: TorchBag(torch.optim.SparseAdam, options.rows, mode), adam, ("sum", "mean", "weighted"), 4),
             (lambda mode: TbeBag(options.rows, mode), rowwise, ("sum", "mean", "weighted"), 2)]
    for make, config, modes, bound in races:
        for mode in modes:
            weights = [torch.rand(count) + 0.5 if mode == "weighted" else None for _ in ids]
            batches = [(some, offsets, of_ids, torch.rand(BAGS, WIDTH) * 2 - 1) for some, of_ids in zip(ids, weights)]
            kind = "mean" if mode == "mean" else "sum"
            theirs, ours = variants = [make(kind), GradstepBag(config, options.rows, kind)]
            for variant in variants:  # touches all pages, and does the same to both
                for batch in batches:
                    variant.step(batch)
            for row in ids[0][:1000].tolist():
                difference = (theirs.row(row) - ours.row(row)).abs().max().item()
                if not difference <= 1e-5:
                    sys.exit(f"{theirs.name}, {mode}, and gradstep.torch differ in row {row} by {difference}")
            times = interleave(variants, batches, options.rounds)
            report(lines, f"{theirs.name}, {mode} of {BAGS} bags of {IDS_OF_BAG}, width {WIDTH}", *times, bound, count, missed)


def main():
    parser = argparse.ArgumentParser(prog="./dev bench peers rows", description=__doc__.splitlines()[0])
    parser.add_argument("library", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=25, help="rounds of a comparison (default: 25)")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of a table (default: 1000000)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a line misses its bound")
    add_option(parser)
    options = parser.parse_args()
    options.batch = 64 * 1024
    options.batches = 16

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="Sparse invariant checks")
    torch.manual_seed(1)
    Gradstep.load(options.library)
    with open("/sys/kernel/mm/transparent_hugepage/enabled") as setting:
        pages = setting.read().strip()
    print(f"{processor()}, one thread; transparent huge pages {pages}")
    print(f"torch {torch.__version__} ({torch.backends.cpu.get_cpu_capability()}), "
          f"fbgemm-gpu-cpu {fbgemm_gpu.__version__} ({fbgemm_instructions()}), "
          f"numpy {numpy.__version__}, Python {sys.version.split()[0]}")
    print(f"Tables of {options.rows} rows, batches of {options.batch} ids, {options.rounds} rounds.\n")
    print("| they / gradstep | median | quartiles | at least | | their ns an id | our ns an id |")
    print("|---|---|---|---|---|---|---|")
    missed = []
    lines = Lines(options.json, {
        "torch": f"{torch.__version__} ({torch.backends.cpu.get_cpu_capability()})", "numpy": numpy.__version__,
        "fbgemm-gpu-cpu": f"{fbgemm_gpu.__version__} ({fbgemm_instructions()})", "Python": sys.version.split()[0]})
    lines.section = "they / gradstep"
    race_fbgemm_kernel(lines, options, missed)
    race_with_duplicates(lines, options, missed)
    lines.section = "whole steps of modules: they / gradstep.torch"
    print(f"\nWhole steps of modules: forward of {BAGS} bags of {IDS_OF_BAG} ids, backward, update.\n")
    print("| they / gradstep.torch | median | quartiles | at least | | their ns an id | our ns an id |")
    print("|---|---|---|---|---|---|---|")
    race_modules(lines, options, missed)
    return 1 if missed and options.strict else 0


if __name__ == "__main__":
    sys.exit(main())
