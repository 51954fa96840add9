#!/usr/bin/env python3
"""The include graph of include/gradstep, with folders and top-level headers as its nodes, has no cycle, and CONTRIBUTING.md shows its
layers. No header or file of definitions is longer than 450 lines, except the C interface. Exit status 1 and what is wrong otherwise.
Usage: layers.py [--write]; --write puts the layers into CONTRIBUTING.md."""
import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADERS = ROOT / "include/gradstep"
PAGE = ROOT / "CONTRIBUTING.md"
MOST_LINES = 450
ONE_FILE = "c/gradstep.h"  # the interface of C, which bindings read as one file
BLOCK = re.compile(r"(<!-- layers -->\n```\n).*?(```\n)", re.S)


def includes() -> dict[str, set[str]]:
    """Of each header those that it includes, as paths below include/gradstep."""
    found = {}
    for path in sorted(HEADERS.rglob("*")):
        if path.suffix in (".hpp", ".h", ".ipp"):
            text = path.read_text()
            found[path.relative_to(HEADERS).as_posix()] = set(re.findall(r"#\s*include <gradstep/([^>]+)>", text))
    return found


def graph_of(includes: dict[str, set[str]], node_of) -> dict[str, set[str]]:
    graph = defaultdict(set)
    for header, others in includes.items():
        graph[node_of(header)] |= {node_of(other) for other in others if node_of(other) != node_of(header)}
    return {node: {other for other in others if other in graph} for node, others in graph.items()}


def layers_of(graph: dict[str, set[str]]) -> list[list[str]]:
    """The layers from the lowest up: each node is one above the highest that it includes. Nodes in a cycle, or above one, are in none."""
    left, layers, below = dict(graph), [], set()
    while True:
        layer = sorted(node for node, others in left.items() if others <= below)
        if not layer:
            return layers
        layers.append(layer)
        below |= set(layer)
        left = {node: others for node, others in left.items() if node not in below}


def cycle_of(graph: dict[str, set[str]], nodes: set[str]) -> list[str]:
    """One cycle among nodes of which each includes another of them."""
    path = [min(nodes)]
    while True:
        following = min(graph[path[-1]] & nodes)
        if following in path:
            return path[path.index(following):] + [following]
        path.append(following)


def main() -> int:
    of_headers = includes()
    for what, node_of in (("headers", lambda header: header),
                          ("folders", lambda header: header.split("/")[0] + "/" if "/" in header else header.replace(".ipp", ".hpp"))):
        graph = graph_of(of_headers, node_of)
        layers = layers_of(graph)
        in_cycles = set(graph) - {node for layer in layers for node in layer}
        if in_cycles:
            cycle = cycle_of(graph, in_cycles)
            print(f"{what} include each other: {' -> '.join(cycle)}")
            for one, other in zip(cycle, cycle[1:]):
                for header, others in of_headers.items():
                    if node_of(header) == one:
                        for included in sorted(x for x in others if node_of(x) == other):
                            print(f"    {header} includes {included}")
            return 1
    long = {header: lines for header in of_headers if header != ONE_FILE and (lines := (HEADERS / header).read_text().count("\n")) > MOST_LINES}
    if long:
        print("\n".join(f"{header} has {lines} lines; expected at most {MOST_LINES}" for header, lines in long.items()))
        return 1
    shown = "".join(f"{number:2}  {' '.join(layer)}\n" for number, layer in reversed(list(enumerate(layers, 1))))
    text = PAGE.read_text()
    new = BLOCK.sub(lambda match: match[1] + shown + match[2], text)
    if "--write" in sys.argv:
        PAGE.write_text(new)
    elif new != text or not BLOCK.search(text):
        print(f"CONTRIBUTING.md shows other layers than there are; run {Path(__file__).name} --write:\n{shown}", end="")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
