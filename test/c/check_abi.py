#!/usr/bin/env python3
"""Whether programs that were compiled with an older gradstep/c/gradstep.h go on working: check_abi.py [--write] [COMPILER]

Compares the types of all functions, structures and enumerations of the header with those of abi.xml, by libabigail (Debian:
abigail-tools). They are taken from a library of functions that have the header's prototypes and do nothing: the library itself has
those too, or it would not compile, and debug information of it would take minutes. After a change that is meant, --write makes
abi.xml anew, and says what has changed.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
include = here.parents[1] / "include"
header = (include / "gradstep/c/gradstep.h").read_text()
baseline = here / "abi.xml"
writes = "--write" in sys.argv
compiler = ([a for a in sys.argv[1:] if a != "--write"] or ["cc"])[0]


def run(folder, *command, allowed=(0,)):
    done = subprocess.run([str(part) for part in command], cwd=folder, capture_output=True, text=True)
    if done.returncode not in allowed:
        sys.exit(f"{command[0]}: {done.stdout}{done.stderr}")
    return done


functions = re.findall(r"GRADSTEP_API ([^;{}]*\));", header)
enumerations = re.findall(r"^enum (\w+) {", header, re.MULTILINE)
major, minor = (re.search(rf"GRADSTEP_ABI_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR"))
source = '#include "gradstep/c/gradstep.h"\n' + "".join(f"{each} {{ __builtin_trap(); }}\n" for each in functions)
source += "".join(f"GRADSTEP_API enum {each} values_of_{each};\n" for each in enumerations)
if len(functions) != len(re.findall("^GRADSTEP_API ", header, re.MULTILINE)) or not enumerations:
    sys.exit("check_abi.py does not understand a declaration of the header")

with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    (folder / "probe.c").write_text(source)
    run(folder, compiler, "-x", "c", "-g", "-shared", "-fPIC", "-w", f"-I{include}", f"-Wl,-soname,libgradstep.so.{major}",
        "-o", "libgradstep.so", "probe.c")
    run(folder, "abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--type-id-style", "hash",
        "--out-file", "abi.xml", "libgradstep.so")
    differs = run(folder, "abidiff", baseline, "abi.xml", allowed=(0, 4, 8, 12)) if baseline.exists() else None
    if writes:
        baseline.write_text((folder / "abi.xml").read_text())

if differs and differs.returncode:
    print(differs.stdout)
if differs and differs.returncode & 8:
    print(f"Programs that were compiled before may break: that needs another GRADSTEP_ABI_MAJOR (it is {major}), which is the "
          "SONAME's.")
if not writes and (differs is None or differs.returncode):
    sys.exit(f"gradstep.h is not what abi.xml has. If it is meant, and GRADSTEP_ABI_MINOR (it is {minor}) or the major number has "
             "been raised since the last release: test/c/check_abi.py --write")
print(f"{len(functions)} functions, {len(enumerations)} enumerations, ABI {major}.{minor}")
