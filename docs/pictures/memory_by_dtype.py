#!/usr/bin/env python3
"""Draws memory_by_dtype.svg: the bytes that adam keeps for each parameter, by dtype. Run it without arguments."""

from pathlib import Path

from order_of_work import text

# dtype, and the bytes of parameter, master copy, m and v
ROWS = [
    ("double", (8, 0, 8, 8)),
    ("mixed<bfloat16>, mixed<float16>", (2, 4, 4, 4)),
    ("float", (4, 0, 4, 4)),
    ("bfloat16, float16, stochastic<...>", (2, 0, 4, 4)),
    ("block8<float>", (4, 0, 1, 1)),
]
PARTS = ("parameter", "master copy", "m", "v")
LABELS, UNIT, TOP, HEIGHT, STEP, WIDTH = 270, 22, 84, 26, 38, 860
STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #1f2328; text-anchor: middle }
  .title { font-size: 16px; font-weight: 600; text-anchor: start }
  .left { text-anchor: start }
  .right { text-anchor: end }
  .on { fill: #ffffff }
  .part0 { fill: #0969da } .part1 { fill: #8250df } .part2 { fill: #1a7f37 } .part3 { fill: #9a6700 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .on { fill: #ffffff }
    .part0 { fill: #1f6feb } .part1 { fill: #8957e5 } .part2 { fill: #238636 } .part3 { fill: #9e6a03 }
  }
"""


def memory_by_dtype() -> str:
    height = TOP + STEP * len(ROWS) + 8
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        'aria-label="Bytes that adam keeps for each parameter, by dtype">',
        f"<style>{STYLE}</style>",
        text(16, 30, "Bytes that adam keeps for each parameter (without the gradient)", "title"),
    ]
    x = LABELS
    for i, part in enumerate(PARTS):
        out.append(f'<rect x="{x}" y="48" width="14" height="14" rx="3" class="part{i}"/>')
        out.append(text(x + 20, 60, part, "left"))
        x += 48 + 8 * len(part)
    for k, (dtype, parts) in enumerate(ROWS):
        y, x = TOP + k * STEP, LABELS
        out.append(text(LABELS - 12, y + 18, dtype, "right"))
        for i, size in enumerate(parts):
            if size == 0:
                continue
            out.append(f'<rect x="{x}" y="{y}" width="{size * UNIT - 2}" height="{HEIGHT}" rx="3" class="part{i}"/>')
            out.append(text(x + size * UNIT / 2 - 1, y + 18, str(size), "on"))
            x += size * UNIT
        out.append(text(x + 8, y + 18, str(sum(parts)), "left"))
    return "\n".join(out) + "\n</svg>\n"


if __name__ == "__main__":
    (Path(__file__).parent / "memory_by_dtype.svg").write_text(memory_by_dtype())
