#!/usr/bin/env python3
"""Checks the table "Feature by language" of docs/start/features.md against the tests.

- Each cell of the table that promises something has a line in test/docs/features.txt, with the file and the name of a test that shows it.
- Each file and each test of that list exists, and each line has a cell.
- Each cell with "no" or a dash has a reason in the list below the table.
- test/c/configurations.txt, by which four languages train, names every policy of the configuration schema.
"""

import difflib
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE, LIST = ROOT / "docs/start/features.md", ROOT / "test/docs/features.txt"
CONFIGURATIONS, SCHEMA = ROOT / "test/c/configurations.txt", ROOT / "docs/reference/configuration.schema.json"
NOTHING = ("no", "-")
# It has no rate of its own: the caller gives one with each step.
WITHOUT_A_LINE = {("schedule", "external")}


def plain(cell: str) -> str:
    """The text of a cell without links, emphasis and code marks."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", cell).replace("*", "").replace("`", "").strip()


def section(page: str) -> str:
    return re.search(r"^## Feature by language\n(.*?)^## ", page, flags=re.MULTILINE | re.DOTALL).group(1)


def table(page: str) -> dict[str, dict[str, str]]:
    """The cells by row and column: {"frozen parameters": {"C": "no", ...}, ...}. Headings in the table have no cells."""
    lines = [line.strip().strip("|").split("|") for line in section(page).splitlines() if line.startswith("|")]
    columns = [plain(cell) for cell in lines[0][1:]]
    rows = {}
    for row, *cells in lines[2:]:
        texts = [plain(cell) for cell in cells]
        if any(texts):
            rows[plain(row)] = dict(zip(columns, texts))
    return rows


def reasons(page: str) -> dict[str, list[str]]:
    """The languages of each row in the list of reasons: "- **row** (language, language): reason"."""
    found: dict[str, list[str]] = {}
    for row, languages in re.findall(r"^- \*\*(.*?)\*\* \(([^)]*)\): \S", section(page), flags=re.MULTILINE):
        found.setdefault(plain(row), []).extend(languages.split(", "))
    return found


def evidence(text: str) -> tuple[dict[str, list[tuple[str, str, str]]], list[str]]:
    """The lines of features.txt by row, as (column, file, test), and what is no line."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    problems, row = [], None
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        if not line.startswith(" "):
            row = line
            if row in found:
                problems.append(f"line {number}: the row {row!r} again; expected one section a row")
            found.setdefault(row, [])
        elif row is None or len(parts := line.strip().split(": ", 2)) < 3:
            problems.append(f"line {number}: {line.strip()!r}; expected a row, and below it lines \"  column: file: test\"")
        else:
            found[row].append((parts[0], parts[1], parts[2]))
    return found, problems


def joined_literals(code: str) -> str:
    """C++ or Python without the quotes between adjacent string literals."""
    return re.sub(r'"\s*\n\s*"', "", code)


def tests_of(file: Path) -> set[str]:
    """The names of the tests in a file."""
    code = file.read_text()
    if file.suffix in (".cpp", ".hpp", ".cu"):
        names = re.findall(r'^(?:RULE|TEMPLATE|TEMPLATE_LIST)?_?TEST_CASE\(\s*"((?:[^"\\]|\\.)*)"', joined_literals(code), flags=re.MULTILINE)
    elif file.suffix == ".py":
        names = re.findall(r"^def (\w+)\(", code, flags=re.MULTILINE)
        for name, body in re.findall(r"^class (\w+)\b.*?:\n((?:(?:[ \t].*)?\n)*)", code, flags=re.MULTILINE):
            names += [f"{name}.{test}" for test in re.findall(r"^    def (test\w*)\(", body, flags=re.MULTILINE)]
    elif file.suffix == ".go":
        names = re.findall(r"^func ((?:Test|Example)\w*)\(", code, flags=re.MULTILINE)
    elif file.suffix == ".rs":
        names = re.findall(r"^#\[test\]\n(?:#\[.*\]\n)*fn (\w+)\(", code, flags=re.MULTILINE)
    elif file.name == "CMakeLists.txt":
        names = re.findall(r"add_test\(NAME (\S+)", code)
    else:
        names = []
    # Programs that are a test each: see examples/CMakeLists.txt and test/usage/CMakeLists.txt.
    if file.suffix in (".cpp", ".c") and ROOT / "examples" in file.parents:
        names.append(f"examples.{'c.' if file.suffix == '.c' else ''}{file.stem}")
    elif file.suffix == ".cpp" and ROOT / "test/usage" in file.parents:
        names.append(f"usage.{file.stem}")
    return set(names)


def wrong_tests(found: dict[str, list[tuple[str, str, str]]]) -> list[str]:
    known: dict[str, set[str]] = {}
    problems = []
    for row, lines in found.items():
        for column, name, test in lines:
            if not (ROOT / name).is_file():
                problems.append(f"{row!r}, {column}: there is no file {name}; expected the file of a test")
                continue
            tests = known.setdefault(name, tests_of(ROOT / name))
            if test not in tests:
                near = difflib.get_close_matches(test, sorted(tests), 1)
                hint = f" (did you mean {near[0]!r}?)" if near else ""
                problems.append(f"{row!r}, {column}: {name} has no test {test!r}{hint}; expected one of its {len(tests)} tests")
    return problems


def wrong_cells(page: str, found: dict[str, list[tuple[str, str, str]]]) -> list[str]:
    rows, why, problems = table(page), reasons(page), []
    for row, cells in rows.items():
        shown = [column for column, _, _ in found.get(row, [])]
        for column, cell in cells.items():
            if cell in NOTHING:
                if column in shown:
                    problems.append(f"{row!r}, {column}: the page says {cell!r}, and features.txt has a test; expected one of the two")
                if column not in why.get(row, []):
                    problems.append(f"{row!r}, {column}: {cell!r} without a reason; expected \"- **{row}** ({column}): ...\" below the table")
            elif not cell:
                problems.append(f"{row!r}, {column}: the cell is empty; expected yes, some, no or a place")
            elif column not in shown:
                problems.append(f"{row!r}, {column}: {cell!r} without a test; expected a line in test/docs/features.txt")
        problems += [f"{row!r}: features.txt has the column {column!r}; expected one of {', '.join(cells)}"
                     for column in shown if column not in cells]
    problems += [f"features.txt has the row {row!r}; expected a row of the table in features.md" for row in found if row not in rows]
    for row, columns in why.items():
        for column in columns:
            cell = rows.get(row, {}).get(column)
            if cell not in NOTHING:
                problems.append(f"features.md has a reason for {row!r}, {column}, whose cell is {cell!r}; expected \"no\" or a dash there")
    return problems


def names_of(policy: object) -> set[str]:
    """The names in a policy of a configuration, and in the policies inside it."""
    if isinstance(policy, list):
        return set().union(*map(names_of, policy))
    if not isinstance(policy, dict):
        return set()
    inner = set().union(set(), *map(names_of, policy.values()))
    return inner | ({(policy["dialect"] + "." if "dialect" in policy else "") + policy["name"]} if "name" in policy else set())


def missing_configurations() -> list[str]:
    kinds = ("rule", "average", "regularizer", "schedule", "clip")
    used: dict[str, set[str]] = {kind: set() for kind in kinds}
    for line in CONFIGURATIONS.read_text().splitlines():
        if line and not line.startswith("#"):
            config = json.loads(line.split(" ", 1)[1])
            for kind in kinds:
                used[kind] |= names_of(config.get(kind, {}))
            used["schedule"] |= names_of([x for kind in ("rule", "regularizer") for x in config.get(kind, {}).values()])
    definitions, problems = json.loads(SCHEMA.read_text())["$defs"], []
    for kind in kinds:
        for policy in definitions[kind]["oneOf"]:
            members = policy.get("properties", {})
            name = ".".join(members[key]["const"] for key in ("dialect", "name") if key in members)
            if name not in used[kind] | {"", "none"} and (kind, name) not in WITHOUT_A_LINE:
                problems.append(f"test/c/configurations.txt: no line has the {kind} {name}; expected one, by which C, Python, Go and Rust train")
    return problems


def main() -> int:
    page = PAGE.read_text()
    found, problems = evidence(LIST.read_text())
    problems = [f"test/docs/features.txt: {problem}" for problem in problems]
    problems += wrong_cells(page, found) + wrong_tests(found) + missing_configurations()
    for problem in problems:
        print(problem)
    if not problems:
        cells = sum(len(lines) for lines in found.values())
        print(f"each feature of docs/start/features.md has a test in each of its languages, or a reason ({cells} lines)")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
