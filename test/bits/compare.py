#!/usr/bin/env python3
"""Builds bits.cpp by many sets of compiler flags and compares what the programs print.

On targets with FMA all builds must print the same lines: instruction set, compiler, optimisation level, contraction
and backend change no bit. With -DBITS_EVERY_RULE or -DBITS_TABLES the program has other lines, which are compared in fewer builds.
Without FMA a build is compared with itself: the program holds every backend against the serial one. Prints one line a
build; fails if one differs.

--other-xsimd takes another xsimd for some builds. --cross compares another compiler with a build of this machine, and nothing else.
"""
import argparse
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def cpu_flags():
    with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
        return next(set(line.split()) for line in cpuinfo if line.startswith("flags"))


EVERY_RULE, TABLES, NO_SERIAL = "-DBITS_EVERY_RULE", "-DBITS_TABLES", "-DBITS_WITHOUT_SERIAL"
CALLS = "-DGRADSTEP_NO_FORCE_INLINE=1"  # half of the time to compile
UNOPTIMISED = ["-O0", CALLS]  # a third of it


def builds(arguments):
    """(command without output and source, whether it has FMA) for each build."""
    runs = cpu_flags()
    instruction_sets = [["-march=x86-64-v3"]] if {"avx2", "fma", "bmi2"} <= runs else []
    if {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= runs:
        instruction_sets.append(["-march=x86-64-v4"])
    narrow = ["-O2", "-ffp-contract=off"]
    # The build for the best instruction set is optimised most and also runs serial steps. One such build is enough for a compiler.
    of_avx2 = [*narrow, NO_SERIAL] if len(instruction_sets) > 1 else ["-O3"]
    if arguments.cross:
        # The references are builds that every other comparison has too, so that a compiler cache has them.
        for level, lines in (["-O1", CALLS], [EVERY_RULE]), (of_avx2, []), (["-O1", CALLS], [TABLES]):
            for reference in instruction_sets[:1]:
                yield ["g++", *reference, *level, *lines], True
            yield [arguments.cross, "-O1", CALLS, *lines], True
        return
    # g++ by every instruction set, as most users have it, and clang by the best with the other contraction, since the other builds of CI
    # run the properties of some rules by it. Rules on Thrust are a test of their own, and its systems differ in threads alone.
    gnu, clang = "g++", "clang++-16"
    other = clang if shutil.which(clang) else gnu
    for isa, level in zip(instruction_sets, (of_avx2, ["-O3"])):
        yield [gnu, *isa, *level], True
    for isa in instruction_sets[-1:]:
        yield [other, *isa, *narrow], True
    yield [other, *UNOPTIMISED, EVERY_RULE], False
    if len(instruction_sets) > 1: # of AVX-512 only what it began with: packs of AVX2
        yield [gnu, "-mavx512f", "-O1", CALLS, NO_SERIAL], True
    # One build of these lines for each compiler: g++ by the first instruction set, clang by the best, without optimisation, which
    # leaves the operations as they are written. Without clang, g++ has both.
    # The other xsimd takes the best, and the build of every element on Thrust, so that it adds none.
    other_xsimd = ["-I" + arguments.other_xsimd] if arguments.other_xsimd else []
    for lines in (EVERY_RULE, TABLES):
        for isa in instruction_sets[:1]:
            yield [gnu, *isa, "-O1", CALLS, lines], True
        for isa in instruction_sets[-1:]:
            yield [other, *other_xsimd, *isa, *UNOPTIMISED, lines], True
    for system in arguments.thrust_system:
        flags = ["-DBITS_THRUST", f"-DTHRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_{system}"]
        flags += ["-fopenmp"] if system == "OMP" else []
        for isa in instruction_sets[-1:]:
            yield [gnu, *other_xsimd, *isa, "-O1", CALLS, NO_SERIAL, *flags], True


def build_and_run(command, program, arguments):
    compile_command = arguments.launcher + command + ["-std=c++20", "-pthread", f"-I{HERE.parents[1] / 'include'}"]
    if command[0] == arguments.cross:
        compile_command += ["-I" + path for path in arguments.include] # its own folders have no xsimd
    # Compiled and linked apart, so that a compiler cache can help.
    for step in (["-c", HERE / "bits.cpp", "-o", program + ".o"], [program + ".o", "-o", program]):
        subprocess.run(compile_command + step, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    emulator = arguments.emulator.split() if command[0] == arguments.cross else []
    steps = ["7"] if arguments.cross else [] # an emulator takes seconds for each
    return subprocess.run([*emulator, program, *steps], check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--include", action="append", default=[], help="include directory; may be given several times")
    parser.add_argument("--launcher", action="append", default=[], help="put before each compiler, as ccache")
    parser.add_argument("--thrust-system", action="append", default=[], choices=["CPP", "OMP"],
                        help="build with Thrust too")
    parser.add_argument("--cross", help="compiler for another architecture")
    parser.add_argument("--emulator", default="", help="what runs its programs, with options")
    parser.add_argument("--other-xsimd", help="include directory of another xsimd than the compiler finds")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="builds at a time")
    arguments = parser.parse_args()

    references, failed = {}, False
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        wanted = list(enumerate(builds(arguments)))
        jobs = {} # by number; the programs that take longest to build come first
        for number, (command, _) in sorted(wanted, key=lambda one: EVERY_RULE not in one[1][0]):
            jobs[number] = pool.submit(build_and_run, command, os.path.join(folder, f"bits{number}"), arguments)
        for number, (command, has_fma) in wanted:
            name = " ".join(command)
            try:
                output = jobs[number].result()
            except subprocess.CalledProcessError as error:
                print(f"FAILED     {name}\n{error.output}", flush=True)
                failed = True
                continue
            if not has_fma:
                print(f"consistent {name}", flush=True)
                continue
            program_of = tuple(flag for flag in (EVERY_RULE, TABLES) if flag in command)
            reference = references.setdefault(program_of, output)
            lines = [f"    {line}    (first build: {expected})"
                     for line, expected in zip(output.splitlines(), reference.splitlines()) if line != expected]
            failed = failed or output != reference
            print("\n".join([f"{'same      ' if output == reference else 'DIFFERENT '} {name}", *lines]), flush=True)
    if not references:
        print("this machine has no FMA: only the builds without it were compared")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
