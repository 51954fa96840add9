#!/usr/bin/env python3
"""Writes the click-through data of docs/start/tutorial_click_through.md as a CSV file: click_through_csv.py clicks.csv [--steps 5000]

The impressions are those of examples/tutorials/click_through/impressions.hpp, 100 in each step: the same random numbers and hashes.
It prints the loss of the true probabilities, which no model can beat for long.
"""

from __future__ import annotations

import argparse

import numpy

from gradstep import sparse

SITES, ADS, IN_A_STEP = 40, 100, 100
u64 = numpy.uint64


def draws(seeds: numpy.ndarray, count: int) -> numpy.ndarray:
    """The first `count` numbers of std::mt19937_64 for each seed: an array of the shape (count, seeds).

    Matsumoto & Nishimura, mt19937-64.c, 2004.
    """
    words, middle = 312, 156
    x = numpy.empty((words, len(seeds)), numpy.uint64)
    x[0] = seeds
    for i in range(1, words):
        x[i] = u64(6364136223846793005) * (x[i - 1] ^ x[i - 1] >> u64(62)) + u64(i)
    out = []
    for _ in range(0, count, words):
        for i in range(words):
            y = x[i] & u64(0xFFFFFFFF80000000) | x[(i + 1) % words] & u64(0x7FFFFFFF)
            x[i] = x[(i + middle) % words] ^ y >> u64(1) ^ (y & u64(1)) * u64(0xB5026F5AA96619E9)
        y = x ^ x >> u64(29) & u64(0x5555555555555555)
        y ^= y << u64(17) & u64(0x71D67FFFEDA60000)
        y ^= y << u64(37) & u64(0xFFF7EEE000000000)
        out.append(y ^ y >> u64(43))
    return numpy.concatenate(out)[:count]


def uniform(x: numpy.ndarray) -> numpy.ndarray:
    return (x >> u64(11)) * 2.0**-53


def effects(name: str, texts: list[str]) -> numpy.ndarray:
    """The true effect of each feature on the click, in [-1, 1): from the hash of its key."""
    z = sparse.hashed({name: texts}).ids + u64(0x9E3779B97F4A7C15)
    z = (z ^ z >> u64(30)) * u64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> u64(27)) * u64(0x94D049BB133111EB)
    return ((z ^ z >> u64(31)) >> u64(11)) * 2.0**-52 - 1


def impressions(steps: int) -> tuple[dict[str, numpy.ndarray], numpy.ndarray]:
    """Columns of the impressions, and the true probability of each click."""
    step = numpy.arange(steps, dtype=numpy.uint64)
    x = draws(step + u64(1), 5 * IN_A_STEP).T.reshape(steps * IN_A_STEP, 5)
    site = (x[:, 0] % u64(SITES)).astype(int)
    ad = (x[:, 1] % u64(ADS)).astype(int) + numpy.arange(len(x)) // (20 * IN_A_STEP)
    user = (1e6 * (uniform(x[:, 2]) * uniform(x[:, 3]))).astype(int)
    sites, ads = range(SITES), range(max(ad, default=0) + 1)
    both = effects("site", [f"{i},ad={j}" for i in sites for j in ads]).reshape(SITES, -1)
    logit = -2 + effects("site", [*map(str, sites)])[site] + 1.5 * effects("ad", [*map(str, ads)])[ad] + both[site, ad]
    probability = 1 / (1 + numpy.exp(-logit))
    clicked = (uniform(x[:, 4]) < probability).astype(int)
    return {"clicked": clicked, "site": site, "ad": ad, "user": user}, probability


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--steps", type=int, default=5000, help="100 impressions each (default: 5000)")
    options = parser.parse_args()
    columns, probability = impressions(options.steps)
    table = numpy.stack([*columns.values()], axis=1)
    numpy.savetxt(options.file, table, fmt="%d", delimiter=",", header=",".join(columns), comments="")
    loss = -numpy.log(numpy.where(columns["clicked"], probability, 1 - probability))
    print(f"{len(table)} impressions, {columns['clicked'].mean():.1%} of them clicked")
    for first in range(0, len(table), 100_000):
        part = loss[first : first + 100_000]
        print(f"impressions to {first + len(part):7}: the loss of the truth is {part.mean():.4f}")


if __name__ == "__main__":
    main()
