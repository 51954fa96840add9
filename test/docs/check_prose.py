#!/usr/bin/env python3
"""Checks how the project's text is written: docs/, the front pages, and the comments of the library and its bindings.

- A phrase that readers stumble over: PHRASES below has each with what to write instead.
- A line of Markdown over 130 columns, tables, links and generated pages apart, or a line of prose in a comment of C++ over 100.
- A page over 2500 words, code and tables apart: 1500 for one that shows how to do a task. Reference pages have no limit.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("*.md", "docs/**/*.md", "bindings/*/README.md", "examples/README.md", "packaging/README.md")
SOURCES = ("include/**/*.[hi]pp", "include/**/*.h", "bindings/**/*.[ch]pp", "bindings/**/*.go", "bindings/**/*.rs", "bindings/python/gradstep/**/*.py",
           "examples/**/*.[ch]*", "tools/*.[ch]pp")
LONGEST_LINE, LONGEST_COMMENT = 130, 100
WORDS = {"docs/how_to": 1500, "docs/reference": None}
MOST_WORDS = 2500

# What to write instead, and what finds it.
PHRASES = [
    ("except", r"\bbut for (?!example|this reason)"),
    ("your, its or their", r"\bof (?:yours|theirs|ours)\b"),
    ("the noun again, in place of a pronoun", r"\b(?:that|those|the same) of\b"),
    ("callers, users or a function's name", r"(?:^|[.;:] )(?:[Tt]hose who|[Ww]ho(?:ever)?)\b|\b(?:nobody|somebody|no one)\b"),
    ("the subject first", r"(?:^|[.] )Of (?:a|an|the|those|what|\w+)\b"),
    ("a noun as the subject", r"(?:^|[.] )What \w+ (?:is|are|has|was|may|can|does)\b"),
    ("belongs to, or is up to", r"\b(?:is|are) the (?:host|caller|program|user)'s\b"),
    ("if there is", r"\bis there where\b|\bwhere (?:there )?(?:is|are) (?:none|one)\b"),
    ("evict", r"\bgive up rows\b"),
    ("must", r"\bhad? to have come\b"),
]


def files(patterns: tuple[str, ...]) -> list[Path]:
    found = {file for pattern in patterns for file in ROOT.glob(pattern) if file.is_file()}
    return sorted(file for file in found if not {"build", "target", "_static"} & set(file.relative_to(ROOT).parts))


def prose_of_page(text: str) -> list[str]:
    """The lines of a page. Lines of code, and of blocks that ./dev bench report fills, are empty."""
    lines, code, report = [], False, False
    for line in text.splitlines():
        report = (report or line.startswith("<!-- report: ")) and not line.startswith("<!-- end of report -->")
        if line.lstrip().startswith(("```", "~~~")):
            code = not code
            line = ""
        lines.append("" if code or report else line)
    return lines


def comments_of(text: str) -> list[str]:
    """The comment of each line of a source, or its part of a docstring of Python or of a comment of C."""
    lines, end = [], ""
    for line in text.splitlines():
        begin = re.search(r'"""|(?:^|[,;{)])\s*/\*', line)
        if end:
            lines.append(line)
            end = "" if end in line else end
        elif begin:
            lines.append(line[begin.end():])
            end = '"""' if begin[0] == '"""' else "*/"
            end = "" if end in lines[-1] else end
        else:
            found = re.search(r"(?:///?|^\s*#|\s#:?)\s?[<!]?\s?(.*)", line)
            lines.append(found[1] if found else "")
    return lines


def phrases(name: str, lines: list[str]) -> list[str]:
    return [f"{name}:{number}: \"{found[0].strip('.;: ')}\": write {instead}" for number, line in enumerate(lines, 1)
            for instead, pattern in PHRASES if (found := re.search(pattern, line))]


def long_lines(name: str, lines: list[str]) -> list[str]:
    if "_api.md" in name:
        return []
    return [f"{name}:{number}: {len(line)} columns; expected at most {LONGEST_LINE}" for number, line in enumerate(lines, 1)
            if len(line) > LONGEST_LINE and not line.lstrip().startswith(("|", "<", "!["))
            and len(re.sub(r"\]\([^)]*\)", "]", line)) > LONGEST_LINE]


def long_comments(name: str, text: str) -> list[str]:
    """Lines of prose in comments that have the line to themselves. Formulas, code and tables are indented, or have gaps."""
    return [f"{name}:{number}: {len(line)} columns of prose; expected at most {LONGEST_COMMENT}"
            for number, line in enumerate(text.splitlines(), 1)
            if len(line) > LONGEST_COMMENT and re.match(r"\s*(?:///?|\*) [\w`\"(]\S*(?: \S+)+$", line)]


def too_long(name: str, lines: list[str]) -> list[str]:
    most = next((words for folder, words in WORDS.items() if name.startswith(folder)), MOST_WORDS)
    text = re.sub(r"<!--.*?-->", "", "\n".join(line for line in lines if not line.startswith("|")), flags=re.DOTALL)
    count = len(text.split())
    return [f"{name}: {count} words; expected at most {most}"] if most and count > most else []


def main() -> int:
    problems = []
    for file in files(PAGES):
        name, lines = str(file.relative_to(ROOT)), prose_of_page(file.read_text())
        problems += phrases(name, [re.sub(r"`[^`]*`", "``", line) for line in lines]) + long_lines(name, lines) + too_long(name, lines)
    for file in files(SOURCES):
        name, text = str(file.relative_to(ROOT)), file.read_text()
        problems += phrases(name, comments_of(text))
        if file.suffix in (".hpp", ".ipp", ".cpp", ".h", ".c", ".cu"):
            problems += long_comments(name, text)
    for problem in problems:
        print(problem)
    if not problems:
        print("no phrase, line or page is one that readers stumble over")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
