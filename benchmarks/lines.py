"""Lines of the benchmarks in Python as objects of JSON, in the form that report.hpp gives those in C++."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterable
from typing import Any, NamedTuple


class Quartiles(NamedTuple):
    low: float
    median: float
    high: float


def quartiles(samples: Iterable[float]) -> Quartiles:
    """Of one sample, that sample three times."""
    x = list(samples)
    return Quartiles(*statistics.quantiles(x, n=4, method="inclusive")) if len(x) > 1 else Quartiles(x[0], x[0], x[0])


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", metavar="FILE", help="add the lines to this file, too, as objects of JSON")


class Lines:
    """Adds lines to a file, each as soon as it is measured; without a file only their verdicts are given.

    A line has "section", "what", "measured", "low" and "high" (the quartiles), "unit" ("" for a ratio, "count" for
    whole numbers), where there is a bound "at_most" or "at_least" and a "verdict" ("ok" or "MISS"), and what `more` says. Before them
    comes {"about": {...}}: versions by name.
    """

    def __init__(self, path: str | None, about: dict[str, str]) -> None:
        self.section = ""
        self._path = path
        self._write({"about": about})

    def add(self, what: str, measured: Quartiles, unit: str = "", at_most: float | None = None, at_least: float | None = None,
            **more: Any) -> str:
        """Returns the verdict: "ok", "MISS", or "" where there is no bound."""
        line: dict[str, Any] = {"section": self.section, "what": what, "measured": measured.median, "low": measured.low,
                                "high": measured.high, "unit": unit, **more}
        # What is no number has missed its bound, too.
        missed = ((at_most is not None and not measured.median <= at_most)
                  or (at_least is not None and not measured.median >= at_least))
        bound = {name: x for name, x in (("at_most", at_most), ("at_least", at_least)) if x is not None}
        verdict = "MISS" if missed else "ok" if bound else ""
        self._write(line | bound | ({"verdict": verdict} if bound else {}))
        return verdict

    def _write(self, line: dict[str, Any]) -> None:
        if self._path is None:
            return
        with open(self._path, "a") as file:
            file.write(json.dumps(line) + "\n")
