#!/usr/bin/env python3
"""Holds GRADSTEP_ISA (base/instruction_set.hpp) to its promise: flags that let a compiler choose other instructions
have other names.

Goes through every -march that the compilers know and single flags. Of the macros that these define, those below that
stand for no instruction a compiler chooses from C++ are set aside; whatever is left has to be in the name, also what a
newer compiler defines for the first time.
"""
import argparse
import concurrent.futures
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

X86_SET_ASIDE = re.compile(
    # Cryptography, system and hints: by intrinsics and builtins alone, or harmless on every processor.
    r"__(ADX|AES|AMX_\w+|CLDEMOTE|CLFLUSHOPT|CLWB|CLZERO|CRC32|ENQCMD|FSGSBASE|FXSR|HLE|HRESET|INVPCID|KL|LAHF_SAHF|LWP|"
    r"MOVDIR64B|MOVDIRI|MWAITX|PCONFIG|PKU|PREFETCHI|PREFETCHWT1|PRFCHW|PTWRITE|RDPID|RDPRU|RDRND|RDSEED|RTM|SERIALIZE|"
    r"SGX|SHA|SHSTK|TSXLDTRK|UINTR|VAES|WAITPKG|WBNOINVD|WIDEKL|XSAVE\w*|3dNOW|3dNOW_A|MMX|"
    r"AVX5124FMAPS|AVX5124VNNIW|AVX512ER|AVX512PF|AVX512VP2INTERSECT)__|"
    r"__ABM__|__FP_FAST_FMA\w*|"                                 # other words for LZCNT with POPCNT, and for FMA
    r"__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16|"                      # for atomics of 16 bytes
    r"__GCC_IEC_559\w*|__STDC_IEC_\w+|__NO_MATH_ERRNO__|__NO_TRAPPING_MATH__|__CLANG_CUDA_\w+|"
    r"__(FINITE_MATH_ONLY|ASSOCIATIVE_MATH|RECIPROCAL_MATH|NO_SIGNED_ZEROS)__|"            # of -ffast-math
    r"__(?!cpp_)(tune_)?[a-z][a-z0-9_]*?(__)?")                          # processors and their tuning: haswell, __tune_znver3__
AARCH64_SET_ASIDE = re.compile(
    r"__ARM_ARCH|__ARM_FEATURE_(CRC32|AES|CRYPTO|SHA2|SHA512|SM3|SM4|LS64|MEMORY_TAGGING|RNG|TME|BTI|PAUTH|SYSREG128|"
    r"SVE2_AES|SVE2_SHA3|SVE2_SM4|SVE2_BITPERM)|"
    r"__ARM_FEATURE_(BF16|BF16_SCALAR_ARITHMETIC|FP16_VECTOR_ARITHMETIC|SVE_MATMUL_INT8|SVE_BF16|SVE_VECTOR_OPERATORS)|"
    r"__FLT_EVAL_METHOD\w*|__GCC_HAVE_SYNC_COMPARE_AND_SWAP_\d+|"
    r"__GCC_IEC_559\w*|__STDC_IEC_\w+|__NO_MATH_ERRNO__|__NO_TRAPPING_MATH__|"
    r"__(FINITE_MATH_ONLY|ASSOCIATIVE_MATH|RECIPROCAL_MATH|NO_SIGNED_ZEROS)__")

X86_FLAGS = ["", "-mavx", "-mavx -mfma", "-mavx2", "-mavx2 -mfma", "-mavx2 -mfma -mf16c", "-mavx2 -mfma -mbmi2",
             "-mavx512f", "-mavx512f -mfma", "-mavx512f -mavx512bw -mavx512dq -mavx512vl", "-msse3", "-mssse3",
             "-msse4.1", "-msse4.2", "-mbmi", "-mbmi2", "-mlzcnt", "-mmovbe", "-mpopcnt", "-mf16c", "-mfma4", "-mxop",
             "-march=x86-64-v3 -mno-popcnt", "-march=x86-64-v3 -mno-bmi2", "-march=x86-64-v3 -mgfni",
             "-march=x86-64-v3 -mavxvnni", "-march=x86-64-v3 -ffast-math", "-march=x86-64-v3 -fno-exceptions",
             "-march=x86-64-v4 -mavx512vnni", "-march=x86-64-v4 -mavx512vbmi", "-march=x86-64-v4 -mavx512fp16"]
AARCH64_FLAGS = ["", *("-march=" + name for name in (
    "armv8-a", "armv8.1-a", "armv8.2-a", "armv8.3-a", "armv8.4-a", "armv8.5-a", "armv8.6-a", "armv9-a", "armv8-a+lse",
    "armv8-a+rcpc", "armv8.2-a+dotprod", "armv8.2-a+fp16", "armv8.2-a+fp16fml", "armv8.2-a+bf16", "armv8.2-a+i8mm",
    "armv8.2-a+sha3", "armv8.2-a+sve", "armv8.2-a+sve -msve-vector-bits=256", "armv9-a+sve2-bitperm"))]

# As docs/how_to/build.md and base/instruction_set.hpp spell them.
SPELLED = {"-march=x86-64": "isa_v1", "-march=x86-64-v2": "isa_v2", "-march=x86-64-v3": "isa_v3",
           "-march=x86-64-v4": "isa_v4", "-mavx -mfma": "isa_v2_avx_fma",
           "-march=x86-64-v3 -fno-exceptions": "isa_v3_no_exceptions", "-march=armv8-a": "isa_aarch64"}


def processors(compiler):
    """Every -march of the compiler, as its message about a wrong one lists them."""
    message = subprocess.run([*compiler, "-march=nonsense", "-x", "c++", "-fsyntax-only", "/dev/null"],
                             capture_output=True, text=True, check=False).stderr
    return [f"-march={name}" for name in re.search(r"(?:valid|are): ?([^;\n]*)", message)[1].replace(",", " ").split()]


def macros_and_name(compiler, flags, source):
    def output(*arguments):
        return subprocess.run([*compiler, "-std=c++20", *flags.split(), *arguments, source], check=True,
                              capture_output=True, text=True).stdout
    try:
        defined = dict(line.split(" ", 2)[1:] for line in output("-dM", "-E").splitlines() if line.count(" ") >= 2)
        return defined, output("-E", "-P").split()[-1]
    except subprocess.CalledProcessError:
        return None                                              # a processor of 32 bits, a flag that it does not know


def check(compiler, flags, set_aside, source):
    """The number of names, and a sentence for each that two sets of instructions share or that is split."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        found = dict(zip(flags, pool.map(lambda each: macros_and_name(compiler, each, source), flags)))
    found = {flags: each for flags, each in found.items() if each}
    plain = found[flags[0]][0]
    by_name, by_macros, problems = {}, {}, []
    for each, (defined, name) in found.items():
        left = frozenset(item for item in set(defined.items()) ^ set(plain.items())
                         if not item[0].startswith("GRADSTEP_") and not set_aside.fullmatch(item[0]))
        first, others = by_name.setdefault(name, (each, left))
        if others != left:
            differ = ", ".join(sorted({macro for macro, _ in others ^ left}))
            problems.append(f"'{first}' and '{each}' share the name {name} and differ in {differ}")
        if by_macros.setdefault(left, name) != name:
            problems.append(f"'{each}' is named {name}, and the same instructions have the name {by_macros[left]}")
        if each in SPELLED and name != SPELLED[each]:
            problems.append(f"'{each}' is named {name}, and the documentation calls it {SPELLED[each]}")
    return len(found), len(by_name), problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--include", action="append", default=[], help="include directory; may be given several times")
    arguments = parser.parse_args()

    includes = ["-I" + path for path in arguments.include]
    targets = [(["g++"], None), (["clang++-16"], None), (["aarch64-linux-gnu-g++"], AARCH64_FLAGS),
               (["clang++-16", "--target=aarch64-linux-gnu"], AARCH64_FLAGS)]
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "name.cpp"
        source.write_text("#include <gradstep/base/instruction_set.hpp>\nGRADSTEP_ISA\n", encoding="utf-8")
        for compiler, flags in targets:
            if not shutil.which(compiler[0]):
                continue
            command, set_aside = [*compiler, *includes], AARCH64_SET_ASIDE
            if flags is None:
                flags, set_aside = X86_FLAGS + processors(compiler), X86_SET_ASIDE
            tried, names, problems = check(command, flags, set_aside, source)
            print(f"{' '.join(compiler)}: {tried} sets of flags, {names} names, {len(problems)} problems")
            for problem in problems:
                print(f"    {problem}")
            failed = failed or bool(problems) or names < 10     # fewer: this looked at nothing
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
