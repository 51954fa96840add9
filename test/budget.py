#!/usr/bin/env python3
"""What the project may cost: test/budget.json has the limits, and CI fails beyond one of them.

    budget.py stage NAME COMMAND...   run a command and note its seconds
    budget.py report                  print everything beside its limit; fail if something is beyond it
    budget.py fast                    whether this machine takes at most half as long again as the budget's

A change that needs more raises the number in the same commit and says why. Seconds of stages are processor time, on a machine
that compiles a file that includes xsimd in `xsimd_seconds`: measured seconds are divided by how much slower this machine does it. The limits
of stages are twice what they took, since other programs share the processor's cores.
"""
import json
import math
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
STAGES = ROOT / "build/stages"
sys.path.insert(0, str(ROOT / "benchmarks"))


def stage(name, command):
    start = time.monotonic()
    status = subprocess.run(command).returncode
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    STAGES.mkdir(parents=True, exist_ok=True)
    measured = {"wall": time.monotonic() - start, "cpu": used.ru_utime + used.ru_stime}
    (STAGES / f"{name}.json").write_text(json.dumps(measured))
    print(f"== {name}: {measured['wall']:.0f} s, {measured['cpu']:.0f} s of processor time", flush=True)
    return status


def sizes(limits):
    """Lines and files of each folder, as git has them."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    files = [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]
    for folder, limit in limits.items():
        inside = [f for f in files if f.is_relative_to(ROOT / folder)]
        yield f"files in {folder}/", len(inside), limit["files"]
        yield f"lines in {folder}/", sum(f.read_bytes().count(b"\n") for f in inside), limit["lines"]


def compilation(limits, xsimd):
    """Seconds to compile programs, by those of xsimd's include."""
    import compile_time as ct
    programs = {"a step of one adam": ct.one_step(ct.UMBRELLA, "adam{}"), "a table": ct.TABLE,
                "a model and save": ct.LINKED + ct.CHECKPOINT, "a configuration": ct.LINKED + ct.CONFIGURATION,
                "an any_parameter": ct.LINKED + ct.RUN_TIME}
    with tempfile.TemporaryDirectory() as folder:
        for name, limit in limits.items():
            ratio = math.inf
            for _ in range(5): # other programs slow one of the two down, so that each try has an xsimd of its own
                if ratio > limit:
                    beside = xsimd if ratio == math.inf else xsimd_seconds(1)
                    ratio = min(ratio, ct.compile_once(pathlib.Path(folder), name, programs[name])[0] / beside)
            yield f"compiling {name} / xsimd", round(ratio, 2), limit


def xsimd_seconds(tries=5):
    import compile_time as ct
    with tempfile.TemporaryDirectory() as folder:
        return min(ct.compile_once(pathlib.Path(folder), "xsimd", ct.XSIMD)[0] for _ in range(tries))


def this_machine():
    """The budget, the seconds of xsimd's include, and how many times as long as the budget's this machine takes."""
    budget = json.loads((ROOT / "test/budget.json").read_text())
    xsimd = xsimd_seconds()
    slower = xsimd / budget["xsimd_seconds"]
    print(f"xsimd's include: {xsimd:.2f} s. This machine takes {slower:.2f} times as long as the budget's.", flush=True)
    return budget, xsimd, slower


def report():
    budget, xsimd, slower = this_machine()
    rows = [*sizes(budget["folders"]), *compilation(budget["compile"], xsimd)]
    for name, limit in budget["stages"].items():
        if (STAGES / f"{name}.json").exists():
            measured = json.loads((STAGES / f"{name}.json").read_text())
            rows.append((f"{name}, processor s", round(measured["cpu"] / slower), limit))
    for what, measured, limit in rows:
        print(f"{what:45} {measured:10} of {limit:8} {measured / limit:7.0%}{'  BEYOND' if measured > limit else ''}")
    beyond = [f"{what}: {measured}; expected at most {limit}" for what, measured, limit in rows if measured > limit]
    for line in beyond:
        print(f"test/budget.json: {line}", file=sys.stderr)
    return bool(beyond)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["stage", name, *command] if command:
            sys.exit(stage(name, command))
        case ["report"]:
            sys.exit(report())
        case ["fast"]:
            sys.exit(this_machine()[2] > 1.5)
    sys.exit(__doc__)
