#!/usr/bin/env python3
"""Learns which ads are clicked from a CSV file, in one pass, and scores other impressions.

    python click_through_csv.py clicks.csv
    python online_learning.py clicks.csv weights.safetensors            # trains, or goes on with more lines of the same file
    python online_learning.py --score new.csv weights.safetensors       # prints a probability for each line

docs/how_to/online_learning.md explains it.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy

import gradstep

SAMPLES_IN_A_STEP, SAMPLES_IN_A_CHUNK = 100, 10_000


# [table]
def new_weights() -> gradstep.KeyedTable:
    """FTRL-Proximal, with a weight for each feature that appears three times."""
    options = {"width": 1, "admit_after": 3, "sketch_bytes": 1 << 22, "sketch_half_life": 1000}
    return gradstep.KeyedTable({**gradstep.ftrl(lr=0.2, l1=0.5, beta=1.0), "keyed_table": options})
# [table]


# [read]
def read(path: str, skip: int = 0) -> Iterator[dict[str, Sequence[str]]]:
    """Yields the columns of a CSV file with a header, 10,000 lines at a time."""
    with open(path, newline="") as file:
        lines = csv.reader(file)
        names = next(lines)
        lines = itertools.islice(lines, skip, None)
        while chunk := list(itertools.islice(lines, SAMPLES_IN_A_CHUNK)):
            yield dict(zip(names, zip(*chunk)))
# [read]


# [pandas]
def read_with_pandas(path: str, skip: int = 0) -> Iterator[Any]:
    """The same as DataFrames, which takes a fraction of the time."""
    import pandas

    yield from pandas.read_csv(path, skiprows=range(1, skip + 1), chunksize=SAMPLES_IN_A_CHUNK, keep_default_na=False)
# [pandas]


# [features]
def features(columns: Any) -> gradstep.sparse.Batch:
    chosen = {name: columns[name] for name in ("site", "ad", "user")}
    return gradstep.sparse.hashed(chosen, crosses=[("site", "ad")], bias=True)
# [features]


# [step]
def train(weights: gradstep.KeyedTable, samples: gradstep.sparse.Batch, clicked: numpy.ndarray[Any, Any]) -> float:
    """Takes a step for every 100 samples. Returns the sum of their losses, each before its step."""
    loss = 0.0
    for first in range(0, len(samples), SAMPLES_IN_A_STEP):
        batch, label = samples[first : first + SAMPLES_IN_A_STEP], clicked[first : first + SAMPLES_IN_A_STEP]
        logits = batch.dot(weights)
        loss += numpy.logaddexp(0, numpy.where(label, -logits, logits)).sum()
        probability = 1 / (1 + numpy.exp(-logits))
        batch.update(weights, probability - label, samples=len(batch))
    return loss
# [step]


def learn(path: str, weights_path: str, reader: Any) -> None:
    # [resume]
    weights = new_weights()
    if os.path.exists(weights_path):
        weights.load(weights_path)
        print(f"goes on after {weights.clock.samples} lines")
    # [resume]
    # [pass]
    loss, seen = 0.0, 0
    for columns in reader(path, skip=weights.clock.samples):
        clicked = numpy.array(columns["clicked"], "float32")
        loss += train(weights, features(columns), clicked)
        seen += len(clicked)
        if seen >= 100_000:
            weights.evict_older_than(weights.clock.step - 1000)
            weights.save(weights_path)
            print(f"{weights.clock.samples:7} lines: loss {loss / seen:.4f}, {len(weights)} rows")
            loss, seen = 0.0, 0
    # [pass]
    if seen:
        print(f"{weights.clock.samples:7} lines: loss {loss / seen:.4f}, {len(weights)} rows")
        weights.save(weights_path)


# [score]
def score(path: str, weights_path: str) -> Iterator[float]:
    """The probability of a click for each line of a file, which needs no column "clicked"."""
    weights = new_weights()
    weights.load(weights_path)
    for columns in read(path):
        yield from (1 / (1 + numpy.exp(-features(columns).dot(weights)))).tolist()
# [score]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("csv")
    parser.add_argument("weights")
    parser.add_argument("--pandas", action="store_true", help="read the file with pandas")
    parser.add_argument("--score", action="store_true", help="print the probability of a click for each line")
    options = parser.parse_args()
    if options.score:
        for probability in score(options.csv, options.weights):
            print(f"{probability:.4f}")
    else:
        learn(options.csv, options.weights, read_with_pandas if options.pandas else read)


if __name__ == "__main__":
    main()
