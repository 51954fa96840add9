#!/usr/bin/env python3
"""Headers include only what lies below them: FLOORS is the order of the folders and top-level headers of include/gradstep. Headers of
one folder include each other without a cycle. No header includes a standard header that its other includes bring, and definitions
(.ipp) and headers in ROOM/detail/ include no header at all that these bring. CONTRIBUTING.md shows the floors. Rules know policies,
numbers and base alone. One subject a file: at most two files define members of a class outside it. Headers in ROOM/detail/ declare no
public name, and no page, example or program of users includes them. Exit status 1 and what is wrong otherwise.
Usage: layers.py [--write]; --write puts the floors into CONTRIBUTING.md."""
import functools
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADERS = ROOT / "include/gradstep"
PAGE = ROOT / "CONTRIBUTING.md"
ONE_FILE = "c/gradstep.h"  # the interface of C
FACES = ("all.hpp", "core.hpp", "runtime.hpp", "thrust.hpp")  # lists of what programs use
MOST_FILES = 2
MEMBER = re.compile(r"^(?![\s/#])[^;{}=()]*?\b(\w+)(?:<[^<>()]*>)?::(?:~?\w+|operator[^\s(]*)\(", re.M)  # `A name::member(` outside a class
# From the top down. A folder or header includes only what stands in a line below its own.
FLOORS = (
    "adapt/ all.hpp gradstep.hpp runtime.hpp thrust.hpp",
    "distributed/",
    "compression.hpp core.hpp dialects.hpp runtime/ thrust/",
    "checkpoint.hpp compression/ keyed_table.hpp",
    "keyed/ model.hpp",
    "averager.hpp model/ striped.hpp",
    "config.hpp parameter.hpp table.hpp",
    "saved/",
    "configuration/ striped/",
    "dialects/ engine/ rows/",
    "rules/ updater.hpp",
    "matrix/",
    "averaging/ backends/ clipping/ step/",
    "kernel/",
    "memory/ regularizers/ schedules/",
    "policy/",
    "json/ number/",
    "bytes/",
    "base/ c/ version.hpp",
)
OF_USERS = ("README.md", "docs", "examples", "test/usage", "test/consumer")
RULES_KNOW = ("rules/", "policy/", "number/", "base/")
BLOCK = re.compile(r"(<!-- layers -->\n```\n).*?(```\n)", re.S)


def includes() -> dict[str, set[str]]:
    """Of each header those that it includes, as paths below include/gradstep."""
    found = {}
    for path in sorted(HEADERS.rglob("*")):
        if path.suffix in (".hpp", ".h", ".ipp"):
            text = path.read_text()
            found[path.relative_to(HEADERS).as_posix()] = set(re.findall(r"^#\s*include <gradstep/([^>]+)>", text, re.M))
    return found


@functools.cache
def always_included(header: str) -> list[str]:
    """What a header or file of definitions includes outside of #if."""
    found, depth = [], 0
    for line in (HEADERS / header).read_text().splitlines():
        depth += bool(re.match(r"#\s*if", line)) - bool(re.match(r"#\s*endif", line))
        if depth == 0 and (include := re.match(r"#include <([^>]+)>", line)):
            found.append(include[1].removeprefix("gradstep/"))
    return found


@functools.cache
def brought_by(header: str) -> frozenset[str]:
    """What a program has that includes a header."""
    own = always_included(header) if (HEADERS / header).is_file() else []
    return frozenset(own).union(*map(brought_by, own))


def brought_twice(header: str) -> list[str]:
    own = always_included(header)
    beside = [header.replace(".ipp", ".hpp")] if header.endswith(".ipp") and (HEADERS / header.replace(".ipp", ".hpp")).is_file() else []
    if header == ONE_FILE or header in FACES or header.endswith("/all.hpp"):
        return []
    inner = bool(beside) or "/detail/" in header
    checked = [x for x in own if (inner if (HEADERS / x).is_file() else "/" not in x)]
    return [x for x in checked if any(x in brought_by(y) for y in [*own, *beside] if y != x)]


def node_of(header: str) -> str:
    """The folder of a header, or the top-level header whose definitions it has."""
    return header.split("/")[0] + "/" if "/" in header else header.replace(".ipp", ".hpp")


def cycle_of(includes: dict[str, set[str]]) -> list[str]:
    """A cycle of headers, or nothing."""
    left = dict(includes)
    while ready := [header for header, others in left.items() if not others & set(left)]:
        for header in ready:
            del left[header]
    path = sorted(left)[:1]
    while path:
        following = min(left[path[-1]] & set(left))
        if following in path:
            return path[path.index(following):] + [following]
        path.append(following)
    return path


def main() -> int:
    of_headers = includes()
    floors = {node: number for number, floor in enumerate(reversed(FLOORS), 1) for node in floor.split()}
    wrong = [f"{node} is on no floor; expected it in FLOORS" for node in sorted({node_of(header) for header in of_headers} - set(floors))]
    wrong += [f"{node} is in FLOORS, and there is no such folder or header" for node in set(floors) - {node_of(x) for x in of_headers}]
    wrong += [f"{header} includes {other}, which is not below it" for header, others in of_headers.items() for other in sorted(others)
              if node_of(header) != node_of(other) and floors.get(node_of(other), 0) >= floors.get(node_of(header), 0)]
    wrong += [f"{header} includes {other}; expected {', '.join(RULES_KNOW)} alone" for header, others in of_headers.items()
              if header.startswith("rules/") for other in sorted(others) if not other.startswith(RULES_KNOW)]
    wrong += [f"{header} includes {other}, which its other includes bring" for header in of_headers for other in brought_twice(header)]
    files: dict[str, list[str]] = {}
    for header in sorted(of_headers):
        for name in set(MEMBER.findall((HEADERS / header).read_text())) - {"gnu"}:  # [[gnu::...]]
            files.setdefault(name, []).append(header)
    wrong += [f"{', '.join(those)} define members of {name}; expected at most {MOST_FILES} files"
              for name, those in files.items() if len(those) > MOST_FILES]
    texts = [path for name in OF_USERS for path in [ROOT / name, *(ROOT / name).rglob("*")] if path.suffix in (".md", ".hpp", ".cpp", ".cu")]
    wrong += [f"{path.relative_to(ROOT)} includes {header}, which is not for users"
              for path in texts for header in re.findall(r"#include <(gradstep/\w+/detail/[^>]+)>", path.read_text())]
    wrong += [f"{header} declares names in {space}; expected gradstep::detail alone" for header in sorted(of_headers)
              if "/detail/" in header and header.endswith(".hpp")
              for space in re.findall(r"^namespace (?!.*detail)(.*) \{", (HEADERS / header).read_text(), re.M)]
    if cycle := cycle_of(of_headers):
        wrong.append(f"headers include each other: {' -> '.join(cycle)}")
    if wrong:
        print("\n".join(wrong))
        return 1
    shown = "".join(f"{number:2}  {floor}\n" for number, floor in zip(range(len(FLOORS), 0, -1), FLOORS))
    text = PAGE.read_text()
    new = BLOCK.sub(lambda match: match[1] + shown + match[2], text)
    if "--write" in sys.argv:
        PAGE.write_text(new)
    elif new != text or not BLOCK.search(text):
        print(f"CONTRIBUTING.md does not show FLOORS; run {Path(__file__).name} --write:\n{shown}", end="")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
