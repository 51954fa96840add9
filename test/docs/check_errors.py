#!/usr/bin/env python3
"""Checks docs/reference/errors.md against the library.

Every kind of error has a row in the table of ids, with its C++ class, its C code and its names in Python, Go and Rust, and a section with
that id. Every message of a section is made of parts that the sources contain. And `fail`, with the parts of a message, throws every error
but those that pass on a message, which PASSING_ON counts.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/reference/errors.md"

# The calls of throw_error, by file: of messages that another function, process or file made, and with the system's error code.
PASSING_ON = {
    "bindings/c/instruction_sets.cpp": 1, "bindings/c/server.cpp": 1, "include/gradstep/adapt/libtorch/kinds.hpp": 2, "include/gradstep/configuration/detail/text_file.hpp": 1, "include/gradstep/base/error.hpp": 3,
    "include/gradstep/bytes/detail/file.ipp": 3, "include/gradstep/bytes/detail/framed_bytes.ipp": 1, "include/gradstep/distributed/detail/session.hpp": 1,
    "include/gradstep/distributed/detail/session.ipp": 2, "include/gradstep/saved/detail/description.ipp": 1, "include/gradstep/json/detail/json.ipp": 1,
    "tools/export_torch.cpp": 2, "tools/import_torch.cpp": 3,
}


def ids_of_classes() -> dict[str, str]:
    """The id of each exception class: {"size_error": "bad_size", ...}."""
    found = {}
    for header in (ROOT / "include").rglob("*.hpp"):
        for name, body in re.findall(r"^struct (\w+_error) : (.*?)^\};", header.read_text(), flags=re.MULTILINE | re.DOTALL):
            id = re.search(r'id\(\) const noexcept override \{ return "(\w+)"; \}', body)
            found[name] = id.group(1) if id else ""
    return found


def codes_of_c() -> dict[str, int]:
    """The error codes of gradstep.h: {"bad_size": -6, ...}."""
    header = (ROOT / "include/gradstep/c/gradstep.h").read_text()
    body = re.search(r"enum gradstep_status_code \{(.*?)\};", header, flags=re.DOTALL).group(1)
    return {name.lower(): int(value) for name, value in re.findall(r"GRADSTEP_(\w+) = (-\d+)", body)}


def names_in(path: str, pattern: str) -> set[str]:
    return set(re.findall(pattern, (ROOT / path).read_text()))


def rows() -> dict[str, list[str]]:
    """The cells of the table of ids, by id."""
    out = {}
    for line in PAGE.read_text().splitlines():
        if match := re.match(r"\| \[`(\w+)`\]\(#\1\) \|", line):
            out[match.group(1)] = [cell.strip() for cell in line.strip().strip("|").split("|")]
    return out


def wrong_rows() -> list[str]:
    problems, table = [], rows()
    classes, codes = ids_of_classes(), codes_of_c()
    go = names_in("bindings/go/gradstep.go", r"\t(\w+)\s+Code = C\.GRADSTEP")
    rust = names_in("bindings/rust/src/error.rs", r"=> Code::(\w+)")
    library = (ROOT / "bindings/python/gradstep/_library.py").read_text()
    python = set(re.findall(r"^class (\w*Error)\((?!ctypes)", library, flags=re.MULTILINE))
    problems += [f"the class {name} has no id()" for name, id in classes.items() if not id]
    for name, id in classes.items():
        if id and not re.search(rf"\b{name}`", table.get(id, [""] * 6)[1]):
            problems.append(f"the table lacks {name} in the row {id}")
    for id, value in codes.items():
        if id not in table or table[id][3] != f"`GRADSTEP_{id.upper()}` = {value}":
            problems.append(f"the table lacks `GRADSTEP_{id.upper()}` = {value} in the row {id}")
    shown = " ".join(cell for cells in table.values() for cell in cells[4:])
    for language, names in (("Python", python), ("Go", go), ("Rust", rust)):
        problems += [f"the table lacks {name} of {language}" for name in sorted(names) if f"`{name}`" not in shown]
    problems += [f"the table has {id}, which the library does not have" for id in table
                 if id not in codes and id not in classes.values()]
    sections = set(re.findall(r"^## (\w+)$", PAGE.read_text(), flags=re.MULTILINE))
    return problems + [f"there is no section {id}" for id in table if id not in sections]


def sentences() -> str:
    """All literals of the sources, one after the other, without the quotes between adjacent ones."""
    out = []
    for folder, ends in (("include", (".hpp", ".ipp")), ("bindings/c", (".cpp", ".hpp")), ("bindings/python/gradstep", (".py",)),
                         ("bindings/go", (".go",))):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in ends:
                text = re.sub(r'"\s*\n\s*f?"', "", file.read_text())
                out += re.findall(r'"((?:[^"\\\n]|\\.)*)"', text)
    return "\n".join(out).replace('\\"', '"')


def unknown_messages() -> list[str]:
    problems, known = [], sentences()
    for line in PAGE.read_text().splitlines():
        cells = line.split(" | ")
        if len(cells) != 3 or not line.startswith("| `"):
            continue
        for message in re.findall(r"`([^`]+)`", cells[0]):
            for part in re.split("…|: |; expected ", message):  # the parts of a call of fail()
                text = part.strip(' .,:;"[]()')
                if len(text) > 3 and text not in known:
                    problems.append(f"no source has the sentence {text!r} of {message!r}")
    return problems


def unbuilt_messages() -> list[str]:
    problems = []
    for folder in ("include", "bindings/c", "tools"):
        for file in sorted((ROOT / folder).rglob("*.[hic]pp")):
            name, text = file.relative_to(ROOT).as_posix(), re.sub("//.*", "", file.read_text())
            if (calls := len(re.findall(r"\bthrow_error<", text))) != PASSING_ON.get(name, 0):
                problems.append(f"{name}: throw_error is called {calls} times; expected fail(where, given, expected)")
            problems += [f"{name}: throw {error}; expected fail(where, given, expected)" for error in
                         re.findall(r"\bthrow ((?:\w+::)*(?<!thrust::)\w+_error)\b", text)]
    return problems


def main() -> int:
    problems = [f"docs/reference/errors.md: {problem}" for problem in wrong_rows() + unknown_messages()] + unbuilt_messages()
    for problem in problems:
        print(problem)
    if not problems:
        print("every kind of error is in docs/reference/errors.md, and every message there is in the sources")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
