#!/usr/bin/env python3
"""Compiles symbols.cpp and looks for functions of gradstep that do not have the instruction set in their names.

The linker keeps one of two functions of the same name: of a program with units for two instruction sets it could take the AVX-512
one and run it on a machine without AVX-512. That different flags have different names is names.py's to check; here,
that everything is under the name, at the lowest level of optimisation that inlines, by the compiler that inlines less there.
Allowed are what the exceptions need (they are caught across units, so they must be one type, and their functions hold no
arithmetic), the destructors of interfaces, and constants.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ALLOWED = re.compile(r"(vtable|typeinfo|typeinfo name) for |"
                     r"gradstep::(error|basic_error|\w+_error)::|"
                     r"gradstep::detail::kernels::~kernels$|"
                     r"gradstep::((\w+::)+hyperparameters|ranges::\w+|enumerators|missing|missing_count|error_handling::current|detail::average_name)$")


def without_arguments(name):
    """The name of a function alone: no template arguments, no parameters."""
    while (shorter := re.sub(r"<[^<>]*>", "", name)) != name:
        name = shorter
    return name.split("(")[0]


def defined_symbols(compiler, include, folder):
    target = f"{folder}/symbols.o"
    subprocess.run([compiler, "-std=c++20", "-O1", "-march=x86-64-v3", *("-I" + path for path in include),
                    "-c", HERE / "symbols.cpp", "-o", target], check=True)
    listed = subprocess.run(["nm", "-C", "--defined-only", "--extern-only", target],
                            check=True, capture_output=True, text=True)
    return {line.split(" ", 2)[2] for line in listed.stdout.splitlines()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--include", action="append", default=[], help="include directory; may be given several times")
    arguments = parser.parse_args()

    compiler = next(filter(shutil.which, ("clang++-16", "g++")), None)
    if compiler is None:
        sys.exit("neither clang++-16 nor g++ was found")
    with tempfile.TemporaryDirectory() as folder:
        symbols = defined_symbols(compiler, arguments.include, folder)
    ours = {name for name in symbols if "gradstep::" in without_arguments(name)}
    shared = {name for name in ours if "isa_v3" not in name}
    wrong = sorted(name for name in shared if not ALLOWED.search(without_arguments(name)))
    print(f"{compiler}: {len(shared)} of {len(ours)} symbols of gradstep are those of any instruction set, {len(wrong)} not allowed")
    for name in wrong:
        print(f"    {name}")
    failed = bool(wrong) or not shared or shared == ours      # exceptions are shared, kernels are not, or this looked at nothing
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
