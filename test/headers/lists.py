#!/usr/bin/env python3
"""The headers all.hpp that list what a folder contains are what this script writes: the rules, regularizers and schedules of the
library, and the oracles of the tests. Exit status 1 and the names of the files that are not.
Usage: lists.py [--write]; --write writes them. `./dev generate` runs it."""
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("include/gradstep/rules", "include/gradstep/regularizers", "include/gradstep/schedules", "test/support/oracles")
NOT_LISTED = {"all", "any_regularizer", "without_decay"}  # they use the others
HEAD = "#pragma once\n/// {what}. `./dev generate` writes this header from the names of the files beside it.\n\n"
TYPES = """
namespace gradstep {{

// clang-format off
/// The types of all rules. Configurations, the C library and the tests use this list.
{list}
// clang-format on

}} // namespace gradstep
"""


def text_of(folder: str) -> str:
    names = sorted({path.stem for path in (ROOT / folder).glob("*.hpp")} - NOT_LISTED)
    prefix = folder.removeprefix("include/").removeprefix("test/")
    of_rules = folder.endswith("/rules")
    includes = [f"{prefix}/{name}" for name in names] + ["gradstep/base/type_list"] * of_rules
    out = HEAD.format(what=f"All {folder.rsplit('/')[-1]}") + "".join(f"#include <{name}.hpp>\n" for name in sorted(includes))
    if of_rules:
        opening = "using rules = type_list<"
        out += TYPES.format(list=textwrap.fill(", ".join(names) + ">;", 120, initial_indent=opening,
                                               subsequent_indent=" " * len(opening), break_long_words=False))
    return out


def main() -> int:
    files = {ROOT / folder / "all.hpp": text_of(folder) for folder in FOLDERS}
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if "--write" in sys.argv:
            path.write_text(files[path])
        else:
            print(f"{path.relative_to(ROOT)} does not list the files beside it; run ./dev generate")
    return 1 if stale and "--write" not in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
