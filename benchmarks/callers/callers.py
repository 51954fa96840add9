#!/usr/bin/env python3
"""What a step costs in C++, and through the C library from C, Go, Rust and Python: callers.py NAME=COMMAND...

Each command runs until its input ends. For each line that it reads it does a round, and writes five numbers: nanoseconds of one
step of adam of 16 floats, of one of 1000 parameters of 1000 floats in one call, of the same in a thousand calls, of a step of
adagrad of 65 536 keys with rows of 16 floats, and of one key of these. The rounds of the commands take turns, so that all of them
see the same machine, and all are started several times, since where a process gets its memory makes a difference of a tenth; a
ratio is the median of the ratios of the single rounds.
"""

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from lines import Lines, add_option, quartiles

STARTS, ROUNDS = 11, 5
CASES = ("16 floats", "1000 x 1000, one call", "1000 x 1000, 1000 calls", "65 536 keys x 16", "one key x 16")


def measure(commands: dict[str, str], rounds: int, times: dict[str, list[list[float]]]) -> None:
    """Appends to times[name] what each command answers in each round."""
    programs = {name: subprocess.Popen(command.split(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                for name, command in commands.items()}
    names = list(programs)
    for turn in range(rounds):
        for k in range(len(names)):
            name = names[(turn + k) % len(names)]
            programs[name].stdin.write("\n")
            programs[name].stdin.flush()
            numbers = [float(x) for x in programs[name].stdout.readline().split()]
            if len(numbers) != len(CASES):
                sys.exit(f"callers.py: {name} did not answer")
            times[name].append(numbers)
    for each in programs.values():
        each.stdin.close()
        each.wait()


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev bench callers", description=__doc__.splitlines()[0])
    parser.add_argument("commands", nargs="+", metavar="NAME=COMMAND")
    parser.add_argument("--quick", action="store_true", help="one start, two rounds: whether it runs, not how fast")
    add_option(parser)
    options = parser.parse_args()
    commands = dict(command.split("=", 1) for command in options.commands)
    starts, rounds = (1, 2) if options.quick else (STARTS, ROUNDS)
    times: dict[str, list[list[float]]] = {name: [] for name in commands}
    for _ in range(starts):
        measure(commands, rounds, times)
    lines = Lines(options.json, {"Python": sys.version.split()[0]})
    lines.section = "a step from each language"
    names = list(commands)
    first = names[0]
    print(f"{'nanoseconds a step':26}" + "".join(f"{name:>12}" for name in names)
          + "".join(f"{name + ' / ' + first:>14}" for name in names[1:]))
    for case, title in enumerate(CASES):
        steps = {name: quartiles(x[case] for x in times[name]) for name in names}
        ratios = {name: quartiles(a[case] / b[case] for a, b in zip(times[name], times[first])) for name in names[1:]}
        for name in names:
            lines.add(f"{title}: {name}", steps[name], "ns")
        for name in names[1:]:
            lines.add(f"{title}: {name} / {first}", ratios[name])
        print(f"{title:26}" + "".join(f"{x.median:12.0f}" for x in steps.values())
              + "".join(f"{x.median:14.3f}" for x in ratios.values()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
