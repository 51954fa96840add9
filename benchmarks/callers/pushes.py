#!/usr/bin/env python3
"""How many pushes a second a server in C++ and one in Go apply, over TCP on this machine: pushes.py NAME=COMMAND... WORKER

Each command is a server, and gets the addresses of its own rank and of the worker's. The worker is the same program for all, so the
messages are the same. The rounds of the servers take turns; a ratio is the median of the ratios of the single rounds.
"""

import argparse
import socket
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from lines import Lines, add_option, quartiles

ROUNDS = 15


def pushes_a_second(server: str, worker: str) -> float:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    serving = subprocess.Popen([*server.split(), *addresses])
    try:
        return float(subprocess.run([*worker.split(), *addresses], check=True, stdout=subprocess.PIPE, text=True, timeout=120).stdout)
    finally:
        serving.wait(timeout=120)


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev bench callers", description=__doc__.splitlines()[0])
    parser.add_argument("servers", nargs="+", metavar="NAME=COMMAND")
    parser.add_argument("worker", metavar="WORKER")
    parser.add_argument("--quick", action="store_true", help="two rounds: whether it runs, not how fast")
    add_option(parser)
    options = parser.parse_args()
    servers = dict(one.split("=", 1) for one in options.servers)
    names = list(servers)
    rates: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(2 if options.quick else ROUNDS):
        for k in range(len(names)):
            name = names[(turn + k) % len(names)]
            rates[name].append(pushes_a_second(servers[name], options.worker))
    lines = Lines(options.json, {"Python": sys.version.split()[0]})
    lines.section = "pushes of 1024 keys x 16 floats over loopback"
    print(f"{lines.section}, a second")
    for name in names:
        found = quartiles(rates[name])
        lines.add(f"a server in {name}", found, "a second")
        print(f"{'a server in ' + name:26}{found.median:12.0f}")
    for name in names[1:]:
        ratio = quartiles(a / b for a, b in zip(rates[name], rates[names[0]]))
        lines.add(f"{name} / {names[0]}", ratio)
        print(f"{name + ' / ' + names[0]:26}{ratio.median:12.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
