#!/usr/bin/env python3
"""Online learning from a CSV file: gradstep, Vowpal Wabbit and scikit-learn's SGDClassifier in one pass over the same impressions.

All learn logistic regression on site, ad, user, the combination of site and ad, and an intercept, from the data of
docs/start/tutorial_click_through.md, each with the best rate and penalty of those that were tried. The loss is the mean log loss of
each impression before the model learns from it. Every run is a process of its own on one core; the runs take turns. The time is that of
the processor, for everything from opening the file to the last step, without imports. The memory is the largest of the process, beside
what it had before it opened the file.

- gradstep: pandas reads the file in chunks, gradstep.sparse.hashed makes keys, and a keyed table takes steps of FTRL-Proximal; or
  it makes row numbers below 2^20, of a table.
- Vowpal Wabbit reads a file in its own text format, which was made beforehand. Its threads, of which one parses, share the core.
- SGDClassifier: pandas reads the same chunks. Its features are the same row numbers of gradstep.sparse.hashed, in a CSR matrix of
  scipy; "own features" are those of sklearn.feature_extraction.FeatureHasher.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
from lines import Lines, add_option, quartiles  # noqa: E402

COLUMNS, CROSS, CHUNK = ["site", "ad", "user"], [("site", "ad")], 200_000
ROWS = 1 << 20  # of a table of gradstep, and of scikit-learn's vector, which takes twice the time with 2^24


def chunks(path):
    import pandas

    return pandas.read_csv(path, chunksize=CHUNK)


def gradstep_pass(path, option):
    import numpy
    import pandas  # noqa: F401

    import gradstep

    yield
    ftrl, batch, rows = gradstep.ftrl(lr=0.3, beta=1.0), int(option.removeprefix("rows")), None
    if option.startswith("rows"):
        rows = ROWS
        table = gradstep.Table({**ftrl, "table": {"rows": rows, "width": 1}})
    else:
        table = gradstep.KeyedTable({**ftrl, "keyed_table": {"width": 1}})
    loss = count = 0
    for frame in chunks(path):
        samples = gradstep.sparse.hashed(frame[COLUMNS], crosses=CROSS, bias=True, rows=rows)
        clicked = frame["clicked"].to_numpy("float32")
        logits = numpy.empty(len(clicked), "float32")
        for first in range(0, len(clicked), batch):
            part = samples[first : first + batch]
            scores = logits[first : first + batch] = part.dot(table)
            part.update(table, 1 / (1 + numpy.exp(-scores)) - clicked[first : first + batch])
        loss += numpy.logaddexp(0, numpy.where(clicked, -logits, logits)).sum(dtype=float)
        count += len(clicked)
    yield loss / count


def vowpal_wabbit_pass(path, rule):
    import vowpalwabbit

    yield
    rules = {"ftrl": "--ftrl --ftrl_alpha 0.3 --ftrl_beta 1", "default": "-l 0.25"}
    found = vowpalwabbit.Workspace(f"-d {path}.vw --loss_function logistic {rules[rule]} --interactions sa -b 24 --quiet")
    loss = found.get_sum_loss() / found.get_weighted_examples()
    found.finish()
    yield loss


def sgd_classifier_pass(path, features):
    import numpy
    import pandas  # noqa: F401
    import scipy.sparse
    from sklearn.feature_extraction import FeatureHasher
    from sklearn.linear_model import SGDClassifier

    import gradstep

    yield
    model = SGDClassifier(loss="log_loss", penalty=None, learning_rate="constant", eta0=0.07, shuffle=False, verbose=1)
    hasher = FeatureHasher(ROWS, input_type="string", alternate_sign=False)
    loss = count = 0
    for frame in chunks(path):
        if features == "own":
            texts = [[f"site={s}", f"ad={a}", f"user={u}", f"site={s},ad={a}"] for s, a, u in zip(frame["site"], frame["ad"], frame["user"])]
            matrix = hasher.transform(texts)
        else:
            samples = gradstep.sparse.hashed(frame[COLUMNS], crosses=CROSS, rows=ROWS)
            columns = samples.ids.astype(numpy.int32)
            indptr = numpy.append(samples.offsets, len(columns)).astype(numpy.int32)
            matrix = scipy.sparse.csr_array((numpy.ones(len(columns)), columns, indptr), shape=(len(samples), ROWS))
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            model.partial_fit(matrix, frame["clicked"], classes=[0, 1])
        # The mean of the losses before each step, as scikit-learn prints it.
        loss += float(re.search(r"Avg\. loss: ([\d.]+)", printed.getvalue())[1]) * len(frame)
        count += len(frame)
    yield loss / count


PASSES = {"gradstep": gradstep_pass, "vw": vowpal_wabbit_pass, "sgd": sgd_classifier_pass}


def memory_of(kind):
    """The memory of this process in MB: "VmRSS" now, "VmHWM" the most it had."""
    return int(re.search(rf"{kind}:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024


def run_pass(kind, path, option):
    """In the process of a run: one pass, as JSON."""
    running = PASSES[kind](path, option)
    next(running)  # imports
    Path("/proc/self/clear_refs").write_text("5")  # the most from here on
    memory, start = memory_of("VmRSS"), time.process_time()
    loss = next(running)
    print(json.dumps({"loss": loss, "seconds": time.process_time() - start, "memory": memory_of("VmHWM") - memory}))


def run(kind, path, option):
    command = [sys.executable, __file__, "--pass", kind, str(option), str(path)]
    # A process that it starts inherits the core.
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def write_data(path, steps):
    if not path.exists():
        part = path.with_suffix(".part")
        subprocess.run([sys.executable, ROOT / "examples/python/click_through_csv.py", part, "--steps", str(steps)], check=True,
                       stdout=sys.stderr)
        part.rename(path)
    of_vw = Path(f"{path}.vw")
    if not of_vw.exists():
        part = of_vw.with_suffix(".part")
        with open(path) as lines, open(part, "w") as out:
            next(lines)
            for line in lines:
                clicked, site, ad, user = line.rstrip("\n").split(",")
                out.write(f"{1 if clicked == '1' else -1} |s {site} |a {ad} |u {user}\n")
        part.rename(of_vw)


def processor():
    with open("/proc/cpuinfo") as cpu:
        return next((line.split(":")[1].strip() for line in cpu if line.startswith("model name")), "unknown CPU")


def versions():
    import pandas
    import sklearn
    import vowpalwabbit

    import gradstep

    return {"gradstep": f"{gradstep.version()} ({gradstep.simd_level()})", "vowpalwabbit": vowpalwabbit.__version__,
            "scikit-learn": sklearn.__version__, "pandas": pandas.__version__, "Python": sys.version.split()[0]}


def main():
    if sys.argv[1:2] == ["--pass"]:
        return run_pass(sys.argv[2], sys.argv[4], sys.argv[3])
    parser = argparse.ArgumentParser(prog="./dev bench peers online", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="rounds of a comparison (default: 7)")
    parser.add_argument("--steps", type=int, default=10_000, help="100 impressions each (default: 10000)")
    parser.add_argument("--batch", type=int, default=1000, help="impressions in a step of gradstep (default: 1000)")
    parser.add_argument("--folder", type=Path, default=ROOT / "build/online", help="where the data is written (default: build/online)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a line misses its bound")
    add_option(parser)
    options = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    about = versions()
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / f"clicks_{options.steps}.csv"
    write_data(path, options.steps)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    samples = 100 * options.steps
    print(f"{processor()}, one core; {', '.join(f'{name} {version}' for name, version in about.items())}")
    print(f"{samples} impressions, {options.rounds} rounds.\n")

    lines = Lines(options.json, about)
    ours = ("gradstep", f"rows{options.batch}")
    names = {ours: f"gradstep, FTRL, a table of 2^20 rows, batches of {options.batch}",
             ("gradstep", str(options.batch)): f"gradstep, FTRL, a keyed table, batches of {options.batch}",
             ("vw", "ftrl"): "Vowpal Wabbit, FTRL", ("vw", "default"): "Vowpal Wabbit, its default rule",
             ("sgd", "rows"): "SGDClassifier, row numbers of gradstep", ("sgd", "own"): "SGDClassifier, own features"}
    runs = {variant: [] for variant in names}
    for _ in range(options.rounds):
        for (kind, option), results in runs.items():
            results.append(run(kind, path, option))

    lines.section = "One pass over a CSV file"
    print("| | loss | ns an impression | quartiles | they / gradstep | quartiles | at least | | MB |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    missed = False
    for variant, results in runs.items():
        name = names[variant]
        nanoseconds = quartiles(x["seconds"] * 1e9 / samples for x in results)
        loss, memory = results[0]["loss"], quartiles(x["memory"] for x in results).median
        lines.add(name, nanoseconds, "ns an impression", loss=loss, megabytes=memory)
        row = f"| {name} | {loss:.4f} | {nanoseconds.median:.0f} | {nanoseconds.low:.0f} to {nanoseconds.high:.0f} |"
        if variant[0] == "gradstep":
            print(f"{row} | | | | {memory:.0f} |")
            continue
        # Beside the table of rows, since all have a vector of weights by number.
        ratio = quartiles(theirs["seconds"] / mine["seconds"] for theirs, mine in zip(results, runs[ours]))
        verdict = lines.add(f"{name} / gradstep", ratio, at_least=1)
        missed |= verdict == "MISS"
        print(f"{row} {ratio.median:.2f} | {ratio.low:.2f} to {ratio.high:.2f} | 1 | {verdict} | {memory:.0f} |")

    lines.section = "Batches of gradstep"
    print("\n| impressions in a step | loss | ns an impression |\n|---|---|---|")
    for batch in (1, 10, 100, 500, 1000, 2000, 5000):
        result = run("gradstep", path, f"rows{batch}")
        nanoseconds = result["seconds"] * 1e9 / samples
        lines.add(f"batches of {batch}", quartiles([nanoseconds]), "ns an impression", loss=result["loss"])
        print(f"| {batch} | {result['loss']:.4f} | {nanoseconds:.0f} |", flush=True)
    return 1 if missed and options.strict else 0


if __name__ == "__main__":
    sys.exit(main())
