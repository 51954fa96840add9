#!/usr/bin/env python3
"""Builds and runs a benchmark. ./dev bench calls this file.

  [ARGUMENTS]                  dense steps, threads, tables, compression (./dev bench --help)
  peers                        dense and rows, as follows
  peers dense [ARGUMENTS]      dense steps against torch, DeepSpeed, paddle and optax from PyPI, in build/dense_peers
                               (./dev bench peers dense --help)
  peers newer [ARGUMENTS]      newer rules, such as muon, adafactor and prodigy, against torch and optax
  peers rows [ARGUMENTS]       sparse rows against torch and FBGEMM from PyPI, in build/peers
  peers online [ARGUMENTS]     online learning from a CSV file against Vowpal Wabbit and scikit-learn from PyPI, in build/online_peers
  python [ARGUMENTS]           steps through Python, and steps of gradstep.torch against torch's
  compile [ARGUMENTS]          what gradstep costs to compile (./dev bench compile --help)
  checkpoint [ARGUMENTS]       save and load of a model of 1 GiB, beside plain writing and reading of as many bytes
  callers [--quick] [--json FILE]
                               what a step costs in C++, and through the C library from C, Go, Rust and Python; pushes to a
                               server in C++ and in Go; and the library beside the same updates compiled for this machine
  libtorch [ARGUMENTS]         steps of gradstep::torch_optim beside torch::optim's in C++, with torch from PyPI in build/peers, and
                               what its header costs to compile
  before REVISION [ARGUMENTS]  the library beside another revision of it: dense steps and tables of both by turns, and
                               whether they give the same bits
  distributed [ARGUMENTS]      two ranks under MPI: steps beside computation and MPI's own all-reduce
  distributed --measured FILE  steps of every mode with 1 to 4 processes, for simulate --measured FILE
  simulate [ARGUMENTS]         how far each mode of training on several machines scales, simulated for up to 1000 workers
                               (./dev bench simulate --help); simpy comes from PyPI into build/simulation_venv
  keyed [ARGUMENTS]            tables indexed by keys beside tables indexed by rows, and their index beside other hash maps
  gpu [--only PART]            updates on the GPU of this machine beside its copy of as many bytes; many tensors, norms, tables
  peers gpu [ARGUMENTS]        steps on the GPU beside torch's, with the torch of python3 (./dev bench peers gpu --help)
  reproducible [ARGUMENTS]     whether AdamW gives the same bits for every instruction set, number of threads and split, beside torch
  dlib, ensmallen [ARGUMENTS]  steps of these frameworks beside gradstep's in them
  report [ARGUMENTS]           all benchmarks except before, dlib, ensmallen, gpu, libtorch, simulate and rounding: one page with the machine,
                               versions, tables and pictures in build/report; --without PART leaves one out
                               (./dev bench report --help)
  rounding                     tables of rounding errors: every rule in every dtype, against its formula
  rounding FILE.svg            draw the rounding errors of two rules over 1000 steps
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Callable, NoReturn

ROOT = Path(__file__).resolve().parent.parent
RELEASE = ROOT / "build/release"
PROGRAMS = RELEASE / "benchmarks"
PACKAGE = ROOT / "bindings/python"


def dev(*arguments: str | Path) -> None:
    """./dev, whose output is no part of a benchmark's."""
    subprocess.run([ROOT / "dev", *arguments], check=True, stdout=sys.stderr)


def build(*targets: str, preset: str = "release") -> None:
    dev("build", preset, *targets)


def become(*command: str | Path, **environment: str | Path) -> NoReturn:
    """Runs a program in place of this one, in the caller's folder, since paths among the arguments are the caller's."""
    sys.stdout.flush()
    os.environ.update({name: str(value) for name, value in environment.items()})
    os.execvp(command[0], [str(part) for part in command])


def run_built(program: str, *arguments: str) -> NoReturn:
    build(program)
    become(PROGRAMS / program, *arguments)


# Python beside other systems.

def torch_python(folder: Path, requirements: str) -> tuple[Path, dict[str, str]]:
    """The Python of an environment that has torch, and what it needs in the environment."""
    dev("need", "python3-venv", "binutils")
    dev("environment", folder, ROOT / requirements)
    stubs = folder / "cuda_stubs"
    if not stubs.is_dir():
        part = folder / "cuda_stubs.part"
        shutil.rmtree(part, ignore_errors=True)
        libraries = next(folder.glob("lib/python3*/site-packages/torch/lib"))
        subprocess.run([ROOT / "benchmarks/peers/cuda_stubs.sh", libraries, part], check=True)
        part.rename(stubs)
    return folder / "bin/python", {"LD_LIBRARY_PATH": str(stubs)}


def libtorch(preset: str, *targets: str) -> dict[str, str]:
    """Builds targets with gradstep::libtorch, for the torch in build/peers. Returns what programs need in the environment."""
    python, environment = torch_python(ROOT / "build/peers", "benchmarks/peers/requirements.txt")
    for step in (["--preset", preset, "-DGRADSTEP_LIBTORCH=ON", f"-DTorch_ROOT={torch_folder()}"],
                 ["--build", "--preset", preset, "--target", *targets]):
        subprocess.run(["cmake", *step], check=True, stdout=sys.stderr, cwd=ROOT)
    return environment


def torch_folder() -> Path:
    return next((ROOT / "build/peers").glob("lib/python3*/site-packages/torch"))


def gradstep_python(preset: str) -> dict[str, str]:
    """Writes the package for Python into build/python. Returns the environment with it and the C library of a preset."""
    sys.path.insert(0, str(PACKAGE))
    from build_wheel import write_package

    write_package(ROOT / "build/python")
    return {"GRADSTEP_LIBRARY": str(ROOT / "build" / preset / "bindings/c/libgradstep.so"), "PYTHONPATH": str(ROOT / "build/python")}


def peers_dense(*arguments: str) -> NoReturn:
    dev("need", "python3-dev")  # by which DeepSpeed's CPUAdam is compiled
    build("gradstep_c")
    python, environment = torch_python(ROOT / "build/dense_peers", "benchmarks/peers/dense.txt")
    become(python, ROOT / "benchmarks/peers/dense.py", *arguments, **environment, **gradstep_python("release"))


def peers_rows(*arguments: str) -> NoReturn:
    build("gradstep_peers", "gradstep_c")
    python, environment = torch_python(ROOT / "build/peers", "benchmarks/peers/requirements.txt")
    become(python, ROOT / "benchmarks/peers/rows.py", PROGRAMS / "libgradstep_peers.so", *arguments, **environment,
           **gradstep_python("release"))


def peers_online(*arguments: str) -> NoReturn:
    build("gradstep_c")
    folder = ROOT / "build/online_peers"
    dev("environment", folder, ROOT / "benchmarks/peers/online.txt")
    become(folder / "bin/python", ROOT / "benchmarks/peers/online.py", *arguments, **gradstep_python("release"))


def nvcc(program: str, source: str, *options: str) -> Path:
    """Compiles for the GPU of this machine. Only the CUDA toolkit is needed: gradstep has none of its own for a GPU."""
    folder = ROOT / "build/gpu"
    folder.mkdir(parents=True, exist_ok=True)
    command = ["nvcc", "-std=c++20", "-O3", "-arch=native", f"-I{ROOT / 'include'}", *options, str(ROOT / source), "-o", str(folder / program)]
    if shutil.which("nvcc") is None:
        sys.exit("dev: nvcc is not on PATH, and a benchmark of a GPU is compiled with it")
    subprocess.run(command, check=True, stdout=sys.stderr)
    return folder / program


def peers_gpu(*arguments: str) -> NoReturn:
    library = nvcc("libgradstep_gpu_peers.so", "benchmarks/peers/gpu.cu", "-shared", "-Xcompiler=-fPIC,-fvisibility=hidden")
    become("python3", ROOT / "benchmarks/peers/gpu.py", library, *arguments)


def peers(which: str = "", *arguments: str) -> NoReturn:
    if which == "dense":
        peers_dense(*arguments)
    if which == "newer":
        peers_dense("--newer", *arguments)
    if which == "rows":
        peers_rows(*arguments)
    if which == "online":
        peers_online(*arguments)
    if which == "gpu":
        peers_gpu(*arguments)
    if which:
        sys.exit(f"dev: bench peers knows dense, newer, rows, online and gpu, and not '{which}'")
    subprocess.run([sys.executable, __file__, "peers", "rows"], check=True)
    peers_dense()


def python(*arguments: str) -> NoReturn:
    build("gradstep_c")
    program, environment = torch_python(ROOT / "build/peers", "benchmarks/peers/requirements.txt")
    become(program, PACKAGE / "benchmarks/steps.py", *arguments, **environment, **gradstep_python("release"))


def reproducible(*arguments: str) -> NoReturn:
    dev("need", "build", "aarch64")
    python, environment = torch_python(ROOT / "build/peers", "benchmarks/peers/requirements.txt")
    become(python, ROOT / "benchmarks/reproducible.py", *arguments, **environment)


# The other commands.

def callers(*arguments: str) -> None:
    library = RELEASE / "bindings/c"
    dev("need", "callers")
    dev("environment", ROOT / "build/python_venv", PACKAGE / "tests/requirements.txt")
    in_python = f"{ROOT / 'build/python_venv/bin/python'} {PACKAGE / 'benchmarks/call_cost.py'}"
    build("gradstep_call_cost", "gradstep_pushes", "gradstep_beside_library")
    os.environ.update(LD_LIBRARY_PATH=str(library), CGO_CFLAGS=f"-O2 -I{ROOT / 'include'}", CGO_LDFLAGS=f"-L{library}",
                      GRADSTEP_LIB_DIR=str(library), GOPROXY="off")
    for program, name in (("call_cost", "call_cost_go"), ("push_server", "push_server_go")):
        subprocess.run(["go", "build", "-o", PROGRAMS / name, f"./internal/{program}"], check=True, stdout=sys.stderr,
                       cwd=ROOT / "bindings/go")
    subprocess.run(["cargo", "build", "--offline", "--release", "--example", "call_cost", "--target-dir", RELEASE / "cargo"], check=True,
                   stdout=sys.stderr, cwd=ROOT / "bindings/rust")
    call_cost = PROGRAMS / "gradstep_call_cost"
    subprocess.run([ROOT / "benchmarks/callers/callers.py", f"c++={call_cost} c++", f"c={call_cost} c", f"go={PROGRAMS / 'call_cost_go'}",
                    f"rust={RELEASE / 'cargo/release/examples/call_cost'}", f"python={in_python}", *arguments], check=True, env=os.environ | gradstep_python("release"))
    pushes = PROGRAMS / "gradstep_pushes"
    subprocess.run([ROOT / "benchmarks/callers/pushes.py", f"C++={pushes} server", f"Go={PROGRAMS / 'push_server_go'}", f"{pushes} worker",
                    *arguments], check=True)
    become(PROGRAMS / "gradstep_beside_library", *arguments)


def before(revision: str = "", *arguments: str) -> NoReturn:
    """The headers of a revision, and its registry of rules, are taken from the repository once."""
    if not revision or revision.startswith("-"):
        sys.exit("dev: say which revision the library is to stand beside: ./dev bench before REVISION")
    git = ["git", "-C", ROOT]
    found = subprocess.run([*git, "rev-parse", "--quiet", "--verify", "--short", f"{revision}^{{commit}}"], stdout=subprocess.PIPE, text=True)
    if found.returncode != 0:
        sys.exit(f"dev: the repository has no revision '{revision}'")
    folder = ROOT / "build/before" / found.stdout.strip()
    if not (folder / "test").is_dir():
        part = folder.with_name(folder.name + ".part")
        for old in (folder, part):
            shutil.rmtree(old, ignore_errors=True)
        part.mkdir(parents=True)
        files = subprocess.run([*git, "archive", found.stdout.strip(), "include", "test/support"], check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["tar", "-x", "-C", part], check=True, input=files)
        part.rename(folder)
    dev("need", "build")
    for step in (["--preset", "release", f"-DGRADSTEP_BEFORE={folder}"], ["--build", "--preset", "release", "--target", "gradstep_bench_before"]):
        subprocess.run(["cmake", *step], check=True, stdout=sys.stderr, cwd=ROOT)
    become(PROGRAMS / "gradstep_bench_before", *arguments)


def bench_libtorch(*arguments: str) -> None:
    dev("need", "build")
    os.environ.update(libtorch("release", "gradstep_bench_libtorch"))
    subprocess.run([PROGRAMS / "gradstep_bench_libtorch", *arguments], check=True)
    if not {"--help", "-h"} & set(arguments):
        subprocess.run([ROOT / "benchmarks/compile_time.py", "--libtorch", torch_folder(), "--rounds", "3"], check=True)


def distributed(*arguments: str) -> NoReturn:
    program = PROGRAMS / "gradstep_bench_distributed"
    build(program.name)
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1")
    if arguments[:1] == ("--measured",):
        become(sys.executable, ROOT / "benchmarks/distributed/measured.py", program, *arguments[1:])
    become("mpirun", "-n", "2", program, *arguments)


def simulate(*arguments: str) -> NoReturn:
    folder = ROOT / "build/simulation_venv"
    dev("environment", folder, ROOT / "benchmarks/distributed/requirements.txt")
    become(folder / "bin/python", ROOT / "benchmarks/distributed/simulate.py", *arguments)


def keyed(*arguments: str) -> NoReturn:
    dev("need", "libabsl-dev", "robin-map-dev", "libboost1.81-dev")  # what stands beside the index of keyed tables
    run_built("gradstep_bench_keyed", *arguments)


def report(*arguments: str) -> NoReturn:
    dev("need", "gnuplot-nox", "python3", "python3-markdown")
    debian = "/usr/bin/python3"  # which has the packages of Debian
    become(debian if os.access(debian, os.X_OK) else "python3", ROOT / "benchmarks/report/report.py", *arguments)


def rounding(*arguments: str) -> NoReturn:
    if not arguments:
        run_built("gradstep_rounding_errors")
    dev("need", "gnuplot-nox")
    run_built("gradstep_rounding_picture", *arguments)


COMMANDS: dict[str, Callable[..., None]] = {
    "peers": peers, "python": python, "reproducible": reproducible, "report": report, "simulate": simulate, "keyed": keyed, "distributed": distributed,
    "rounding": rounding, "callers": callers, "before": before, "libtorch": bench_libtorch,
    "compile": lambda *arguments: become(ROOT / "benchmarks/compile_time.py", *arguments),
    "dlib": lambda *arguments: run_built("gradstep_bench_dlib", *arguments),
    "ensmallen": lambda *arguments: run_built("gradstep_bench_ensmallen", *arguments),
    "gpu": lambda *arguments: become(nvcc("gpu", "benchmarks/gpu.cu"), *arguments),
    "checkpoint": lambda *arguments: run_built("gradstep_checkpoint", *arguments),
    "help": lambda *_: print(__doc__, end=""),
}


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--"]:
        arguments = arguments[1:]
    try:
        if arguments and arguments[0] in COMMANDS:
            COMMANDS[arguments[0]](*arguments[1:])
        else:
            os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as the steps beside it
            run_built("gradstep_bench", *arguments)
    except subprocess.CalledProcessError as failed:  # it has said why
        sys.exit(failed.returncode if failed.returncode > 0 else 1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main(sys.argv[1:])
