"""The page of a report in Markdown and HTML, its pictures, and the parts of it that stand in docs/."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import fill
from typing import Any

from parts import part

Measured = dict[str, Any]  # a part, as report.py writes it
Line = dict[str, Any]  # as report.hpp and lines.py write it

STYLE = """body { font: 15px/1.5 sans-serif; margin: 2em auto; max-width: 64em; padding: 0 1em; }
table { border-collapse: collapse; margin: 1em 0; }
th, td { border-bottom: 1px solid #ddd; padding: 0.15em 0.8em; text-align: left; }
td:nth-child(n+2) { font-variant-numeric: tabular-nums; white-space: nowrap; }
strong { color: #b00; }
img { max-width: 100%; }
"""


def number(x: float | None) -> str:
    """None, as JSON has what is no number, is a dash."""
    if x is None:
        return "-"
    if 0 < abs(x) < 0.01:
        return f"{x:.3g}"
    return f"{x:.3f}" if abs(x) < 10 else f"{x:.1f}" if abs(x) < 1000 else f"{x:.0f}"


def cell(text: object) -> str:
    """Text as it is, in a table of Markdown."""
    return re.sub(r"([\\`*|\[\]])", r"\\\1", str(text)).replace("<", "&lt;").replace("\n", " ")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows))


def of_line(line: Line, name: str) -> str:
    """A number of a line. Those with the unit "count" are whole numbers."""
    return str(line[name]) if line["unit"] == "count" else number(line[name])


def bound(line: Line) -> str:
    return next((f"{words} {of_line(line, name)}" for name, words in (("at_most", "at most"), ("at_least", "at least"))
                 if name in line), "")


def verdict(line: Line) -> str:
    return "**missed**" if line.get("verdict") == "MISS" else line.get("verdict", "")


def measured(line: Line) -> str:
    """The number with its unit."""
    return of_line(line, "measured") + (f" {cell(line['unit'])}" if line["unit"] not in ("", "count") else "")


def row(line: Line) -> list[str]:
    return [cell(line["what"]), measured(line), f"{of_line(line, 'low')} to {of_line(line, 'high')}", bound(line),
            verdict(line)]


def tables(of: Measured) -> str:
    """A table for each section of a part."""
    return "\n".join(table([cell(section), "measured", "quartiles", "must be", ""], map(row, lines))
                     for section, lines in groupby(of["lines"], key=lambda line: line["section"]))


SIZE = re.compile(r"(?:,| by)? ([0-9]+(?: [KM]i)?(?: x [0-9]+)?)(?=[,:]|$)")  # as in "sgd, 64 Ki: composed / hand-written", "index: lookup, 1000 x 16"


def by_size(what: str) -> tuple[str, str] | None:
    """The row and the column of a line in a grid that has a column for each size."""
    found = SIZE.search(what)
    return found and (what[:found.start()] + what[found.end():], found[1])


def by_measure(what: str) -> tuple[str, str] | None:
    """The same in one that has a column for each thing measured."""
    row, colon, column = what.partition(": ")
    return (row, column) if colon else None


def only(found: Iterable[str]) -> str:
    """What all of them are; nothing where they differ."""
    each = set(found)
    return each.pop() if len(each) == 1 else ""


def grid(lines: Sequence[Line]) -> str | None:
    """The lines of a section as a table with several numbers in a row, without quartiles; None where they make none."""
    best: dict[str, dict[str, Line]] = {}
    columns: list[str] = []
    for place in (by_size, by_measure):
        places = [place(line["what"]) for line in lines]
        if None in places or len(set(places)) != len(lines):
            continue
        names = list(dict.fromkeys(column for _, column in places))
        rows: dict[str, dict[str, Line]] = {}
        for (name, column), line in zip(places, lines):
            rows.setdefault(name, {})[column] = line
        is_full = len(lines) >= 0.75 * len(rows) * len(names)
        if len(names) > 1 and len(rows) > 1 and is_full and (not best or len(rows) < len(best)):
            best, columns = rows, names
    if not best:
        return None
    # What is the same for all stands once: the measure with the section, a bound with its column or its row.
    section, measure = lines[0]["section"], only(name.partition(": ")[2] for name in best)
    head = section if measure in section else f"{section}: {measure}"
    of_column = {column: only(bound(cells[column]) for cells in best.values() if column in cells) for column in columns}

    def body_row(name: str, cells: dict[str, Line]) -> list[str]:
        own = "" if any(of_column.values()) else only(map(bound, cells.values()))
        out = [cell(name.removesuffix(f": {measure}") if measure else name) + (f" ({own})" if own else "")]
        for column in columns:
            line = cells.get(column)
            said = "" if line is None else measured(line)
            if line is not None and not own and not of_column[column] and bound(line):
                said += f" ({bound(line)})"
            out.append(said + (" **missed**" if line is not None and line.get("verdict") == "MISS" else ""))
        return out

    body = [body_row(name, cells) for name, cells in best.items()]
    if any(of_column.values()):
        body.insert(0, ["must be", *of_column.values()])
    return table([cell(head), *map(cell, columns)], body)


def grids(of: Measured) -> str:
    """A table for each section of a part, as a grid where it makes one."""
    return "\n".join(grid(lines) or tables({**of, "lines": lines})
                     for lines in (list(group) for _, group in groupby(of["lines"], key=lambda line: line["section"])))


def missed(report: dict[str, Any]) -> list[tuple[str, Line]]:
    return [(of["name"], line) for of in report["parts"] for line in of["lines"] if line.get("verdict") == "MISS"]


def load_text(of: dict[str, Any]) -> str:
    return f"{of['load'][0]:.1f} to {of['load'][1]:.1f}"


def bounds_of(report: dict[str, Any]) -> str:
    wrong = missed(report)
    count = sum("verdict" in line for of in report["parts"] for line in of["lines"])
    if not wrong:
        return f"All {count} bounds hold.\n" if count else "No line with a bound was measured.\n"
    return f"{len(wrong)} of {count} are missed.\n\n" + table(
        ["part", "line", "measured", "quartiles", "must be"], [[name, *row(line)[:4]] for name, line in wrong])


def versions_of(report: dict[str, Any]) -> str:
    """What the programs say of themselves, with the parts where they do not say the same."""
    said: dict[tuple[str, str], list[str]] = {}
    for of in report["parts"]:
        for name, version in of["about"].items():
            said.setdefault((name, version), []).append(of["name"])
    names = [name for name, _ in said]
    rows = [[cell(name), cell(version) + (f" ({', '.join(where)})" if names.count(name) > 1 else "")]
            for (name, version), where in sorted(said.items())]
    return table(["", "version"], rows) if rows else "No part has said any.\n"


def markdown(report: dict[str, Any], pictures: dict[str, str]) -> str:
    """The page; `pictures` are file names beside it, by the names of parts."""
    head = {"date": report["date"], "commit": report["commit"], "command": report["command"], **report["machine"],
            "load before it began": f"{report['load']:.1f}"}
    page = f"# Benchmarks of gradstep: {cell(report['machine'].get('processor', 'unknown processor'))}\n\n"
    if report["quick"]:
        page += "**Measured with --quick: whether everything runs, not how fast.**\n\n"
    page += "## The machine\n\n" + table(["", "here"], [[name, cell(x)] for name, x in head.items()])
    page += "\n## Versions\n\n" + versions_of(report)
    page += "\n## Bounds\n\n" + bounds_of(report)
    absent: dict[tuple[str, str], list[str]] = {}
    for of in report["parts"]:
        if of["state"] != "measured":
            absent.setdefault((of["state"], of["why"]), []).append(of["name"])
    if absent:
        page += "\n## What failed or was left out\n\n" + table(
            ["parts", "", "why"], [[", ".join(names), state, cell(why)] for (state, why), names in absent.items()])
    page += ("\nEvery number is the median of its rounds, with the quartiles; a ratio is that of variants that ran in turn, so that both saw "
             "the same machine. Lines without a bound are reported only.\n")
    for of in report["parts"]:
        if of["state"] == "left out":
            continue
        page += f"\n## {of['title']}\n\n`{of['command']}`: {of['minutes']:.1f} minutes, at a load of {load_text(of)}."
        page += f" It failed: {cell(of['why'])}\n" if of["state"] == "failed" else "\n"
        if of["lines"]:
            page += f"\n{tables(of)}"
        if of["name"] in pictures:
            page += f"\n![{of['title']}]({pictures[of['name']]})\n"
    return page


def html(page: str) -> str:
    """By Python-Markdown (Debian: python3-markdown); raises ImportError where it is missing."""
    from markdown import markdown as convert

    title = page.partition("\n")[0].lstrip("# ")
    return (f"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n"
            f"</head>\n<body>\n{convert(page, extensions=['tables'])}\n</body>\n</html>\n")


def shares(of: Measured) -> list[tuple[str, float, float, float, bool]]:
    """Of each line with a bound: its name, which part of what is allowed it takes, with quartiles, and whether it misses. Above 1 it
    misses, whether the bound is a largest or a smallest number."""
    found = []
    for line in of["lines"]:
        x = [line["measured"], line["low"], line["high"]]
        if None in x:
            continue
        if "at_most" in line and line["at_most"] > 0:
            middle, low, high = (value / line["at_most"] for value in x)
        elif "at_least" in line and min(x) > 0:
            middle, high, low = (line["at_least"] / value for value in x)
        else:
            continue
        if low > 0:  # on a logarithmic axis
            found.append((line["what"], middle, low, high, line["verdict"] == "MISS"))
    return found


def script(of: Measured, to: str) -> str:
    """What to tell gnuplot: a row for each line with a bound."""
    points = shares(of)

    def quoted(text: str) -> str:
        return "'" + text.replace("'", "''") + "'"

    ticks = ", ".join(f"{quoted(point[0].replace('%', '%%'))} {k}" for k, point in enumerate(points))  # each is a format
    data = "\n".join(f"{middle:.6g} {low:.6g} {high:.6g} {k} {int(miss)}" for k, (_, middle, low, high, miss) in enumerate(points))
    least, most = min(0.5, *(x[2] for x in points)), max(2, *(x[3] for x in points))
    names = 30 + 8 * max(len(point[0]) for point in points)  # pixels, of a font of 11
    width = names + 480
    return f"""set terminal svg size {width},{80 + 18 * len(points)} noenhanced font 'sans,11' background 'white'
set output {quoted(to)}
set xlabel 'measured / allowed (log scale), with quartiles: right of 1 the bound is missed'
set lmargin at screen {names / width:.3f}
unset key
set logscale x 2
set grid x
set xrange [{least * 0.9:.4g}:{most * 1.1:.4g}]
set yrange [{len(points) - 0.5}:-0.5]
set ytics ({ticks})
set arrow from 1, graph 0 to 1, graph 1 nohead linewidth 1.5
$points << EOD
{data}
EOD
plot $points using ($5 == 0 ? $1 : NaN):4:2:3 with xerrorbars pointtype 7 pointsize 0.5 linecolor rgb '#4c72b0', \\
     $points using ($5 == 1 ? $1 : NaN):4:2:3 with xerrorbars pointtype 7 pointsize 0.5 linecolor rgb '#c44e52'
"""


def draw(report: dict[str, Any], folder: Path) -> dict[str, str]:
    """Draws each part with bounds that has no picture of its own by gnuplot (Debian: gnuplot-nox); returns the names of all pictures that
    are in the folder, by part. Without gnuplot there are fewer."""
    found = {}
    for of in report["parts"]:
        name = f"{of['name']}.svg"
        if not part(of["name"]).svg and shares(of):
            try:
                subprocess.run(["gnuplot"], input=script(of, str(folder / name)), text=True, check=True)
            except (OSError, subprocess.CalledProcessError) as problem:
                print(f"{name} was not drawn: {problem}")
                continue
        if of["lines"] and (folder / name).exists():
            found[of["name"]] = name
    return found


BLOCK = re.compile(r"(^<!-- report: ([\w\- ]+?)(?: \[([^\n]+)\])? -->\n).*?(^<!-- end of report -->$)", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[list[str]]:
    """The parts of each block of a page; raises ValueError if a block names a part that does not exist."""
    return [[part(name).name for name in match[2].split()] for match in BLOCK.finditer(page)]


def selected(of: Measured, pattern: str | None) -> Measured:
    """The part with only those lines whose "SECTION: WHAT" contains a match of the pattern; raises ValueError if there is none."""
    if pattern is None:
        return of
    lines = [line for line in of["lines"] if re.search(pattern, f"{line['section']}: {line['what']}")]
    if not lines:
        raise ValueError(f"no line of the part '{of['name']}' matches '{pattern}'")
    return {**of, "lines": lines}


def filled(page: str, report: dict[str, Any]) -> str:
    """A page with the tables of the report in its blocks. A block begins with `<!-- report: PART... -->`, or with
    `<!-- report: PART... [PATTERN] -->` if it shows only some lines of its parts, and ends with `<!-- end of report -->`. The same
    part can have blocks on several pages. A block stays as it is unless all of its parts were measured."""
    blocks(page)
    known = {of["name"]: of for of in report["parts"] if of["state"] == "measured"}

    def replaced(match: re.Match[str]) -> str:
        here = [selected(known[name], match[3]) for name in match[2].split() if name in known]
        if len(here) != len(match[2].split()):
            return match[0]
        about: dict[str, str] = {}
        for of in here:
            about.update(of["about"])
        machine = report["machine"]
        lows, highs = zip(*(of["load"] for of in here))
        sentence = "; ".join(filter(None, [
            machine.get("processor", "unknown processor"), machine.get("cores", ""), machine.get("caches of a core", ""),
            ", ".join(f"{name} {version}" for name, version in sorted(about.items())), f"commit {report['commit']}", report["date"],
            f"a load average of {min(lows):.1f} to {max(highs):.1f}"]))
        head = fill(f"{cell(sentence)}. `{report['command']}`", 130, break_long_words=False, break_on_hyphens=False)
        return f"{match[1]}{head}\n\n" + "\n".join(grids(of) for of in here) + match[4]

    return BLOCK.sub(replaced, page)
