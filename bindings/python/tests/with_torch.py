#!/usr/bin/env python3
"""gradstep.torch against torch.optim, with its pages and examples, in the environment build/peers; mypy on the package beside it;
gradstep.sparse with scipy and pandas; and gradstep::torch_optim in C++ against the libraries of the same torch.
`./dev test python-torch` runs it.

Arguments name tests of torch_optimizers.py, and then nothing else runs. The library and the program are those of `./dev test`, so that
they are compiled once.
"""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "benchmarks"))
from run import build, dev, gradstep_python, libtorch, torch_python  # noqa: E402

TESTS = Path(__file__).parent


def environment(name: str, requirements: str) -> Path:
    folder = ROOT / "build" / name
    dev("environment", folder, ROOT / requirements)
    return folder


def main(arguments: list[str]) -> int:
    dev("need", "test")  # the dev build is configured as a whole
    safetensors = environment("safetensors_venv", "test/saved/python/requirements.txt")
    build("gradstep_c", "gradstep_program", preset="dev")
    python, of_torch = torch_python(ROOT / "build/peers", "benchmarks/peers/requirements.txt")
    own = {**os.environ, **of_torch, **gradstep_python("dev"),
           "GRADSTEP_SIMD": "avx2",  # what the preset dev has, also where `plain` has built others
           "GRADSTEP_PROGRAM": str(ROOT / "build/dev/tools/gradstep"),
           "GRADSTEP_SAFETENSORS": str(next(safetensors.glob("lib/python3*/site-packages")))}

    def test(file: str | Path, *names: str) -> int:
        return subprocess.run([python, TESTS / file, *names], env=own).returncode

    if failed := test("torch_optimizers.py", *arguments):
        return failed
    if arguments:
        return 0
    # Beside the tests, which have one thread.
    mypy = environment("mypy_venv", "bindings/python/tests/mypy.txt") / "bin/mypy"
    types = subprocess.Popen([mypy, "--config-file", TESTS.parent / "pyproject.toml", "--python-executable", python,
                              "--cache-dir", ROOT / "build/mypy_cache", "gradstep"],
                             cwd=own["PYTHONPATH"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    programs = ROOT / "examples/python"
    by_mpi = [mypy, "--config-file", TESTS.parent / "pyproject.toml", "--python-executable", "/usr/bin/python3", "--follow-imports", "silent",
              "--cache-dir", ROOT / "build/mypy_cache_mpi", "-m", "gradstep.mpi"]  # with the types of Debian's mpi4py
    for file, *names in (["torch_more.py"], ["torch_model_wise.py"], ["torch_sam.py"], ["torch_rows.py"], ["torch_checkpoints.py"],
                         ["torch_inputs.py"], ["torch_embeddings.py"], ["test_pages.py"],
                         [programs / "torch_before_and_after.py", "--steps", "80"], [programs / "torch_ddp.py"]):
        if failed := test(file, *names):
            types.kill()
            return failed
    print(types.communicate()[0], end="")
    if types.returncode:
        return types.returncode
    if failed := subprocess.run(by_mpi, cwd=own["PYTHONPATH"]).returncode:
        return failed
    with_scipy = environment("online_peers", "benchmarks/peers/online.txt") / "bin/python"
    for file in ("test_sparse.py", "test_online_learning.py"):
        if failed := subprocess.run([with_scipy, TESTS / file], env=own).returncode:
            return failed
    of_libtorch = {**os.environ, **libtorch("dev", "test_libtorch", "libtorch")}
    for program in ("test/test_libtorch", "examples/libtorch"):
        if failed := subprocess.run([ROOT / "build/dev" / program], env=of_libtorch).returncode:
            return failed
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except subprocess.CalledProcessError as failed:
        sys.exit(failed.returncode)
