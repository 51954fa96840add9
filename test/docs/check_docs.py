#!/usr/bin/env python3
"""Checks that the documentation is complete, shows code that is compiled, and that its links resolve.

Every rule in include/gradstep/rules has a heading in docs/reference/rules.md and a line in test/support/oracles; every
regularizer and schedule has a heading in its page. A code block under `<!-- FILE [NAME] -->` is the part of FILE between
the lines `// [NAME]`, in Python `# [NAME]`, and every part marked in an example is shown by a page. A block under
`<!-- output of FILE -->` is what FILE prints (check_output.py). Every relative link of
a Markdown file leads to a file, and its #anchor to a heading. docs/reference/cmake.md lists the
options and targets of the CMake files. Measured times and ratios stand in blocks that `./dev bench report --docs` fills
(numbers_outside_blocks).
"""

import re
import sys
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).resolve().parents[2]
SHOWN = ("examples/**/*.cpp", "examples/**/*.c", "examples/**/*.py", "test/usage/*.cpp", "bindings/go/*.go", "examples/**/*.go", "bindings/rust/examples/*.rs")
NOT_DOCUMENTED = {"all", "without_decay"}  # headers that define no policy


def pages() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bindings/*/*.md"), *ROOT.glob("examples/*.md"),
                   *ROOT.glob("packaging/*.md")])


def prose(path: Path) -> str:
    """The text of a Markdown file without its code, where a [x](y) is no link and a # no heading."""
    return re.sub(r"^(```|~~~).*?^\1", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)


def headings(path: Path) -> list[str]:
    return re.findall(r"^#+ +(.+?)\s*$", prose(path), flags=re.MULTILINE)


def anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def missing_policies() -> list[str]:
    problems = []
    for kind in ("rules", "regularizers", "schedules"):
        names = policies(kind)
        page = ROOT / f"docs/reference/{kind}.md"
        listed = set(re.findall(r"\w+", " ".join(headings(page))))
        problems += [f"docs/reference/{kind}.md has no heading for {name}" for name in sorted(names - listed)]
        if kind == "rules":
            oracles = "".join(file.read_text() for file in (ROOT / "test/support/oracles").glob("*.hpp"))
            tested = set(re.findall(r"^constexpr auto line_of\(gs::(\w+)\)", oracles, flags=re.MULTILINE))
            # Rules that use shapes have their oracle, a function `by_formula`, in a test of their own.
            of_shapes = "".join(file.read_text() for file in (ROOT / "test/rules").glob("*.cpp"))
            tested |= set(re.findall(r"by_formula\(gs::(\w+) const&", of_shapes))
            problems += [f"test/support/oracles has no line_of(gs::{name})" for name in sorted(names - tested)]
    return problems


# What the pages say about the number of rules: the text, and how many rules it names besides.
COUNTS = {**{page: (r"Adagrad and (\d+) more", 4) for page in ("README.md", "docs/index.md", "bindings/go/README.md",
                                                            "bindings/python/README.md", "bindings/rust/README.md")},
          "docs/start/features.md": (r"\[(\d+) rules\]", 0)}


def policies(kind: str) -> set[str]:
    return {header.stem for header in (ROOT / "include/gradstep" / kind).glob("*.hpp")} - NOT_DOCUMENTED


def write_counts() -> None:
    for page, (pattern, named) in COUNTS.items():
        text = (ROOT / page).read_text()
        count = str(len(policies("rules")) - named)
        (ROOT / page).write_text(re.sub(pattern, lambda match: match[0].replace(match[1], count), text))


def wrong_counts() -> list[str]:
    problems = []
    for page, (pattern, named) in COUNTS.items():
        found, expected = re.search(pattern, (ROOT / page).read_text()), len(policies("rules")) - named
        if not found or int(found[1]) != expected:
            problems.append(f"{page}: {found[0] if found else pattern}; expected {expected}; run ./dev generate")
    return problems


def rules_outside_tables() -> list[str]:
    """Rules that the two tables of docs/reference/rules.md leave out."""
    text = (ROOT / "docs/reference/rules.md").read_text()
    of_all, of_rows = text.split("\n## Rows that catch up\n")[0], text.split("\n## Rows that catch up\n")[1].split("\n## ")[0]
    problems = [f"docs/reference/rules.md: the first table lacks {name}" for name in sorted(policies("rules"))
                if f"| [`{name}`](#{name}) |" not in of_all]
    return problems + [f"docs/reference/rules.md: \"Rows that catch up\" lacks {name}" for name in sorted(policies("rules"))
                       if f"`{name}`" not in of_rows]


def wrong_combinations() -> list[str]:
    """Rules that reject `decoupled`: those with takes_gradients_only, and those that docs/reference/compiled_combinations.md lists."""
    text = (ROOT / "docs/reference/compiled_combinations.md").read_text()
    told = set(re.findall(r"`(\w+)`", text.split("### Rules that reject `decoupled`")[1].split(":", 1)[1].split(". ")[0]))
    are = {header.stem for header in (ROOT / "include/gradstep/rules").glob("*.hpp") if "takes_gradients_only = true" in header.read_text()}
    return [f"docs/reference/compiled_combinations.md: rules that reject decoupled: expected {', '.join(sorted(are))}"] if told != are else []


def marked_parts(file: Path) -> dict[str, str]:
    """The code between pairs of lines `// [name]` or `# [name]`, by name. Several parts of one name are joined by an empty line."""
    parts: dict[str, list[str]] = {}
    text = file.read_text().expandtabs(4)  # Go's
    mark = "#" if file.suffix == ".py" else "//"
    for name, part in re.findall(rf"^ *{mark} \[(\w+)\]\n(.*?)^ *{mark} \[\1\]$", text, flags=re.MULTILINE | re.DOTALL):
        parts.setdefault(name, []).append(dedent(part))
    return {name: "\n".join(each) for name, each in parts.items()}


CODE = re.compile(r"(?<=^<!-- )(\S+) \[(\w+)\] -->\n```(?:cpp|c|go|rust|python)\n(.*?)(?=^```$)", flags=re.MULTILINE | re.DOTALL)


def write_code() -> None:
    """Writes the marked parts, as they are now, into the pages that show them."""
    def with_part(block: re.Match) -> str:
        file = ROOT / block[1]
        part = marked_parts(file).get(block[2]) if file.exists() else None
        return block[0] if part is None else block[0].removesuffix(block[3]) + part

    for page in pages():
        text = page.read_text()
        if (written := CODE.sub(with_part, text)) != text:
            page.write_text(written)


def stale_code() -> list[str]:
    problems = []
    unshown = {(str(file.relative_to(ROOT)), name) for pattern in SHOWN for file in ROOT.glob(pattern)
               for name in marked_parts(file)}
    for page in pages():
        for source, name, code in CODE.findall(page.read_text()):
            file = ROOT / source
            part = marked_parts(file).get(name) if file.exists() else None
            if part is None:
                problems.append(f"{page.relative_to(ROOT)}: {source} has no part marked [{name}]")
            elif part != code:
                problems.append(f"{page.relative_to(ROOT)}: the code block is not the part [{name}] of {source}")
            unshown.discard((source, name))
    return problems + [f"{source}: no page shows the part marked [{name}]" for source, name in sorted(unshown)]


def wrong_outputs() -> list[str]:
    """Blocks `<!-- output of FILE -->` whose file is missing. Tests compare those of programs (check_output.py); in Go the file has
    the output too, which `go test` compares."""
    problems = []
    for page in pages():
        for source, shown in re.findall(r"^<!-- output of (\S+) -->\n```text\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
            file = ROOT / source
            if not file.exists() or (file.suffix == ".go" and f"// Output: {shown}" not in file.read_text()):
                problems.append(f"{page.relative_to(ROOT)}: {source} does not print \"{shown.strip()}\"")
    return problems


def broken_links() -> list[str]:
    problems = []
    for page in pages():
        text = re.sub(r"`[^`\n]*`", "", prose(page))
        for link in re.findall(r"\]\(([^)\s]+)[^)]*\)", text):
            if re.match(r"[a-z]+:", link):
                continue
            file, _, fragment = link.partition("#")
            target = (page.parent / file) if file else page
            if not target.exists():
                problems.append(f"{page.relative_to(ROOT)}: the link {link} leads to no file")
            elif fragment and fragment not in map(anchor, headings(target)):
                problems.append(f"{page.relative_to(ROOT)}: the link {link} leads to no heading")
    return problems


def stale_licences() -> list[str]:
    """Copies of LICENSE that packages carry."""
    text = (ROOT / "LICENSE").read_text()
    return [f"bindings/{name}/LICENSE is not LICENSE" for name in ("go", "rust") if (ROOT / f"bindings/{name}/LICENSE").read_text() != text]


def stale_versions() -> list[str]:
    """Files that repeat the version of include/gradstep/version.hpp, and that no other test reads."""
    version = ".".join(re.findall(r"GRADSTEP_VERSION_[A-Z]+ (\d+)", (ROOT / "include/gradstep/version.hpp").read_text()))
    lines = {"bindings/rust/Cargo.toml": f'version = "{version}"', "CITATION.cff": f"version: {version}", "CHANGELOG.md": f"## {version} - "}
    return [f"{name} has no line \"{line}\"" for name, line in lines.items()
            if not re.search(rf"^{re.escape(line)}", (ROOT / name).read_text(), re.MULTILINE)]


def wrong_cmake() -> list[str]:
    """Options and targets that the CMake files or docs/reference/cmake.md lack."""
    files = [*ROOT.glob("CMakeLists.txt"), *ROOT.glob("cmake/*.cmake"),
             *(file for folder in ("benchmarks", "bindings", "examples", "test", "tools") for file in (ROOT / folder).rglob("CMakeLists.txt"))]
    code = "".join(file.read_text() for file in files)
    options = {*re.findall(r"^\s*option\((GRADSTEP_\w+)", code, re.MULTILINE),
               *re.findall(r"^\s*set\((GRADSTEP_\w+) [^()]*?\bCACHE [A-Z]+\b", code, re.MULTILINE)}
    targets = {"gradstep::" + re.sub(r"gradstep-(\w+)-.*", r"\1", file.name) for file in ROOT.glob("cmake/gradstep-*-dependencies.cmake")}
    page = (ROOT / "docs/reference/cmake.md").read_text()
    told = set(re.findall(r"^\| `(\S+?)` \|", page.partition("\n## Macros")[0], re.MULTILINE))
    has = options | targets | {"gradstep::core", "gradstep::c"}
    return ([f"docs/reference/cmake.md has no line for {name}" for name in sorted(has - told)]
            + [f"docs/reference/cmake.md lists {name}, which the CMake files do not have" for name in sorted(told - has)])


NUMBER = r"(?<![\w.,^-])\d[\d,]*(?:\.\d+)?"
COUNT = rf"(?:{NUMBER}|\b(?:half an?|one|two|three|four|five|six|eight|nine|ten|twelve|twenty|thirty))"
MEASURED = [re.compile(pattern, re.IGNORECASE | re.MULTILINE) for pattern in (
    rf"{NUMBER}\s*(?:ns|us|µs|μs|ms|s)\b(?!\^)",  # 12 ns
    rf"{COUNT}[\s-]+(?:nano|micro|milli)seconds?\b",
    rf"{NUMBER}[\s-]+seconds?\b|\b(?:two|three|five|ten) seconds\b|\b(?:takes?|took|about|than) a second(?=\s*[.,;:)]|\s+(?:on|for)\b)",
    rf"{COUNT}[\s-]+(?:minutes?|hours?)\b",
    r"\b(?:takes?|took|costs?|needs?|about|in|than)\s+(?:about\s+)?an?\s+(?:minute|hour)\b",
    rf"{NUMBER}\s*(?:[kMGT]i?\s?)?(?:B|bytes?|bits?|rows?|ids?|keys?|updates?|elements?|floats?|examples?|steps?)\s*(?:/\s*s\b|(?:a|per) second)",
    rf"{NUMBER}\s*(?:times|x|×|-fold)\s+(?:as\b|faster|slower|longer|the time|their|its|our|more|less|torch|\w+'s)",  # 3.8 times as long
    r"(?<![\w.])\d+\.\d+\s*(?:times\b(?! the (?:bytes|memory|size|width))|x(?![\w ]*\d)|-fold)",  # 3.8 times
    r"\b(?:twice|two times|half|a third|a quarter|two thirds|double|three times|four times|ten times)\s+(?:as\s+(?:fast|long|slow)|"
    r"(?:of\s+)?(?:the|its|their|our)\s+(?:\w+\s+)?times?\b|the speed)",
    rf"{NUMBER}\s+of\s+(?:the|its|their|our|that)\s+(?:\w+\s+)?times?\b",  # 0.43 of the time
    rf"factors?\s+(?:of|is|are)?\s*(?:about\s+)?(?:{NUMBER}|two|three|four|ten)\b(?=[^|.]*(?:fast|slow|time|speed))",
    rf"{NUMBER}(?:\s+to\s+\d+)?\s*(?:%|percent)\s+(?:faster|slower|longer|more time|less time|fewer instructions|more instructions|of the time|overhead|speed)",
    rf"{NUMBER}\s+(?:faster|slower)\b|\b(?:faster|slower)\s+by\s+{NUMBER}",
    r"^\|.*[,(/|]\s*(?:ns|us|µs|ms|seconds)\s*(?=[,(|]).*",  # a row or a head of a table such as "| lookup, ns | 12.5 |"
    r"^\|(?:[^|\n]*\|)+\s*times?(?:,[^|\n]*)?\s*\|.*",  # a head such as "| step | time, AVX2 |"
)]
ALLOWED = "<!-- not measured -->"
ALLOWED_BLOCK = re.compile(r"^<!-- not measured: [^\n]+ -->$.*?^<!-- end of not measured -->$", re.MULTILINE | re.DOTALL)
REPORT_BLOCK = re.compile(r"^<!-- report: .*?^<!-- end of report -->$", re.MULTILINE | re.DOTALL)


def numbers_outside_blocks(text: str) -> list[tuple[int, str]]:
    """Measured times, rates and ratios in the prose of a page: line numbers and what was found.

    A measured number stands in a block between `<!-- report: PART -->` and `<!-- end of report -->`, which
    `./dev bench report --docs` fills, or in the output of a program in a code block. Elsewhere the page states the conclusion
    and links to docs/explanation/benchmarks.md. The check finds numbers with a unit of time, numbers of bytes, rows or steps a
    second, and ratios of times and speeds such as "3.8 times", "0.43 of the time", "twice as fast" and "5 % slower". Words
    without a number ("some minutes", "much faster") are allowed.

    Allowed are numbers without such a unit (sizes in bytes, widths, counts, error bounds, hyperparameters), everything in
    `code`, and these numbers if they are marked: a timeout, a default, a bound that follows from a formula, the duration of
    something that the text supposes, and simulated time. Mark one by `<!-- not measured -->` at the end of its line, and a
    section by `<!-- not measured: WHY -->` and `<!-- end of not measured -->` on lines of their own.
    """
    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    lines = text.splitlines()
    for hidden in (ALLOWED_BLOCK, REPORT_BLOCK, re.compile(r"^ *(```|~~~).*?^ *\1", re.MULTILINE | re.DOTALL),
                   re.compile(r"`[^`\n]*`"), re.compile(r"\]\([^)\s]*\)"), re.compile(r"<!--.*?-->", re.DOTALL)):
        text = hidden.sub(blank, text)
    found: dict[int, str] = {}
    for pattern in MEASURED:
        for match in pattern.finditer(text):
            first, last = (text.count("\n", 0, place) for place in (match.start(), match.end()))
            if not any(ALLOWED in line for line in lines[first:last + 1]):
                found.setdefault(first + 1, " ".join(match[0].split()))
    return sorted(found.items())


def measured_numbers() -> list[str]:
    problems = []
    for page in pages():
        name = str(page.relative_to(ROOT))
        problems += [f"{name}:{line}: \"{what}\" stands outside a block of ./dev bench report --docs; expected a conclusion with a "
                     f"link to docs/explanation/benchmarks.md, or {ALLOWED}" for line, what in numbers_outside_blocks(page.read_text())]
    return problems


def main() -> int:
    """Called with --write, it first writes what pages repeat: code blocks, and the number of rules."""
    if "--write" in sys.argv:
        write_code()
        write_counts()
    checks = (stale_licences, stale_versions, missing_policies, rules_outside_tables, wrong_combinations, wrong_counts, stale_code, wrong_outputs, broken_links,
              wrong_cmake, measured_numbers)
    problems = [problem for check in checks for problem in check()]
    for problem in problems:
        print(problem)
    if not problems:
        print("every policy is documented, the code shown is the code compiled, and every link resolves")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
