#!/usr/bin/env python3
"""What a step of adam costs in C++, and through the C library from C, Go and Rust: callers.py NAME=COMMAND...

Each command runs until its input ends. For each line that it reads it does a round, and writes three numbers: nanoseconds of
one step of 16 floats, of one of 1000 parameters of 1000 floats in one call, and of the same in a thousand calls. The rounds of
the commands take turns, so that all of them see the same machine, and all are started several times, since where a process gets
its memory makes a difference of a tenth; a ratio is the median of the ratios of the single rounds.
"""

import subprocess
import sys
from statistics import median

STARTS, ROUNDS = 11, 5
CASES = ("16 floats", "1000 x 1000, one call", "1000 x 1000, 1000 calls")


def measure(commands: dict[str, str], times: dict[str, list[list[float]]]) -> None:
    """Appends to times[name] what each command answers in each round."""
    programs = {name: subprocess.Popen(command.split(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                for name, command in commands.items()}
    names = list(programs)
    for turn in range(ROUNDS):
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
    commands = dict(argument.split("=", 1) for argument in sys.argv[1:])
    if not commands:
        print(__doc__)
        return 2
    times: dict[str, list[list[float]]] = {name: [] for name in commands}
    for _ in range(STARTS):
        measure(commands, times)
    names = list(commands)
    first = names[0]
    print(f"{'nanoseconds a step':26}" + "".join(f"{name:>12}" for name in names)
          + "".join(f"{name + ' / ' + first:>14}" for name in names[1:]))
    for case, title in enumerate(CASES):
        line = f"{title:26}" + "".join(f"{median(x[case] for x in times[name]):12.0f}" for name in names)
        for name in names[1:]:
            line += f"{median(a[case] / b[case] for a, b in zip(times[name], times[first])):14.3f}"
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
