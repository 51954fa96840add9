#!/usr/bin/env python3
"""Draws order_of_work.svg: the work on each element in one pass over memory. Run it without arguments."""

from html import escape
from pathlib import Path

WIDTH, GAP, LEFT, TOP, HEIGHT = 124, 14, 16, 56, 92
STEPS = [
    ("Read", ["gradient", "× gradient_scale", "(and zero it)"]),
    ("Regularize", ["clip_value, l1, l2,", "decoupled decay,", "zero_nonfinite"]),
    ("Rule", ["adam, sgd, ftrl,", "lamb, ..."]),
    ("After the rule", ["proximal,", "after_step"]),
    ("Round", ["to the dtype", "of the parameter"]),
    ("Average", ["ema, polyak,", "window"]),
    ("Copy", ["bfloat16_copy"]),
]
OPTIONAL = {1, 3, 4, 5, 6}
STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #1f2328; text-anchor: middle }
  .title { font-size: 16px; font-weight: 600; text-anchor: start }
  .name { font-weight: 600 }
  .note { font-size: 12px; fill: #57606a }
  .legend { text-anchor: start }
  .step { fill: #ddf4ff; stroke: #0969da; stroke-width: 1.5 }
  .optional { stroke-dasharray: 5 3 }
  .memory { fill: #fff8c5; stroke: #9a6700; stroke-width: 1.5 }
  .arrow { stroke: #57606a; stroke-width: 1.5; fill: none; marker-end: url(#head) }
  .head { fill: #57606a }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .note { fill: #9198a1 }
    .step { fill: #121d2f; stroke: #4493f8 }
    .memory { fill: #272115; stroke: #d29922 }
    .arrow { stroke: #9198a1 }
    .head { fill: #9198a1 }
  }
"""


def left(column: int) -> int:
    return LEFT + column * (WIDTH + GAP)


def middle(column: float) -> float:
    return LEFT + column * (WIDTH + GAP) + WIDTH / 2


def text(x: float, y: float, line: str, kind: str = "label") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(line)}</text>'


def box(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" class="{kind}"/>'


def arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<path d="M{x1:g} {y1:g}L{x2:g} {y2:g}" class="arrow"/>'


def order_of_work() -> str:
    columns = len(STEPS)
    bottom, upper, lower = TOP + HEIGHT, TOP + HEIGHT + 56, TOP + HEIGHT + 130
    width, height = left(columns) - GAP + LEFT, lower + 76
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        'aria-label="The order of work on each element in one pass over memory">',
        f"<style>{STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" class="head"/></marker></defs>',
        text(LEFT, 30, "One pass over memory: the work on each element, from left to right", "title"),
    ]
    for i, (name, lines) in enumerate(STEPS):
        out.append(box(left(i), TOP, WIDTH, HEIGHT, "step optional" if i in OPTIONAL else "step"))
        out.append(text(middle(i), TOP + 24, name, "name"))
        out += [text(middle(i), TOP + 46 + 16 * k, line, "note") for k, line in enumerate(lines)]
        if i + 1 < columns:
            out.append(arrow(left(i) + WIDTH, TOP + HEIGHT / 2, left(i + 1), TOP + HEIGHT / 2))

    def memory(first: int, last: int, y: float, name: str) -> None:
        out.append(box(left(first), y, left(last) + WIDTH - left(first), 32, "memory"))
        out.append(text(middle((first + last) / 2), y + 21, name))

    def read(column: int, y: float, shift: float = 0) -> None:
        out.append(arrow(middle(column) + shift, y, middle(column) + shift, bottom))

    def write(column: int, y: float, shift: float = 0) -> None:
        out.append(arrow(middle(column) + shift, bottom, middle(column) + shift, y))

    memory(0, 0, upper, "gradient")
    read(0, upper, -14)
    write(0, upper, 14)
    memory(2, 2, upper, "state slots")
    read(2, upper, -14)
    write(2, upper, 14)
    memory(5, 5, upper, "average")
    read(5, upper, -14)
    write(5, upper, 14)
    memory(6, 6, upper, "bfloat16 weights")
    write(6, upper)
    memory(1, 4, lower, "parameter (and its master copy)")
    read(1, lower)
    write(4, lower)
    out.append(text(LEFT, height - 14, "Dashed: only if you ask for it. Yellow: your memory. Arrows up: read, arrows down: written.",
                    "note legend"))
    return "\n".join(out) + "\n</svg>\n"


if __name__ == "__main__":
    (Path(__file__).parent / "order_of_work.svg").write_text(order_of_work())
