"""Predicts how far each mode of training on several machines scales, by a discrete-event simulation (model.py).

Without arguments two models are simulated, of 4 Mi and of 100 Mi parameters, with 1 to 1000 workers and 8 servers. With --measured, what
was measured with a few real processes stands beside what the model predicts for them. docs/explanation/simulation.md has the form of
that file.
"""

import argparse
import csv
import dataclasses
import json
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import themes
from model import MODES, Noise, Result, Scenario, rate_alone, simulate

WORKERS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1000]
STEPS, WARM_UP = 12, 4
ALL_STEPS = 1000  # few workers take more, so that all together take so many

# A cluster of machines on 25 GbE. Times per element are for one thread and data in memory (docs/explanation/benchmarks.md): a step
# of adam moves 28 bytes at 49 GB/s, a sum moves 12. The times of dgc_momentum were measured on 4 Mi and 32 Mi floats, and entry_s
# with 64 and 256 messages. wire_s is a copy and a checksum at 10 GB/s.
CLUSTER = {
    "bandwidth": 25e9 / 8, "latency_s": 20e-6, "message_s": 1e-6, "servers": 8,
    "update_s": 0.57e-9, "add_s": 0.25e-9, "wire_s": 0.5e-9, "compress_s": 0.55e-9, "entry_s": 2.2e-9,
    "compute_noise": Noise("exponential", 0.1), "machine_noise": Noise("lognormal", 0.05),
    "link_noise": Noise("exponential", 0.2), "latency_noise": Noise("exponential", 0.5),
    "update_noise": Noise("lognormal", 0.1),
}
SCENARIOS = [Scenario(name="4 Mi parameters", parameters=4 * 2**20, compute_s=0.02, **CLUSTER),
             Scenario(name="100 Mi parameters", parameters=100 * 2**20, compute_s=0.2, **CLUSTER)]


def one(task: tuple[str, int, Scenario, int, int]) -> Result:
    return simulate(*task)


def simulate_all(scenario: Scenario, workers: Sequence[int], steps: int) -> dict[str, list[Result]]:
    """Of every mode, with so many workers each. The long ones first, on all cores."""
    print(f"simulating {scenario.name} with {min(workers)} to {max(workers)} workers", file=sys.stderr)
    tasks = [(mode, p, scenario, max(steps, ALL_STEPS // p), WARM_UP) for p in sorted(workers, reverse=True) for mode in MODES]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(one, tasks))
    return {mode: [x for x in reversed(results) if x.mode == mode] for mode in MODES}


def stops_paying(results: list[Result], alone: float) -> int | None:
    """The workers from which one more adds less than a tenth of what a worker does that exchanges nothing; None: it always adds."""
    for x, y in zip(results, results[1:]):
        if (y.samples_per_s - x.samples_per_s) / (y.workers - x.workers) < 0.1 * alone:
            return x.workers
    return None


def halves(results: list[Result], alone: float) -> int | None:
    """The workers from which each does less than half of what it does alone."""
    return next((x.workers for x in results if x.samples_per_s < 0.5 * alone * x.workers), None)


def exceeds_link(results: list[Result], compute_s: float) -> int | None:
    """The workers from which the busiest link needs longer for the bytes of a step than the computation takes."""
    return next((x.workers for x in results if x.busiest_s > compute_s), None)


def number(x: float) -> str:
    """Three digits of it, without an exponent."""
    return f"{float(f'{x:.3g}'):,.10g}".replace(",", " ")


def heading(mode: str) -> str:
    return mode.replace("_", " ")


def print_table(title: str, first: str, rows: list[tuple[str, list[str]]]) -> None:
    print(f"\n{title}\n\n| {first} | {' | '.join(map(heading, MODES))} |\n|{'---|' * (1 + len(MODES))}")
    for name, cells in rows:
        print(f"| {name} | {' | '.join(cells)} |")


def report(scenario: Scenario, results: dict[str, list[Result]]) -> None:
    print(f"\n## {scenario.name}: simulated")
    alone = rate_alone(scenario)
    print(f"A worker that exchanges nothing: {number(alone)} steps/s, {number(alone * scenario.batch)} samples/s. {scenario.servers} servers.")
    for title, cell in {
        "Steps/s of each worker": lambda x: number(x.steps_per_s),
        "Samples/s of all workers": lambda x: number(x.samples_per_s),
        "MB that a worker sends in a step, and receives": lambda x: number(x.sent_per_step / 1e6),
        "Staleness in steps of others: mean, and that of 1 % of the gradients": lambda x:
            f"{number(x.staleness)}, {number(x.staleness_p99)}" if x.staleness_p99 else "0",
    }.items():
        print_table(title, "workers", [(str(many[0].workers), [cell(x) for x in many]) for many in zip(*results.values())])
    none = f"above {max(x.workers for x in next(iter(results.values())))}"
    print_table("Where it stops paying", "from how many workers", [
        ("another one adds less than 10 %",
         [str(stops_paying(of, alone * scenario.batch) or none) for of in results.values()]),
        ("each does less than half of what it does alone",
         [str(halves(of, alone * scenario.batch) or none) for of in results.values()]),
        ("the bytes of a step take the busiest link longer than the computation takes",
         [str(exceeds_link(of, scenario.compute_s) or none) for of in results.values()])])


def write_csv(path: str, scenarios: list[Scenario], results: list[dict[str, list[Result]]]) -> None:
    names = [field.name for field in dataclasses.fields(Result)]
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["scenario", *names])
        for scenario, of in zip(scenarios, results):
            out.writerows([scenario.name, *(getattr(x, name) for name in names)] for many in of.values() for x in many)


def draw(path: str, scenarios: list[Scenario], results: list[dict[str, list[Result]]]) -> None:
    """A column of panels for each scenario: throughput, bytes and staleness over the workers."""
    pyplot = themes.prepare()
    colours = dict(zip(MODES, themes.COLOURS))
    # Those with the same bytes lie on each other: the first of them is wide, so that both show.
    widths = {mode: 4.5 if mode in ("synchronous", "server_synchronous") else 1.4 for mode in MODES}
    figure, panels = pyplot.subplots(3, len(scenarios), squeeze=False, sharex=True, figsize=(4.4 * len(scenarios), 10))
    for column, scenario, of in zip(panels.T, scenarios, results):
        alone = rate_alone(scenario) * scenario.batch
        workers = [x.workers for x in next(iter(of.values()))]
        column[0].plot(workers, workers, color=themes.INK, linewidth=1, linestyle=":")
        for mode, many in of.items():
            style = {"color": colours[mode], "linewidth": widths[mode]}
            column[0].plot(workers, [x.samples_per_s / alone for x in many], **style)
            column[1].plot(workers, [x.sent_per_step / 1e6 or None for x in many], **style)
            if any(x.staleness for x in many):
                column[2].plot(workers, [x.staleness or None for x in many], **style)
        for panel in column:
            panel.set(xscale="log", yscale="log")
            panel.minorticks_off()
            panel.grid(True)
            panel.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
            panel.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
        column[0].set_title(f"Simulated: {scenario.name}, dense", fontweight="bold", fontsize=11)
        column[-1].set_xlabel("workers (log scale)")
    for panel, title in zip(panels[:, 0], ("samples/s, relative to\none worker alone (log scale)",
                                           "MB that a worker sends\nin a step (log scale)",
                                           "mean staleness, steps of\nother workers (log scale)")):
        panel.set_ylabel(title)
    handles = [pyplot.Line2D([], [], color=themes.INK, linewidth=1, linestyle=":"),
               *(pyplot.Line2D([], [], color=colours[mode], linewidth=widths[mode]) for mode in MODES)]
    figure.legend(handles, ["no exchange", *map(heading, MODES)], loc="lower center", ncols=4, frameon=False)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    themes.save(figure, path)


def predicted(scenario: dict[str, Any], run: dict[str, Any]) -> Result:
    """What the model says of a run that was measured."""
    if missing := sorted({"mode", "workers", "compute_s", "bytes", "steps_per_s"} - set(run)):
        raise ValueError(f"a run has no {missing[0]!r}: {json.dumps(run)}")
    own = {field.name: run[field.name] for field in dataclasses.fields(Scenario) if field.name in run}
    return simulate(run["mode"], run["workers"], Scenario.of_json({**scenario, **own}), 200, 20)


def beside_measured(path: str) -> None:
    with open(path) as file:
        read = json.load(file)
    print(f"\n## {read['scenario'].get('name', path)}: measured, and simulated\n")
    print("| mode | workers | steps/s measured | simulated | simulated / measured | MB a step measured | simulated "
          "| staleness measured | simulated |\n|---|---|---|---|---|---|---|---|---|")
    for run in read["runs"]:
        x = predicted(read["scenario"], run)
        staleness = f"{run['staleness']:.3g}" if "staleness" in run else ""
        print(f"| {heading(x.mode)} | {x.workers} | {run['steps_per_s']:.4g} | {x.steps_per_s:.4g} "
              f"| {x.steps_per_s / run['steps_per_s']:.2f} | {run['bytes'] / 1e6:.4g} | {x.sent_per_step / 1e6:.4g} "
              f"| {staleness} | {x.staleness:.3g} |")


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev bench simulate", description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=lambda text: sorted({int(x) for x in text.split(",")}), default=WORKERS,
                        help="numbers of workers, as 1,2,4 (default: 20 of them from 1 to 1000)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps of each worker that are counted, at least (default: {STEPS})")
    parser.add_argument("--scenario", metavar="JSON", help="simulate this one: an object with the fields of Scenario in model.py")
    parser.add_argument("--measured", metavar="JSON", help="measured runs, to stand beside what the model predicts; nothing else")
    parser.add_argument("--csv", help="write all numbers to this file")
    parser.add_argument("--svg", help="draw them into this file")
    options = parser.parse_args()
    try:
        if options.measured:
            beside_measured(options.measured)
            return 0
        scenarios = SCENARIOS
        if options.scenario:
            with open(options.scenario) as file:
                scenarios = [Scenario.of_json({"name": options.scenario, **json.load(file)})]
        results = []
        for scenario in scenarios:
            results.append(simulate_all(scenario, options.workers, options.steps))
            report(scenario, results[-1])
    except (ValueError, OSError, KeyError) as error:
        print(f"simulate.py: {error}", file=sys.stderr)
        return 2
    if options.csv:
        write_csv(options.csv, scenarios, results)
    if options.svg:
        draw(options.svg, scenarios, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
