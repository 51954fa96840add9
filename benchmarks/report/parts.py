"""The parts of a report: each is a command of ./dev bench."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    name: str  # as --without has it
    title: str
    command: tuple[str, ...]  # behind ./dev bench
    quick: tuple[str, ...]  # what makes it short
    minutes: float  # on two cores, when everything is built and installed
    svg: bool = False  # whether it takes --svg FILE, and draws its own picture


QUICK = ("--quick",)
PARTS = (
    Part("rules", "Rules beside hand-written code", ("rules",), QUICK, 2),
    Part("divider", "Roots and quotients without the divider", ("divider",), QUICK, 1),
    Part("threads", "Threads", ("threads",), QUICK, 2),
    Part("strangers", "Threads beside other threads", ("strangers",), QUICK, 2),
    Part("others", "Many tensors, 16 bits, subnormal numbers, Thrust", ("others",), QUICK, 2),
    Part("breadth", "Every rule in memory", ("breadth",), QUICK, 5),
    Part("dgc", "Compressed gradients", ("dgc",), QUICK, 3),
    Part("rows", "Rows of a table", ("rows",), QUICK, 8),
    Part("keyed", "Keyed tables", ("keyed",), QUICK, 8),
    Part("distributed", "Ranks under MPI", ("distributed",), ("--rounds", "3", "--elements", "262144"), 3),
    Part("checkpoint", "Checkpoints", ("checkpoint",), QUICK, 1),
    Part("callers", "The C library, and its callers", ("callers",), QUICK, 4),
    Part("python", "Steps through Python", ("python",), ("--rounds", "3"), 3),
    Part("compile", "What an include costs to compile", ("compile",), ("--rounds", "1"), 4),
    Part("compile-rules", "What each rule costs to compile", ("compile", "--rules", "--rounds", "3"), ("--rounds", "1"), 8),
    Part("compile-choice", "72 updaters in one file", ("compile", "--choice"), (), 1),
    Part("peers-rows", "Rows beside torch and FBGEMM", ("peers", "rows"), ("--rounds", "3"), 5),
    Part("peers-dense", "Steps beside torch, DeepSpeed, paddle and optax", ("peers", "dense"), ("--rounds", "3"), 30, svg=True),
)


def part(name: str) -> Part:
    for known in PARTS:
        if known.name == name:
            return known
    raise ValueError(f"there is no part '{name}': there is {', '.join(x.name for x in PARTS)}")
