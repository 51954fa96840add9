#!/usr/bin/env python3
"""Draws the diagrams of the documentation as SVG files beside this file. Needs only Python.

Usage: draw.py [NAME...]    without NAME: all of them

Each function of DRAWINGS returns the SVG. Colours follow the reader's light or dark theme (prefers-color-scheme). `speed` takes its
numbers from a block `<!-- report: ... -->` of docs/explanation/benchmarks.md, so run it after `./dev bench report --docs`.
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
.stop { stop-color: #0969da }
.optional { stroke-dasharray: 5 3 }
.memory { fill: #fff8c5; stroke: #9a6700; stroke-width: 1.5 }
.on { fill: #ffffff }
.part0 { fill: #0969da } .part1 { fill: #8250df } .part2 { fill: #1a7f37 } .part3 { fill: #9a6700 }
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
  .stop { stop-color: #4493f8 }
  .memory { fill: #272115; stroke: #d29922 }
  .on { fill: #ffffff }
  .part0 { fill: #1f6feb } .part1 { fill: #8957e5 } .part2 { fill: #238636 } .part3 { fill: #9e6a03 }
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


def arrow(x1: float, y1: float, x2: float, y2: float, words: str = "", above: bool = True, both: bool = False) -> str:
    heads = 'marker-start="url(#arrow)" marker-end="url(#arrow)"' if both else 'marker-end="url(#arrow)"'
    line = f'<path class="line" {heads} d="M{x1:g} {y1:g} L{x2:g} {y2:g}"/>'
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
            "one fused step", kind="ours"),
        box(642, 40, 176, 130, "Your memory", "weights", "optimizer state"),
        arrow(186, 82, 258, 82), text(222, 72, "gradients", "small"),
        arrow(568, 82, 638, 82), text(604, 72, "new", "small"),
        arrow(640, 132, 570, 132), text(604, 150, "old", "small"),
        *tags)


def order_of_work() -> str:
    """What happens to each element in one pass over memory; below it, the memory that is read and written."""
    steps = (("Read", "gradient", "× gradient_scale", "(and zero it)"), ("Regularize", "clip_value, l1, l2,", "decoupled decay,", "zero_nonfinite"),
             ("Rule", "adam, sgd, ftrl,", "lamb, ..."), ("After the rule", "proximal,", "after_step"), ("Round", "to the dtype", "of the parameter"),
             ("Average", "ema, polyak,", "window"), ("Copy", "bfloat16_copy"))
    required = {"Read", "Rule"}
    width, gap, left, top, height = 136, 14, 16, 48, 96
    bottom, upper, lower = top + height, top + height + 56, top + height + 130

    def at(column: float) -> float:
        return left + column * (width + gap)

    parts = []
    for k, (name, *lines) in enumerate(steps):
        parts.append(box(at(k), top, width, height, name, *lines, kind="ours" if name in required else "ours optional"))
        if k:
            parts.append(arrow(at(k) - gap, top + height / 2, at(k), top + height / 2))
    # The memory below columns, at which height, and in which columns it is read and written.
    for first, last, y, name, read, written in ((0, 0, upper, "gradient", 0, 0), (2, 2, upper, "state slots", 2, 2), (5, 5, upper, "average", 5, 5),
                                                (6, 6, upper, "bfloat16 weights", None, 6), (1, 4, lower, "parameter (and its master copy)", 1, 4)):
        parts += [f'<rect class="memory" x="{at(first)}" y="{y}" width="{at(last) + width - at(first)}" height="32" rx="6"/>',
                  text((at(first) + at(last) + width) / 2, y + 21, name)]
        shift = 14 if read == written else 0
        if read is not None:
            parts.append(arrow(at(read) + width / 2 - shift, y, at(read) + width / 2 - shift, bottom))
        parts.append(arrow(at(written) + width / 2 + shift, bottom, at(written) + width / 2 + shift, y))
    return svg(int(at(len(steps)) - gap + left), lower + 70, "The order of work on each element in one pass over memory",
               text(left, 28, "One pass over memory: the work on each element, from left to right", "title", "start"), *parts,
               text(left, lower + 58, "Dashed: only if you ask for it. Yellow: your memory. Arrows up: read, arrows down: written.", "small", "start"))


def memory_by_dtype() -> str:
    """Stacked bars: the bytes of parameter, master copy, m and v."""
    rows = (("double", (8, 0, 8, 8)), ("mixed<bfloat16>, mixed<float16>", (2, 4, 4, 4)), ("float", (4, 0, 4, 4)),
            ("bfloat16, float16, stochastic<...>", (2, 0, 4, 4)), ("block8<float>", (4, 0, 1, 1)))
    left, unit, parts, x = 270, 22, [], 270
    for k, name in enumerate(("parameter", "master copy", "m", "v")):
        parts += [f'<rect class="part{k}" x="{x}" y="44" width="14" height="14" rx="3"/>', text(x + 20, 56, name, anchor="start")]
        x += 50 + 8 * len(name)
    for k, (dtype, sizes) in enumerate(rows):
        y, x = 78 + 38 * k, left
        parts.append(text(left - 12, y + 18, dtype, anchor="end"))
        for kind, size in enumerate(sizes):
            if size:
                parts += [f'<rect class="part{kind}" x="{x}" y="{y}" width="{size * unit - 2}" height="26" rx="3"/>',
                          text(x + size * unit / 2 - 1, y + 18, str(size), "on")]
                x += size * unit
        parts.append(text(x + 8, y + 18, str(sum(sizes)), anchor="start"))
    return svg(860, 78 + 38 * len(rows) + 8, "Bytes that adam keeps for each parameter, by dtype",
               text(16, 26, "Bytes that adam keeps for each parameter (without the gradient)", "title", "start"), *parts)


def servers() -> str:
    """What talks to what with parameter servers."""
    parts = []
    for k in range(2):
        parts.append(box(8, 40 + 96 * k, 150, 70, f"Worker {k + 1}", "your training loop"))
        parts.append(box(340, 30 + 116 * k, 190, 96, f"Server {k + 1}", "half of the keys", "optimizer and its state", "keyed tables", kind="ours"))
    for y in (75, 171):
        parts += [arrow(162, y - 6, 336, 72, both=True), arrow(162, y + 6, 336, 200, both=True)]
    parts += [text(248, 52, "push gradients of rows", "small"), text(248, 236, "pull weights of rows", "small"),
              box(640, 30, 190, 70, "Replica", "answers reads of inference"), box(640, 172, 190, 70, "Checkpoint file", "one for each server"),
              arrow(532, 60, 636, 60, "changed rows"), arrow(532, 176, 636, 80), arrow(532, 100, 636, 190),
              arrow(532, 216, 636, 216, "saves, restarts", above=False)]
    return svg(840, 270, "Workers push gradients to servers and pull weights; servers write checkpoints and send changes to replicas",
               text(8, 20, "Keys are split over the servers by their hash. Each push is applied exactly once.", "small", "start"), *parts)


def tree(title: str, width: int, *rows: tuple[str, str, str]) -> str:
    """A decision tree: questions one below the other; "yes" leads to the answer at the right."""
    parts, step = [], 86
    for k, (question, answer, why) in enumerate(rows):
        y = 10 + step * k
        if k + 1 < len(rows):
            parts += [box(8, y, 360, 54, question), box(470, y, width - 478, 54, answer, why, kind="ours"),
                      arrow(370, y + 27, 466, y + 27, "yes"), arrow(188, y + 56, 188, y + step - 2), text(206, y + 74, "no", "small", "start")]
        else:
            parts.append(box(8, y, 360, 54, answer, why, kind="ours"))
    return svg(width, 10 + step * len(rows) - 20, title, *parts)


def which_mode() -> str:
    return tree("Which mode of distributed training", 840,
                ("Tables too large for one worker?", "Parameter servers", "tables keyed by 64-bit ids, split over servers"),
                ("Do workers differ in speed, or restart?", "Servers: asynchronous or Geo-SGD", "no worker waits for another one"),
                ("Is the network the bottleneck?", "Compressed gradients (DGC)", "about 0.1 % of each gradient is sent"),
                ("Is the optimizer state too large?", "Sharded optimizer state", "ZeRO stage 1: each rank keeps a part"),
                ("", "Data-parallel", "all-reduce; every rank has the same bits"))


def which_executor() -> str:
    return tree("Which executor runs the threads of a step", 840,
                ("Does a call move less than 512 KiB?", "serial_executor, the default", "the caller's thread does all the work"),
                ("Does your process have its own pool?", "callback_executor", "your pool runs the parts"),
                ("Does it compute on OpenMP?", "openmp_executor", "the team that exists already"),
                ("Does it compute on TBB?", "tbb_executor", "the arena of the caller"),
                ("", "thread_pool", "gradstep starts the threads"))


def which_optimizer() -> str:
    return tree("Which optimizer to try first", 840,
                ("Sparse ids: clicks, recommendations?", "ftrl, adagrad, rowwise_adagrad", "ftrl for weights, the others for embeddings"),
                ("Several thousand samples in a batch?", "lamb, or lars", "if a scaled rate and a longer warmup diverge"),
                ("Too little memory for Adam's state?", "adam on block8<float>, or lion", "8-bit state, or one slot"),
                ("No time to tune the learning rate?", "prodigy, or schedule_free_adam", "Adam that estimates its rate; or needs no schedule"),
                ("Large hidden matrices?", "muon, and AdamW for the rest", "if products of matrices cost little beside the network"),
                ("A convolutional network from scratch?", "nesterov with l2", "warmup, then cosine"),
                ("", "adam with decoupled (AdamW)", "warmup, then cosine"))


def windows() -> str:
    """Which steps each average of the weights covers at the end of a run."""
    left, width, parts = 150, 560, []
    for k, (name, note, segments) in enumerate((
            ("ema", "weights fade with age", ((0.0, 1.0, "fade"),)),
            ("polyak", "every step after start", ((0.35, 1.0, "full"),)),
            ("window", "one to two windows", ((0.45, 0.72, "full"), (0.72, 1.0, "full"))))):
        y = 44 + 58 * k
        parts += [text(left - 12, y + 14, name, "title", "end"), text(left - 12, y + 32, note, "small", "end"),
                  f'<rect class="tag" x="{left}" y="{y}" width="{width}" height="26"/>']
        for begin, end, kind in segments:
            fill = "url(#fade)" if kind == "fade" else "currentColor"
            style = 'class="bar-ours"' if kind == "full" else f'fill="{fill}"'
            parts.append(f'<rect {style} x="{left + begin * width:.0f}" y="{y}" width="{(end - begin) * width - 2:.0f}" height="26"/>')
    y = 44 + 58 * 3
    gradient = ('<defs><linearGradient id="fade"><stop offset="0.45" class="stop" stop-opacity="0"/>'
                '<stop offset="1" class="stop" stop-opacity="1"/></linearGradient></defs>')
    parts += [arrow(left, y + 6, left + width, y + 6), text(left, y + 26, "step 0", "small", "start"), text(left + width, y + 26, "now", "small", "end"),
              text(left + 0.35 * width, 96, "start", "small"), f'<path class="line" stroke-dasharray="4 4" d="M{left + 0.35 * width:.0f} 100 v32"/>']
    return svg(760, y + 36, "Which steps ema, polyak and window cover", gradient,
               text(16, 18, "Which steps an average covers, over the steps of a run", "small", "start"), *parts)


PAGE = "docs/explanation/benchmarks.md"


def measured(pattern: str) -> dict[str, dict[str, float]]:
    """A table of PAGE whose heading matches: numbers by row and column."""
    lines = (ROOT / PAGE).read_text().splitlines()
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
    raise SystemExit(f"draw.py: {PAGE}: no table matches '{pattern}'; expected one in a block of ./dev bench report")


def speed() -> str:
    """Bars: the time of a step of AdamW relative to the same step of gradstep.torch, to two digits."""
    ratios = measured(r"gradstep\.torch / of torch\.optim")
    default, fused = (next(row for name, row in ratios.items() if name.startswith(f"torch {kind}, 1 thread")) for kind in ("default", "fused"))
    sizes = [size for size in default if size in fused]
    most = max(1 / default[size] for size in sizes)
    left, width, y, parts = 250, 440, 66, []
    kinds = (("torch.optim.AdamW", "bar", 1), ("the same with fused=True", "bar", 0.5), ("gradstep.torch.AdamW", "bar-ours", 1))
    for k, (name, kind, opacity) in enumerate(kinds):
        x = 16 + 210 * k
        parts += [f'<rect class="{kind}" fill-opacity="{opacity}" x="{x}" y="38" width="14" height="14" rx="2"/>', text(x + 20, 50, name, "small", "start")]
    for size in sizes:
        count, each = size.split(" x ")
        parts.append(text(left - 12, y + 29, f"{int(count):,} tensors of {int(each):,} floats".replace(",", " "), anchor="end"))
        for k, ((_, kind, opacity), value) in enumerate(zip(kinds, (1 / default[size], 1 / fused[size], 1.0))):
            top = y + 16 * k
            parts += [f'<rect class="{kind}" fill-opacity="{opacity}" x="{left}" y="{top}" width="{value / most * width:.1f}" height="13" rx="2"/>',
                      text(left + value / most * width + 8, top + 11, f"{value:.2g}", "small", "start")]
        y += 60
    return svg(760, y, "Time of a step of AdamW in PyTorch on the CPU, relative to gradstep.torch",
               text(16, 22, "Time of a step of AdamW on one CPU thread, gradstep = 1: shorter is faster", "title", "start"), *parts)


DRAWINGS = {each.__name__: each for each in (
    overview, order_of_work, memory_by_dtype, servers, which_mode, which_executor, which_optimizer, windows, speed)}


def main(names: list[str]) -> None:
    for name in names or DRAWINGS:
        if name not in DRAWINGS:
            raise SystemExit(f"draw.py: {name} is not a drawing; expected {', '.join(DRAWINGS)}")
        (HERE / f"{name}.svg").write_text(DRAWINGS[name]())


if __name__ == "__main__":
    main(sys.argv[1:])
