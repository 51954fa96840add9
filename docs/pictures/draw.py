#!/usr/bin/env python3
"""Draws the diagrams of the documentation as SVG files beside this file. Needs only Python.

Usage: draw.py [NAME...]    without NAME: all of them

Each function of DRAWINGS returns the SVG. Colours follow the reader's light or dark theme (prefers-color-scheme). `speed` takes its
numbers from the blocks `<!-- report: ... -->` of README.md, so run it after `./dev bench report --docs`.
"""

from __future__ import annotations

import re
import sys
from html import escape
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

STYLE = """
text { font: 14px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328 }
.title { font-weight: 600; font-size: 16px }
.small { font-size: 12px; fill: #57606a }
.box { fill: #ffffff; stroke: #8c959f; stroke-width: 1.5 }
.ours { fill: #ddf4ff; stroke: #0969da; stroke-width: 2 }
.tag { fill: #f6f8fa; stroke: #d0d7de }
.line { stroke: #57606a; stroke-width: 1.8; fill: none }
.head { fill: #57606a }
.bar { fill: #afb8c1 }
.bar-ours { fill: #0969da }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .small { fill: #9198a1 }
  .box { fill: #161b22; stroke: #6e7681 }
  .ours { fill: #0c2d4d; stroke: #4493f8 }
  .tag { fill: #21262d; stroke: #3d444d }
  .line { stroke: #9198a1 }
  .head { fill: #9198a1 }
  .bar { fill: #59636e }
  .bar-ours { fill: #4493f8 }
}
"""


def svg(width: int, height: int, title: str, *parts: str) -> str:
    arrow = ('<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto-start-reverse">'
             '<path class="head" d="M0 0 L10 5 L0 10 z"/></marker></defs>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">\n'
            f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n{arrow}\n" + "\n".join(parts) + "\n</svg>\n")


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, title: str, *lines: str, kind: str = "box") -> str:
    top = y + height / 2 - 9 * len(lines) + 5
    return "\n".join([f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8"/>',
                      text(x + width / 2, top, title, "title"),
                      *(text(x + width / 2, top + 20 + 18 * k, line, "small") for k, line in enumerate(lines))])


def arrow(x1: float, y1: float, x2: float, y2: float, words: str = "", above: bool = True) -> str:
    line = f'<path class="line" marker-end="url(#arrow)" d="M{x1:g} {y1:g} L{x2:g} {y2:g}"/>'
    return line + (text((x1 + x2) / 2, y1 + (-9 if above else 18), words, "small") if words else "")


def overview() -> str:
    languages = ("C++", "Python", "C", "Go", "Rust")
    tags = []
    for k, name in enumerate(languages):
        x = 262 + 62 * k
        tags += [f'<rect class="tag" x="{x}" y="196" width="56" height="26" rx="13"/>', text(x + 28, 214, name, "small")]
    return svg(
        840, 240, "Your framework computes gradients; gradstep turns weights, gradients and state into new weights",
        box(8, 40, 176, 130, "Your framework", "tensors, autograd,", "data, threads, network"),
        box(262, 30, 304, 150, "gradstep", "scale · clip · decay", "update by AdamW, FTRL, Adagrad, ...", "average · round · zero the gradient",
            "one pass over memory", kind="ours"),
        box(642, 40, 176, 130, "Your memory", "weights", "optimizer state"),
        arrow(186, 82, 258, 82), text(222, 72, "gradients", "small"),
        arrow(568, 82, 638, 82), text(604, 72, "new", "small"),
        arrow(640, 132, 570, 132), text(604, 150, "old", "small"),
        *tags)


def measured(pattern: str) -> dict[str, dict[str, float]]:
    """A table of README.md whose heading matches: numbers by row and column."""
    lines = (ROOT / "README.md").read_text().splitlines()
    for at, line in enumerate(lines):
        if line.startswith("| ") and re.search(pattern, line):
            columns = [cell.strip() for cell in line.strip("| ").split(" | ")][1:]
            rows: dict[str, dict[str, float]] = {}
            for row in lines[at + 2:]:
                if not row.startswith("|"):
                    return rows
                name, *cells = (cell.strip() for cell in row.strip().strip("|").split("|"))
                found = {column: re.match(r"[\d.]+", cell) for column, cell in zip(columns, cells)}
                rows[name] = {column: float(number[0]) for column, number in found.items() if number}
            return rows
    raise SystemExit(f"draw.py: README.md: no table matches '{pattern}'; expected one in a block of ./dev bench report")


def speed() -> str:
    """Bars: the time of a step of AdamW, that of gradstep.torch being 1."""
    ratios = measured(r"gradstep\.torch / of torch\.optim")
    default, fused = (next(row for name, row in ratios.items() if name.startswith(f"torch {kind}, 1 thread")) for kind in ("default", "fused"))
    groups = [(size, [("torch.optim.AdamW", 1 / default[size], False), ("torch, fused=True", 1 / fused[size], False),
                      ("gradstep.torch.AdamW", 1.0, True)]) for size in default if size in fused]
    most = max(value for _, bars in groups for _, value, _ in bars)
    left, width, y, parts = 190, 480, 50, []
    for size, bars in groups:
        count, each = size.split(" x ")
        parts.append(text(16, y + 4, f"{int(count):,} tensors of {int(each):,} floats".replace(",", " "), "title", "start"))
        for k, (name, value, is_ours) in enumerate(bars):
            top = y + 14 + 24 * k
            parts += [text(left - 10, top + 13, name, "small", "end"),
                      f'<rect class="{"bar-ours" if is_ours else "bar"}" x="{left}" y="{top}" width="{value / most * width:.1f}" height="17" rx="2"/>',
                      text(left + value / most * width + 8, top + 13, f"{value:.2f}", "small", "start")]
        y += 108
    return svg(760, y, "Time of a step of AdamW in PyTorch on the CPU, relative to gradstep.torch",
               text(16, 22, "Time of a step of AdamW on the CPU, one thread; gradstep.torch = 1; shorter is better", "small", "start"), *parts)


DRAWINGS = {"overview": overview, "speed": speed}


def main(names: list[str]) -> None:
    for name in names or DRAWINGS:
        if name not in DRAWINGS:
            raise SystemExit(f"draw.py: {name} is not a drawing; expected {', '.join(DRAWINGS)}")
        (HERE / f"{name}.svg").write_text(DRAWINGS[name]())


if __name__ == "__main__":
    main(sys.argv[1:])
