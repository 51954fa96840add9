#!/usr/bin/env python3
"""What the scripts of the golden vectors share: the input, the cases and the files.

    python3 common.py          writes input.txt, from which the scripts of the systems read it

A file is lines of words. `#` starts a comment line.

    case NAME DTYPE lr=0.01 beta1=0.9 ...   a run: the function of the dialect, then its options by the system's names
    SLOT STEP : NUMBER ...                  a vector of the run after STEP steps, "w" for the weights
    SLOT STEP = LINE                        the same numbers as on that line of this file (lines count from 1)

A line with one number stands for a vector of that number. The weights after 0 steps are those of the input. In
input.txt the runs are named `input`: "w 0" holds the initial weights, "g T" the gradient of step T = 1 .. 20.

`lr` is the rate of every step, and with `later_lr` that of the first ten. Pairs as `betas` are written beta1, beta2,
booleans 0 and 1.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

STEPS, SIZE = 20, 64
KEPT = (0, 1, 2, 19, 20)
LATER = 11  # the first step at later_lr
DTYPES = ("float32", "float64")
FOLDER = Path(__file__).resolve().parent

State = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """One run of a system: what it calls the optimizer, in snake_case, the rate and its options."""

    name: str
    lr: float
    options: dict[str, float] = field(default_factory=dict)
    later_lr: float | None = None
    dtypes: tuple[str, ...] = DTYPES

    def rates(self) -> list[float]:
        """The rate of the steps 1 .. STEPS."""
        later = self.lr if self.later_lr is None else self.later_lr
        return [self.lr if t < LATER else later for t in range(1, STEPS + 1)]


# Gives the state, the weights in it as "w", before the first step and after each.
Run = Callable[[Case, np.ndarray, np.ndarray], Iterator[State]]


def text(x: np.floating) -> str:
    """The shortest decimal that reads back as x."""
    if x == 0:
        return "-0" if np.signbit(x) else "0"
    plain = np.format_float_positional(x, unique=True, trim="-")
    short = np.format_float_scientific(x, unique=True, trim="-", exp_digits=1)
    return min(plain, short, key=len)


def vector(values: np.ndarray) -> str:
    words = [text(x) for x in values]
    return " ".join(words[:1] if len(set(words)) == 1 else words)


class Lines:
    """The lines of a file. Numbers that were there before become a reference: a third of all."""

    def __init__(self, comment: str) -> None:
        self.lines = [f"# {comment}\n"]
        self.seen: dict[str, int] = {}

    def add(self, line: str) -> None:
        self.lines.append(line + "\n")

    def add_vector(self, slot: str, step: int, values: np.ndarray) -> None:
        numbers = vector(values)
        line = self.seen.setdefault(numbers, len(self.lines) + 1)
        known = line <= len(self.lines) and " " in numbers
        self.add(f"{slot} {step} = {line}" if known else f"{slot} {step} : {numbers}")

    def save(self, name: str) -> None:
        (FOLDER / name).write_text("".join(self.lines))


def read_input(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """The initial weights and the gradients, a row for each step."""
    rows: list[np.ndarray] = []
    here = False
    for line in (FOLDER / "input.txt").read_text().splitlines():
        if line.startswith("case"):
            here = line.split()[2] == dtype
        elif here and ":" in line:
            words = line.split(":")[1].split()
            rows.append(np.array(words if len(words) > 1 else words * SIZE, dtype=dtype))
    return rows[0], np.stack(rows[1:])


def check(case: Case, dtype: str, step: int, slot: str, values: np.ndarray) -> None:
    """Refuses what the tests could not use: another type, not finite, subnormal (some systems flush those)."""
    where = f"{case} {dtype}: {slot} after step {step}"
    if values.dtype != dtype or values.shape != (SIZE,):
        raise ValueError(f"{where} is {values.dtype} {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"{where} is not finite: {values}")
    tiny = np.finfo(np.float32).tiny
    if ((values != 0) & (np.abs(values) < tiny)).any():
        raise ValueError(f"{where} has subnormals: {values}")


def head(case: Case, dtype: str) -> str:
    numbers = {"lr": case.lr} | ({} if case.later_lr is None else {"later_lr": case.later_lr}) | case.options
    words = [f"{name}={text(np.float64(value))}" for name, value in numbers.items()]
    return " ".join(["case", case.name, dtype, *words])


def write(system: str, versions: str, cases: Iterable[Case], run: Run) -> None:
    """Runs the cases in each of their dtypes and writes SYSTEM.txt."""
    lines = Lines(f"Written by test/golden/dialects/{system}_.py with {versions}. See common.py for the format.")
    for case in cases:
        for dtype in case.dtypes:
            weights, gradients = read_input(dtype)
            lines.add(head(case, dtype))
            for step, state in enumerate(run(case, weights.copy(), gradients.copy())):
                for slot, values in state.items():
                    check(case, dtype, step, slot, values)
                if step == 0 and not np.array_equal(state["w"], weights):
                    raise ValueError(f"{case} {dtype} starts from other weights")
                for slot, values in state.items() if step in KEPT else ():
                    if (slot, step) != ("w", 0):
                        lines.add_vector(slot, step, values)
            if step != STEPS:
                raise ValueError(f"{case} {dtype} made {step} steps")
    lines.save(f"{system}.txt")


def make_input(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Magnitudes by position. The squares, times 0.001 as Adam adds them, stay normal numbers of float32 and finite.

    0-3 always 0; 4-9 small; 10-15 huge; 16-23 from 1e-4 to 1e4; 24-27 any of these, anew in each step; 28-63 around 1.
    Zeros among others: 32-39 in every second step, 8 and 14 in the first, 9 and 15 in the last.
    """
    random = np.random.default_rng(20)
    powers = np.zeros((STEPS, SIZE))
    for first, last, low, high in ((4, 10, -16, -13), (10, 16, 14, 18), (16, 24, -4, 4), (24, 28, -16, 18)):
        powers[:, first:last] = random.uniform(low, high, (STEPS, last - first))
    gradients = np.clip(random.standard_normal((STEPS, SIZE)) * 10**powers, -1e18, 1e18)
    gradients = np.where(np.abs(gradients) < 1e-16, np.copysign(1e-16, gradients), gradients)
    gradients[:, 28:32] = np.abs(gradients[:, 28:32])
    gradients[:, :4] = 0
    gradients[::2, 32:36] = 0
    gradients[1::2, 36:40] = 0
    gradients[0, [8, 14]] = 0
    gradients[-1, [9, 15]] = 0

    weights = random.standard_normal(SIZE)
    weights[[2, 6, 12, 20, 34, 63]] = 0
    weights[[1, 40, 41]] *= 1e-6
    weights[[3, 42, 43]] *= 1e4
    return weights.astype(dtype), gradients.astype(dtype)


def main() -> None:
    lines = Lines("Written by test/golden/dialects/common.py, which has the format.")
    for dtype in DTYPES:
        weights, gradients = make_input(dtype)
        lines.add(f"case input {dtype}")
        lines.add_vector("w", 0, weights)
        for t, gradient in enumerate(gradients, start=1):
            lines.add_vector("g", t, gradient)
    lines.save("input.txt")


if __name__ == "__main__":
    main()
