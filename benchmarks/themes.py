"""Saves figures of matplotlib as SVG for light and dark pages."""

from __future__ import annotations

import re
from typing import Any

INK, GRID = "#1f2328", "#d8d8d8"  # of text and axes, of the grid
# Okabe and Ito's colours, which the colour-blind tell apart.
COLOURS = ("#0072b2", "#56b4e9", "#009e73", "#cc79a7", "#d55e00", "#e69f00")
DARK = {INK: "#e6edf3", GRID: "#30363d", "#0072b2": "#409be0", "#56b4e9": "#a5dcff", "#009e73": "#2ec59a", "#cc79a7": "#dd96bf",
        "#d55e00": "#f0803c", "#e69f00": "#e8ad30"}


def prepare() -> Any:
    """matplotlib's pyplot. It draws the same file for the same numbers, and text as text."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "gradstep", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10,
                                "text.color": INK, "axes.edgecolor": INK, "axes.labelcolor": INK, "xtick.color": INK,
                                "ytick.color": INK, "grid.color": GRID, "grid.linewidth": 0.5, "axes.spines.top": False,
                                "axes.spines.right": False})
    from matplotlib import pyplot

    return pyplot


def save(figure: Any, path: str) -> None:
    """Writes the figure on a transparent background. Its colours follow the reader's theme if they are among DARK."""
    figure.savefig(path, format="svg", transparent=True, metadata={"Date": None})
    with open(path, encoding="utf-8") as file:
        drawn = file.read()
    drawn = re.sub(r"font-family: [^;\"]*", "font-family: sans-serif", drawn)  # 150 bytes of names of fonts in each text
    rules = [f'  [style*="{what}: {light}"] {{ {what}: {dark} !important }}\n'
             for light, dark in DARK.items() for what in ("stroke", "fill") if f"{what}: {light}" in drawn]
    style = f"<style>\ntext {{ fill: {INK} }}\n@media (prefers-color-scheme: dark) {{\n" \
            f"  text {{ fill: {DARK[INK]} !important }}\n{''.join(rules)}}}\n</style>"
    with open(path, "w", encoding="utf-8") as file:
        file.write(drawn.replace("<defs>", f"{style}\n <defs>", 1))
