#!/usr/bin/env python3
"""Runs an example, and checks that pages show what it prints.

A page shows the output, or some lines of it that follow each other, in a block ```text below `<!-- output of SOURCE -->`. SOURCE is the
program's file from the root of the repository.

Usage: check_output.py [--write] SOURCE COMMAND...    --write puts the whole output into the blocks that differ
"""

import re
import subprocess
import sys

from check_docs import ROOT, pages

BLOCK = r"(?<=^<!-- output of {} -->\n```text\n).*?(?=^```$)"


def main(arguments: list[str]) -> int:
    write = arguments[:1] == ["--write"]
    source, *command = arguments[write:]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    sys.stdout.write(ran.stdout)
    if ran.returncode != 0:
        return ran.returncode if ran.returncode > 0 else 1
    block = re.compile(BLOCK.format(re.escape(source)), re.MULTILINE | re.DOTALL)
    stale = [page for page in pages() if any(shown not in ran.stdout for shown in block.findall(page.read_text()))]
    for page in stale:
        if write:
            page.write_text(block.sub(lambda shown: shown[0] if shown[0] in ran.stdout else ran.stdout, page.read_text()))
        else:
            print(f"{page.relative_to(ROOT)}: the output of {source} is another one; run check_output.py --write {source} {' '.join(command)}")
    return 1 if stale and not write else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
