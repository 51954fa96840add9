#!/usr/bin/env python3
"""What a step of adam costs in C++, and through the C library from C, Go and Rust: callers.py NAME=COMMAND...

Each command runs until its input ends. For each line that it reads it does a round, and writes three numbers: nanoseconds of
one step of 16 floats, of one of 1000 parameters of 1000 floats in one call, and of the same in a thousand calls. The rounds of
the commands take turns, so that all of them see the same machine; a ratio is the median of the ratios of the single rounds.
"""

import subprocess
import sys
from statistics import median

ROUNDS = 41
CASES = ("16 floats", "1000 x 1000, one call", "1000 x 1000, 1000 calls")


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    programs = {}
    for argument in sys.argv[1:]:
        name, _, command = argument.partition("=")
        programs[name] = subprocess.Popen(command.split(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    times: dict[str, list[list[float]]] = {name: [] for name in programs}
    names = list(programs)
    for turn in range(ROUNDS):
        for k in range(len(names)):
            name = names[(turn + k) % len(names)]
            programs[name].stdin.write("\n")
            programs[name].stdin.flush()
            numbers = [float(x) for x in programs[name].stdout.readline().split()]
            if len(numbers) != len(CASES):
                print(f"{name} did not answer", file=sys.stderr)
                return 1
            times[name].append(numbers)
    for each in programs.values():
        each.stdin.close()
        each.wait()
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
