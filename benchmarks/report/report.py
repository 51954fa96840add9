#!/usr/bin/env python3
"""Runs all benchmarks one after the other, and writes one page of what they have measured: ./dev bench report

In the folder there are then report.md and report.html, the page; report.json, of which the page can be made again; pictures; and what each
program has printed, PART.txt, with its lines, PART.jsonl.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from machine import ROOT, commit, load, machine
from page import blocks, draw, filled, html, markdown, missed
from parts import PARTS, Part, part

POLL = 5.0  # seconds between looks at the load
STOPPED = "it was stopped"


def read_lines(file: Path) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """What the programs say of themselves, and their lines. The last one may be cut off, of a program that was ended."""
    about: dict[str, str] = {}
    lines: list[dict[str, Any]] = []
    for text in file.read_text().splitlines() if file.exists() else []:
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            break
        if "about" in line:
            about.update(line["about"])
        else:
            lines.append(line)
    return about, lines


def last_words(log: Path) -> str:
    """The last line of a log that says something."""
    said = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return said[-1] if said else "it has said nothing"


def left_out(of: Part, why: str) -> dict[str, Any]:
    return {"name": of.name, "title": of.title, "command": "", "state": "left out", "why": why, "minutes": 0.0, "load": [0.0, 0.0],
            "about": {}, "lines": []}


def measure(of: Part, folder: Path, quick: bool, dev: Path = ROOT / "dev") -> dict[str, Any]:
    """Runs a part. Where Ctrl-C has ended it, what it has measured stands, and `why` is STOPPED."""
    lines, log, picture = (folder / f"{of.name}.{ending}" for ending in ("jsonl", "txt", "svg"))
    for old in (lines, picture):
        old.unlink(missing_ok=True)
    asked = ["bench", *of.command, *(of.quick if quick else ())]
    own = ["--json", str(lines), *(["--svg", str(picture)] if of.svg else [])]
    begin, loads, stopped = time.monotonic(), [load()], False
    with open(log, "w") as out, subprocess.Popen([str(dev), *asked, *own], stdin=subprocess.DEVNULL, stdout=out,
                                                 stderr=subprocess.STDOUT) as process:
        while process.poll() is None:
            try:
                process.wait(POLL)
            except subprocess.TimeoutExpired:
                loads.append(load())
                if sys.stdout.isatty():
                    print(f"\r  {(time.monotonic() - begin) / 60:.1f} minutes, {len(read_lines(lines)[1])} lines ", end="", flush=True)
            except KeyboardInterrupt:  # which the terminal gives to the program too
                stopped = True
    loads.append(load())
    about, found = read_lines(lines)
    failed = process.returncode != 0 or stopped
    state = "failed" if failed else "measured" if found else "left out"
    why = (STOPPED if stopped else f"{last_words(log)} ({log.name})" if failed else
           "" if found else f"it has nothing that could be measured here ({log.name})")
    return {"name": of.name, "title": of.title, "command": shlex.join(["./dev", *asked]), "state": state,
            "why": why, "minutes": (time.monotonic() - begin) / 60, "load": [min(loads), max(loads)], "about": about, "lines": found}


def expected(folder: Path, quick: bool) -> dict[str, float]:
    """Minutes of each part: those of the report that is in the folder, or else those of parts.py, a tenth if they are quick."""
    minutes = {of.name: of.minutes * (0.1 if quick else 1) for of in PARTS}
    try:
        before = json.loads((folder / "report.json").read_text())
        if before["quick"] == quick:
            minutes.update({of["name"]: of["minutes"] for of in before["parts"] if of["state"] == "measured"})
    except (OSError, ValueError, KeyError):
        pass  # there is none that can be read
    return minutes


def run(options: argparse.Namespace, dev: Path = ROOT / "dev") -> dict[str, Any]:
    folder: Path = options.output
    wanted = [of for of in PARTS if (not options.part or of.name in options.part) and of.name not in options.without]
    minutes = expected(folder, options.quick)
    total, done = sum(minutes[of.name] for of in wanted), 0.0
    print(f"{len(wanted)} of {len(PARTS)} parts, about {max(total, 1):.0f} minutes; more where something has to be built or installed first. The load "
          f"is {load():.1f}: whatever else runs is measured too.", flush=True)
    report: dict[str, Any] = {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"), "commit": commit(), "machine": machine(), "load": load(),
        "command": shlex.join(["./dev", "bench", "report", *options.arguments]), "quick": options.quick, "parts": []}
    stopped = False
    for of in PARTS:
        if of not in wanted:
            report["parts"].append(left_out(of, "not asked for"))
            continue
        if stopped:
            report["parts"].append(left_out(of, "the report was stopped before"))
            continue
        print(f"[{wanted.index(of) + 1}/{len(wanted)}] {of.name}: about {minutes[of.name]:.1f} minutes, {done:.0f} of {total:.0f} done",
              flush=True)
        measured = measure(of, folder, options.quick, dev)
        stopped = measured["why"] == STOPPED
        done += minutes[of.name]
        report["parts"].append(measured)
        write_json(report, folder)  # what an end of the machine leaves
        wrong = sum(line.get("verdict") == "MISS" for line in measured["lines"])
        why = f"; it failed: {measured['why']}" if measured["state"] == "failed" else ""
        print(f"\r  {measured['minutes']:.1f} minutes, {len(measured['lines'])} lines, {wrong} missed{why}", flush=True)
    return report


def write_json(report: dict[str, Any], folder: Path) -> None:
    (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n")


def write(report: dict[str, Any], folder: Path) -> None:
    write_json(report, folder)
    page = markdown(report, draw(report, folder))
    (folder / "report.md").write_text(page)
    print(f"The page: {folder / 'report.md'}")
    try:
        (folder / "report.html").write_text(html(page))
        print(f"          {folder / 'report.html'}")
    except ImportError:
        print("report.html was not written: Python-Markdown (Debian: python3-markdown) is missing")


def write_pages(pages: dict[Path, str], report: dict[str, Any]) -> list[str]:
    """Fills the blocks of each page, and returns what is wrong with a page; that page stays as it is."""
    wrong = []
    for page, text in pages.items():
        try:
            new = filled(text, report)
        except ValueError as problem:
            wrong.append(f"{page}: {problem}")
            continue
        if new != text:
            page.write_text(new)
            print(f"          {page}")
    return wrong


def known_part(name: str) -> str:
    try:
        return part(name).name
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def arguments(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench report", description=__doc__.partition("\n")[0],
                                     epilog=f"The parts: {', '.join(of.name for of in PARTS)}.")
    parser.add_argument("--without", action="append", default=[], type=known_part, metavar="PART", help="leave it out; may be repeated")
    parser.add_argument("--part", action="append", default=[], type=known_part, help="no other than those named so; may be repeated")
    parser.add_argument("--quick", action="store_true", help="few rounds of small things: whether everything runs, not how fast")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="(default: build/report, or that of --from)")
    parser.add_argument("--from", dest="source", type=Path, metavar="FILE", help="measure nothing: the page of this report.json")
    parser.add_argument("--docs", nargs="*", action="extend", type=Path, metavar="PAGE",
                        help="also put the tables of parts that were measured into these pages, between `<!-- report: PART... [PATTERN] -->` and "
                             "`<!-- end of report -->`; without PAGE: into README.md and all pages of docs/")
    parser.add_argument("--strict", action="store_true", help="exit with 1 also if a line misses its bound")
    options = parser.parse_args(given)
    options.arguments = given
    options.output = (options.output or (options.source.parent if options.source else ROOT / "build/report")).resolve()
    if options.docs is not None and options.quick:
        parser.error("--docs with --quick: --quick only shows that everything runs, its numbers do not belong into docs/")
    if options.docs == []:
        options.docs = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return options


def main(given: list[str]) -> int:
    options = arguments(given)
    try:
        if options.source:
            report = json.loads(options.source.read_text())
        pages = {page: page.read_text() for page in options.docs or []}
        for text in pages.values():
            blocks(text)  # a block of an unknown part is an error before anything is measured
        options.output.mkdir(parents=True, exist_ok=True)
        if not options.source:
            report = run(options)
        write(report, options.output)
        if pages and report["quick"]:
            raise ValueError("a report that was measured with --quick does not belong into docs/")
        wrong = write_pages(pages, report)
        if wrong:
            raise ValueError("; ".join(wrong))
    except (OSError, ValueError, KeyError) as problem:
        print(f"./dev bench report: {problem!r}" if isinstance(problem, KeyError) else f"./dev bench report: {problem}", file=sys.stderr)
        return 2
    failed = any(of["state"] == "failed" for of in report["parts"])
    return 1 if failed or (options.strict and missed(report)) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
