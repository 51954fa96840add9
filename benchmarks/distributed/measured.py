"""Runs every mode with 1 to 4 workers as processes of this machine, and writes what simulate.py --measured reads."""

import argparse
import json
import subprocess
import sys
import time
from typing import Any

MODES = {"synchronous": 0, "sharded": 0, "compressed": 0, "server_synchronous": 1, "asynchronous": 1, "geo": 1}  # and servers


def line_of(ranks: int, program: list[str]) -> dict[str, Any]:
    command = ["mpirun", "-n", str(ranks), *program]
    try:
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=120).stdout)
    except (subprocess.SubprocessError, json.JSONDecodeError) as failed:
        sys.exit(f"measured.py: {' '.join(command)}: {failed}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev bench distributed --measured", description=__doc__)
    parser.add_argument("program", help="gradstep_bench_distributed")
    parser.add_argument("file", help="where to write")
    parser.add_argument("--turns", type=int, default=3, help="turns of all runs, of which the median of each counts (default: 3)")
    parser.add_argument("--seconds", type=float, default=280, help="no turn begins that is not likely to end by then (default: 280)")
    parser.add_argument("--rounds", default="25", help="steps of each worker in a run (default: 25)")
    parser.add_argument("--elements", default=str(4 * 2**20), help="parameters (default: 4 Mi)")
    options = parser.parse_args()
    own = [options.program, "--rounds", options.rounds, "--elements", options.elements]
    machine = line_of(2, [*own, "--machine"])
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    begin = time.monotonic()
    for turn in range(options.turns):
        seconds = time.monotonic() - begin
        if turn != 0 and seconds * (turn + 1) / turn > options.seconds:
            print(f"{turn} of {options.turns} turns took {seconds:.0f} s: no more, for --seconds {options.seconds:g}", file=sys.stderr)
            break
        for mode, servers in MODES.items():
            print(f"turn {turn + 1} of {options.turns}, {time.monotonic() - begin:.0f} s: {mode}", file=sys.stderr)
            for workers in range(1, 5):
                found.setdefault((mode, workers), []).append(line_of(workers + servers, [*own, "--run", mode]))
    runs = []
    for (mode, _), of in found.items():
        middle = sorted(of, key=lambda x: x["steps_per_s"])[(len(of) - 1) // 2]
        runs.append(middle | (machine["with_servers"] if MODES[mode] else {}))
    with open(options.file, "w") as file:
        json.dump({"scenario": machine["scenario"], "runs": runs}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
