#!/usr/bin/env python3
"""Which weights 1000 steps of AdamW give for different instruction sets, numbers of threads and splits: gradstep beside torch.

Compiles reproducible.cpp for each instruction set that this machine runs, AArch64 under qemu among them, and takes the same steps
with torch.optim.AdamW. Prints a hash of the weights of each run. An instruction set whose compiler or processor is missing is left
out.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from lines import Lines, Quartiles, add_option

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs/pictures"))

ELEMENTS, STEPS = 80_021, 1000  # as many elements as gradstep splits over eight threads, and an odd tail
COLUMNS = {"1 thread": (1, 1), "2 threads": (2, 1), "8 threads": (8, 1), "in 7 parts": (1, 7)}  # threads and parts
Hashes = dict[str, dict[str, str]]  # of the runs: by system, then by column


def hash_of(weights: bytes) -> str:
    return hashlib.sha256(weights).hexdigest()[:8]


def processor_has(*flags: str) -> bool:
    words = Path("/proc/cpuinfo").read_text().split()
    return all(flag in words for flag in flags)


def builds() -> dict[str, tuple[list[str], list[str], bool]]:
    """What compiles, what runs the program, and whether the instruction set has FMA, by name."""
    found = {}
    for compiler, name in (("g++", "g++"), ("clang++-16", "clang")):
        if shutil.which(compiler):
            if processor_has("avx2", "fma"):
                found[f"AVX2, {name}"] = ([compiler, "-march=x86-64-v3"], [], True)
            if processor_has("avx512f", "avx512bw", "avx512dq", "avx512vl"):
                found[f"AVX-512, {name}"] = ([compiler, "-march=x86-64-v4"], [], True)
    if shutil.which("aarch64-linux-gnu-g++") and shutil.which("qemu-aarch64"):
        found["NEON (qemu), g++"] = (["aarch64-linux-gnu-g++"], ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"], True)
    if processor_has("sse2"):
        found["SSE2 (no FMA), g++"] = (["g++", "-march=x86-64"], [], False)
    return found


def of_gradstep(elements: int, steps: int, has_fma: bool) -> Hashes:
    found: Hashes = {}
    with tempfile.TemporaryDirectory() as folder:
        headers = Path(folder) / "include"  # xsimd and xtl alone: /usr/include is no folder for another processor
        headers.mkdir()
        for name in ("xsimd", "xtl"):
            (headers / name).symlink_to(Path("/usr/include") / name)
        for name, (compiler, runner, its_fma) in builds().items():
            if its_fma != has_fma:
                continue
            program = Path(folder) / "reproducible"
            subprocess.run([*compiler, "-std=c++20", "-O2", "-pthread", f"-I{ROOT / 'include'}", f"-I{headers}",
                            ROOT / "benchmarks/reproducible.cpp", "-o", program], check=True)
            found[name] = {column: hash_of(subprocess.run([*runner, program, *map(str, (elements, steps, threads, parts))],
                                                          check=True, stdout=subprocess.PIPE).stdout)
                           for column, (threads, parts) in COLUMNS.items()}
    return found


def torch_weights(kind: str, elements: int, steps: int, threads: int, parts: int) -> bytes:
    """The weights after the steps of reproducible.cpp, taken by torch in this process."""
    import numpy
    import torch

    torch.set_num_threads(threads)
    mixed = numpy.arange(elements, dtype=numpy.uint32) * numpy.uint32(2654435761)

    def pattern(step: int) -> numpy.ndarray:
        x = (mixed ^ numpy.uint32(step * 2246822519 % 2**32)) >> 16
        return (x.astype(numpy.float32) - numpy.float32(32768)) / numpy.float32(32768)

    cuts = [k * elements // parts for k in range(parts + 1)]

    def tensors(values: numpy.ndarray) -> list[torch.Tensor]:
        return [torch.from_numpy(values[begin:end].copy()) for begin, end in zip(cuts, cuts[1:])]

    weights = tensors(pattern(0))
    for x in weights:
        x.requires_grad_()
    options = {"default": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}[kind]
    adamw = torch.optim.AdamW(weights, lr=1e-3, weight_decay=0.01, **options)
    for step in range(1, steps + 1):
        for x, gradient in zip(weights, tensors(pattern(step))):
            x.grad = gradient
        adamw.step()
    return b"".join(x.detach().numpy().tobytes() for x in weights)


def of_torch(elements: int, steps: int) -> Hashes:
    """One process for each optimizer and instruction set, which torch reads when it is loaded."""
    capabilities = {"default": "SSE2", "avx2": "AVX2", "avx512": "AVX-512"}
    if not processor_has("avx512f", "avx512bw", "avx512dq", "avx512vl"):
        del capabilities["avx512"]
    found: Hashes = {}
    for kind in ("default", "foreach", "fused"):
        for capability, name in capabilities.items():
            hashes = subprocess.run([sys.executable, __file__, "--torch", kind, str(elements), str(steps)], check=True, text=True,
                                    stdout=subprocess.PIPE, env={**os.environ, "ATEN_CPU_CAPABILITY": capability}).stdout.split()
            found[f"{kind}, {name}"] = dict(zip(COLUMNS, hashes))
    return found


def picture(groups: dict[str, Hashes]) -> str:
    """A table of the hashes. Each result has its own colour."""
    from draw import svg, text  # docs/pictures/draw.py

    colours = ("#0969da", "#bc4c00", "#8250df", "#1a7f37", "#bf3989", "#9a6700", "#57606a", "#cf222e", "#1b7c83")
    colour_of: dict[str, str] = {}
    left, width, y, parts = 190, 128, 68, []
    parts += [text(left + width * k + width / 2 - 4, 54, column, "small") for k, column in enumerate(COLUMNS)]
    for group, systems in groups.items():
        parts.append(text(16, y + 14, group, "title", "start"))
        y += 26
        for name, hashes in systems.items():
            parts.append(text(left - 12, y + 17, name, "small", "end"))
            for k, found in enumerate(hashes.values()):
                colour = colour_of.setdefault(found, colours[len(colour_of) % len(colours)])
                x = left + width * k
                parts += [f'<rect x="{x}" y="{y}" width="{width - 8}" height="24" rx="4" style="fill: {colour}"/>',
                          f'<text x="{x + width / 2 - 4}" y="{y + 17}" text-anchor="middle" style="fill: #ffffff; font-family: monospace">'
                          f"{found}</text>"]
            y += 28
        y += 10
    return svg(left + width * len(COLUMNS) + 8, y, "Hashes of the weights after 1000 steps of AdamW, by instruction set, threads and split",
               text(16, 24, f"Weights after {STEPS} steps of AdamW on {ELEMENTS} floats, as a hash: equal colours are equal bits", "", "start"), *parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="take few steps, to see whether everything runs")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw the hashes")
    parser.add_argument("--torch", nargs=3, metavar=("KIND", "ELEMENTS", "STEPS"), help=argparse.SUPPRESS)
    add_option(parser)
    given = parser.parse_args()
    if given.torch:
        kind, elements, steps = given.torch[0], *map(int, given.torch[1:])
        print(*(hash_of(torch_weights(kind, elements, steps, threads, parts)) for threads, parts in COLUMNS.values()))
        return
    import torch

    steps = 3 if given.quick else STEPS
    groups = {"gradstep": of_gradstep(ELEMENTS, steps, True), "gradstep without FMA": of_gradstep(ELEMENTS, steps, False),
              f"torch {torch.__version__.partition('+')[0]}": of_torch(ELEMENTS, steps)}
    lines = Lines(given.json, {"torch": torch.__version__})
    lines.section = f"{steps} steps of AdamW"
    missed = False
    for group, systems in groups.items():
        print(f"\n| {group} | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 1)}")
        for name, hashes in systems.items():
            print(f"| {name} | {' | '.join(hashes.values())} |")
        every = [found for hashes in systems.values() for found in hashes.values()]
        bound = {"at_most": 1} if group.startswith("gradstep") else {}
        lines.add(f"{group}: runs", Quartiles(*[len(every)] * 3), "count")
        missed |= lines.add(f"{group}: different weights", Quartiles(*[len(set(every))] * 3), "count", **bound) == "MISS"
    if given.svg:
        given.svg.write_text(picture(groups))
    sys.exit(missed)


if __name__ == "__main__":
    main()
