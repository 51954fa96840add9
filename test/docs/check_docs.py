#!/usr/bin/env python3
"""Checks that the documentation is complete and that its links resolve.

Every rule in include/gradstep/rules has a heading in docs/rules.md and a line in test/support/registry.hpp; every relative
link of a Markdown file leads to a file, and its #anchor to a heading.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def prose(path: Path) -> str:
    """The text of a Markdown file without its code, where a [x](y) is no link and a # no heading."""
    return re.sub(r"^(```|~~~).*?^\1", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)


def headings(path: Path) -> list[str]:
    return re.findall(r"^#+ +(.+?)\s*$", prose(path), flags=re.MULTILINE)


def anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def missing_rules() -> list[str]:
    rules = sorted(header.stem for header in (ROOT / "include/gradstep/rules").glob("*.hpp"))
    page, registry = ROOT / "docs/rules.md", ROOT / "test/support/registry.hpp"
    problems = [f"{path.relative_to(ROOT)} does not exist" for path in (page, registry) if not path.exists()]
    if problems:
        return problems
    documented = set(re.findall(r"\w+", " ".join(headings(page))))
    registered = set(re.findall(r"\w+", registry.read_text()))
    problems += [f"docs/rules.md has no heading for the rule {rule}" for rule in rules if rule not in documented]
    problems += [f"test/support/registry.hpp has no line for the rule {rule}" for rule in rules if rule not in registered]
    return problems


def broken_links() -> list[str]:
    problems = []
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]):
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


def main() -> int:
    problems = missing_rules() + broken_links()
    for problem in problems:
        print(problem)
    if not problems:
        print("every rule is documented and registered, and every link resolves")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
