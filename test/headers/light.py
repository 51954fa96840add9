#!/usr/bin/env python3
"""gradstep.hpp includes no standard header that makes a file of a user noticeably slower to compile. Exit status 1, and the way to each
that is included."""
import re
import sys

from layers import HEADERS, includes

COSTLY = {"chrono", "condition_variable", "filesystem", "functional", "future", "map", "mutex", "random", "regex", "sstream", "thread",
          "unordered_map", "unordered_set"}


def main() -> int:
    graph = includes()
    reached_from = {"gradstep.hpp": ""}
    for header in (order := ["gradstep.hpp"]):
        for other in sorted(graph[header] & graph.keys() - reached_from.keys()):
            reached_from[other] = header
            order.append(other)
    status = 0
    for header in order:
        for name in sorted(COSTLY & set(re.findall(r"#\s*include <(\w+)>", (HEADERS / header).read_text()))):
            way = [header]
            while way[-1] != "gradstep.hpp":
                way.append(reached_from[way[-1]])
            print(f"<{name}>: {' -> '.join(reversed(way))}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
