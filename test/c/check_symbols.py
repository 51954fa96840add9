"""What the C library shows to others: check_symbols.py libgradstep.so libgradstep_runtime.a

The shared library exports what symbols.txt lists, and nothing else; an instruction set's objects have one global symbol, so that
nothing that was compiled for it can be linked into a program that runs on less.
"""
import pathlib
import re
import subprocess
import sys

shared, static = sys.argv[1:]
listed = (pathlib.Path(__file__).parent / "symbols.txt").read_text().split()


def symbols(*arguments):
    text = subprocess.run(["nm", "--defined-only", *arguments], check=True, capture_output=True, text=True).stdout
    return [line.split() for line in text.splitlines()]


exported = sorted(line[-1].split("@")[0] for line in symbols("-D", shared) if len(line) == 3 and line[1] != "A")
wrong = sorted(set(exported) ^ set(listed))
if wrong:
    sys.exit(f"exported, or listed in symbols.txt, and not both: {wrong}\n"
             "A symbol that is gone breaks programs: raise GRADSTEP_ABI_MAJOR and the SONAME. A new one: GRADSTEP_ABI_MINOR.")

member = ""
sets = 0
for line in symbols("-g", static):
    if len(line) == 1:
        member = line[0].rstrip(":")
        continue
    name = re.match(r"gradstep_(sse2|avx2|avx512|generic)\.o$", member)
    if not name or len(line) != 3:
        continue
    sets += line[2].startswith("gradstep_groups_")
    if line[2] not in (f"gradstep_groups_{name[1]}", f"gradstep_rows_{name[1]}"):
        sys.exit(f"{member} has the global symbol {line[2]}; expected gradstep_groups_{name[1]} and gradstep_rows_{name[1]} alone")
if sets == 0:
    sys.exit(f"{static} has no instruction set")
print(f"{len(exported)} functions, {sets} instruction sets")
