"""Runs every mode with 1 to 4 processes of this machine, and writes what simulate.py --measured reads."""

import argparse
import json
import subprocess
import sys


def lines_of(command: list[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev bench distributed --measured", description=__doc__)
    parser.add_argument("program", help="gradstep_bench_distributed")
    parser.add_argument("file", help="where to write")
    parser.add_argument("--rounds", default="25", help="steps of each mode (default: 25)")
    parser.add_argument("--elements", default=str(4 * 2**20), help="parameters (default: 4 Mi)")
    options = parser.parse_args()
    own = [options.program, "--rounds", options.rounds, "--elements", options.elements]
    scenario = lines_of(["mpirun", "-n", "2", *own, "--machine"])[0]
    runs = []
    for workers in range(1, 5):
        print(f"{workers} processes", file=sys.stderr)
        runs += lines_of(["mpirun", "-n", str(workers), *own, "--runs"])
    with open(options.file, "w") as file:
        json.dump({"scenario": scenario, "runs": runs}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
