#!/usr/bin/env python3
"""Checks that the documentation is complete, shows code that is compiled, and that its links resolve.

Every rule in include/gradstep/rules has a heading in docs/reference/rules.md and a line in test/support/oracles; every
regularizer and schedule has a heading in its page. A code block under `<!-- FILE [NAME] -->` is the part of FILE between
the lines `// [NAME]`, and every part marked in an example is shown by a page. Every relative link of a Markdown file leads
to a file, and its #anchor to a heading. Every exception has a line in docs/how_to/policies.md.
"""

import re
import sys
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).resolve().parents[2]
SHOWN = ("examples/**/*.cpp", "examples/**/*.c", "bindings/go/*.go", "bindings/rust/examples/*.rs")
NOT_DOCUMENTED = {"all", "without_decay"}  # headers that define no policy


def pages() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


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
        names = {header.stem for header in (ROOT / "include/gradstep" / kind).glob("*.hpp")} - NOT_DOCUMENTED
        page = ROOT / f"docs/reference/{kind}.md"
        listed = set(re.findall(r"\w+", " ".join(headings(page))))
        problems += [f"docs/reference/{kind}.md has no heading for {name}" for name in sorted(names - listed)]
        if kind == "rules":
            oracles = "".join(file.read_text() for file in (ROOT / "test/support/oracles").glob("*.hpp"))
            tested = set(re.findall(r"^constexpr auto line_of\(gs::(\w+)\)", oracles, flags=re.MULTILINE))
            problems += [f"test/support/oracles has no line_of(gs::{name})" for name in sorted(names - tested)]
    return problems


def marked_parts(file: Path) -> dict[str, str]:
    """The code between pairs of lines `// [name]`, by name. Several parts of one name are joined by an empty line."""
    parts: dict[str, list[str]] = {}
    text = file.read_text().expandtabs(4)  # Go's
    for name, part in re.findall(r"^ *// \[(\w+)\]\n(.*?)^ *// \[\1\]$", text, flags=re.MULTILINE | re.DOTALL):
        parts.setdefault(name, []).append(dedent(part))
    return {name: "\n".join(each) for name, each in parts.items()}


def stale_code() -> list[str]:
    problems = []
    unshown = {(str(file.relative_to(ROOT)), name) for pattern in SHOWN for file in ROOT.glob(pattern)
               for name in marked_parts(file)}
    for page in pages():
        for source, name, code in re.findall(r"^<!-- (\S+) \[(\w+)\] -->\n```(?:cpp|c|go|rust)\n(.*?)^```$", page.read_text(),
                                             flags=re.MULTILINE | re.DOTALL):
            file = ROOT / source
            part = marked_parts(file).get(name) if file.exists() else None
            if part is None:
                problems.append(f"{page.relative_to(ROOT)}: {source} has no part marked // [{name}]")
            elif part != code:
                problems.append(f"{page.relative_to(ROOT)}: the code block is not the part // [{name}] of {source}")
            unshown.discard((source, name))
    return problems + [f"{source}: no page shows the part marked // [{name}]" for source, name in sorted(unshown)]


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


def missing_errors() -> list[str]:
    """Errors that a header defines and the table of docs/how_to/policies.md lacks."""
    listed = set(re.findall(r"\b(\w+_error)`", (ROOT / "docs/how_to/policies.md").read_text()))
    defined = {name for header in (ROOT / "include").rglob("*.hpp")
               for name in re.findall(r"^struct (\w+_error)\b.*: \w+", header.read_text(), flags=re.MULTILINE)}
    return [f"docs/how_to/policies.md lists no {name}" for name in sorted(defined - listed - {"basic_error"})]


def stale_licences() -> list[str]:
    """Copies of LICENSE that packages carry."""
    text = (ROOT / "LICENSE").read_text()
    return [f"bindings/{name}/LICENSE is not LICENSE" for name in ("go", "rust") if (ROOT / f"bindings/{name}/LICENSE").read_text() != text]


def main() -> int:
    problems = stale_licences() + missing_policies() + missing_errors() + stale_code() + broken_links()
    for problem in problems:
        print(problem)
    if not problems:
        print("every policy is documented, the code shown is the code compiled, and every link resolves")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
