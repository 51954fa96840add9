#!/usr/bin/env python3
"""Compares the outputs of `gradstep plan` in a page with the program's, or writes them: check_plan.py PROGRAM PAGE [--write].

An output stands between `<!-- output of: gradstep plan ... -->` and `<!-- end of output -->`, as a Markdown table or in a block of code.
A JSON block under `<!-- file: NAME -->` is the file NAME of these commands.
"""
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

OUTPUT = re.compile(r"^(<!-- output of: gradstep (plan [^\n]*) -->\n)(.*?)(^<!-- end of output -->$)", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^<!-- file: (\S+) -->\n```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main(program: str, page: str, write: bool) -> int:
    text = Path(page).read_text()
    with tempfile.TemporaryDirectory() as folder:
        for name, content in FILE.findall(text):
            (Path(folder) / name).write_text(content)

        def filled(match: re.Match) -> str:
            ran = subprocess.run([program, *shlex.split(match[2])], capture_output=True, text=True, check=True, cwd=folder)
            out = ran.stdout if ran.stdout.startswith("|") else f"```text\n{ran.stdout}```\n"
            return match[1] + out + match[4]

        wanted, count = OUTPUT.subn(filled, text)
    if count == 0:
        print(f"{page} has no output of gradstep plan")
    elif wanted == text:
        print(f"the {count} outputs in {page} are the program's")
        return 0
    elif write:
        Path(page).write_text(wanted)
        return 0
    else:
        print(f"{page} has other outputs than the program; run {sys.argv[0]} {program} {page} --write")
    return 1


if __name__ == "__main__":
    sys.exit(main(str(Path(sys.argv[1]).resolve()), sys.argv[2], sys.argv[3:] == ["--write"]))
