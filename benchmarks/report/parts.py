"""The parts of a report: each is a command of ./dev bench."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    name: str  # as --without has it
    title: str
    command: tuple[str, ...]  # behind ./dev bench
    quick: tuple[str, ...]  # what makes it short
    minutes: float  # about, on two cores, when everything is built and installed
    svg: bool = False  # whether it takes --svg FILE, and draws its own picture


QUICK = ("--quick",)
PARTS = (
    Part("rules", "Rules beside hand-written code", ("rules",), QUICK, 1.2),
    Part("divider", "Roots and quotients without the divider", ("divider",), QUICK, 0.1),
    Part("cached", "Calls, and loops in the caches", ("cached",), QUICK, 0.1),
    Part("threads", "Threads", ("threads",), QUICK, 0.5),
    Part("background_load", "Threads beside other threads", ("background_load",), QUICK, 1.5),
    Part("others", "Many tensors, 16 bits, subnormal numbers, Thrust", ("others",), QUICK, 0.5),
    Part("all_rules", "Every rule in memory", ("all_rules",), QUICK, 1.2),
    Part("breadth", "Rules of several passes, matrices, moving hyperparameters", ("breadth",), QUICK, 0.5),
    Part("fused_step", "A fused training step", ("fused_step",), QUICK, 0.2),
    Part("dgc", "Compressed gradients", ("dgc",), QUICK, 0.2),
    Part("rows", "Rows of a table", ("rows",), QUICK, 3),
    Part("keyed", "Keyed tables", ("keyed",), QUICK, 5),
    Part("distributed", "Ranks under MPI", ("distributed",), ("--rounds", "3", "--elements", "262144"), 2.5),
    Part("checkpoint", "Checkpoints", ("checkpoint",), QUICK, 1),
    Part("callers", "The C library, and its callers", ("callers",), QUICK, 3),
    Part("python", "Steps through Python", ("python",), ("--rounds", "3"), 2),
    Part("reproducible", "The same bits on every machine", ("reproducible",), QUICK, 5, svg=True),
    Part("compile", "What an include costs to compile", ("compile",), ("--rounds", "1"), 3),
    Part("compile-rules", "What each rule costs to compile", ("compile", "--rules", "--rounds", "3"), ("--rounds", "1"), 6),
    Part("compile-choice", "72 updaters in one file", ("compile", "--choice"), (), 1),
    Part("peers-rows", "Rows beside torch and FBGEMM", ("peers", "rows"), ("--rounds", "3"), 2),
    Part("peers-newer", "Newer rules beside torch and optax", ("peers", "newer"), ("--rounds", "3"), 4),
    Part("peers-dense", "Steps beside torch, DeepSpeed, paddle and optax", ("peers", "dense"), ("--rounds", "3"), 20, svg=True),
)


def part(name: str) -> Part:
    for known in PARTS:
        if known.name == name:
            return known
    raise ValueError(f"there is no part '{name}': there is {', '.join(x.name for x in PARTS)}")
