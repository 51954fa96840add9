#!/usr/bin/env python3
"""What gradstep costs to compile: seconds of processor time, as medians of rounds in which every file has its turn.

    compile_time.py            what files that include it cost, as ratios to one that includes xsimd alone
    compile_time.py --rules    what one step of each rule of test/support/oracles costs beyond the include
    compile_time.py --choice   72 updaters chosen at run time, in one file: seconds and the compiler's largest memory
    compile_time.py --libtorch TORCH
                               what adapt/libtorch.hpp adds to a file with torch's optimizers; TORCH is torch's folder

The environment's CXX (g++) and CXXFLAGS (-O2 -march=native) are taken. On a machine that does other work the ratios hold
better than the seconds, and the smallest of several rounds better than the median: --smallest.
"""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import tempfile

from lines import Lines, Quartiles, add_option, quartiles

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMPILER = [os.environ.get("CXX", "g++"), "-std=c++20", *os.environ.get("CXXFLAGS", "-O2 -march=native").split()]

XSIMD = "#include <xsimd/xsimd.hpp>\nint main() {}\n"
POLICIES = "#include <gradstep/all.hpp>\n"
UMBRELLA = "#include <gradstep/gradstep.hpp>\n"
PRECOMPILED = "// the umbrella, precompiled\n"
LINKED = "// links gradstep::runtime\n"
FINEST = """#include <gradstep/backends/simd.hpp>
#include <gradstep/regularizers/none.hpp>
#include <gradstep/rules/adam.hpp>
#include <gradstep/schedules/constant.hpp>
#include <gradstep/updater.hpp>
"""


NOTHING = "int main() {}\n"
CONFIGURATION = """#include <gradstep/config.hpp>
int main() { return gradstep::read_configuration("{}").averages.empty(); }
"""
RUN_TIME = """#include <vector>
#include <gradstep/runtime.hpp>
int main() {
    gradstep::any_parameter weights{gradstep::read_optimizer("{}"), std::vector<float>(1)};
    return static_cast<int>(weights.size());
}
"""
MODEL = """#include <vector>
#include <gradstep/gradstep.hpp>
int main() {
    std::vector<float> const w(8), g(8);
    gradstep::model net;
    net.add("w", gradstep::parameter{gradstep::make_updater<float>(gradstep::adam{}, gradstep::constant{1e-3}), w});
    net.update({{"w", g}});
"""
CHECKPOINT = "#include <gradstep/checkpoint.hpp>\n" + MODEL + "    net.save(\"w.safetensors\");\n}\n"
TABLE = """#include <vector>
#include <gradstep/gradstep.hpp>
int main() {
    gradstep::table rows{gradstep::make_updater<float>(gradstep::adam{}, gradstep::constant{1e-3}), 100, 8};
    std::vector<std::int64_t> const ids{3, 7};
    std::vector<float> const gradients(16);
    rows.update(ids, gradients);
}
"""


def one_step(includes, rule):
    return includes + """#include <array>
#include <tuple>
#include <vector>
int main() {
    auto optimizer = gradstep::make_updater<float>(gradstep::%s, gradstep::constant{1e-3});
    std::vector<float> w(8), g(8);
    std::array<std::vector<float>, optimizer.slots> state;
    std::apply([&](auto&... slot) { optimizer.next_step()(w, g, slot...); }, state);
}
""" % rule


CHOSEN_RULES = ["sgd", "momentum", "nesterov", "adagrad", "adadelta", "rmsprop", "adam", "amsgrad", "nadam", "lion",
                "adamax", "ftrl"]
CHOICE = UMBRELLA + """#include <memory>
#include <string>
namespace gs = gradstep;

struct optimizer {
    virtual ~optimizer() = default;
    virtual void update(void const* gradient, double rate) = 0;
};
template <class Updater> struct optimizer_of final : optimizer {
    using storage = typename Updater::traits::storage;
    gs::parameter<Updater> parameter;
    optimizer_of(Updater const& updater, void const* weight, std::size_t n)
        : parameter(updater, std::span(static_cast<storage const*>(weight), n)) {}
    void update(void const* gradient, double rate) override {
        parameter.update(std::span(static_cast<storage const*>(gradient), parameter.size()), {.rate = rate});
    }
};
using made = std::unique_ptr<optimizer>;

template <class Element, class Rule, class Regularizer>
made of(Rule rule, Regularizer regularizer, void const* weight, std::size_t n) {
    auto updater = gs::make_updater<Element>(rule, regularizer, gs::external{});
    return std::make_unique<optimizer_of<decltype(updater)>>(updater, weight, n);
}
template <class Element, class Rule>
made with(Rule rule, std::string const& regularizer, double rate, void const* weight, std::size_t n) {
    if (regularizer == "l2") return of<Element>(rule, gs::l2{rate}, weight, n);
    if (regularizer == "decoupled") return of<Element>(rule, gs::decoupled{rate}, weight, n);
    return of<Element>(rule, gs::none{}, weight, n);
}
template <class Element>
made choose(std::string const& rule, std::string const& regularizer, double rate, void const* weight, std::size_t n) {
""" + "".join(f'    if (rule == "{rule}") return with<Element>(gs::{rule}{{}}, regularizer, rate, weight, n);\n'
              for rule in CHOSEN_RULES) + """    return nullptr;
}
template made choose<float>(std::string const&, std::string const&, double, void const*, std::size_t);
template made choose<gs::mixed<gs::bfloat16>>(std::string const&, std::string const&, double, void const*, std::size_t);
"""


TORCH = """#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>
%s
torch::Tensor step(std::vector<torch::Tensor> parameters) {
    %s::AdamW adamw(parameters, torch::optim::AdamWOptions(1e-3));
    %s::SGD sgd(parameters, torch::optim::SGDOptions(1e-3));
    adamw.step();
    return sgd.step();
}
"""


def compile_once(folder, name, source):
    """Seconds of one compilation, and the compiler's largest memory in MB."""
    file = folder / (re.sub(r"\W+", "_", name) + ".cpp")
    file.write_text(source)
    includes = [f"-I{ROOT / 'include'}"]
    if source.startswith(PRECOMPILED):
        includes += [f"-I{folder}", "-include", "precompiled.hpp"]
    if source.startswith(LINKED):
        includes += ["-DGRADSTEP_COMPILED=1", "-DGRADSTEP_RUNTIME=1"]
    command = [*COMPILER, *includes, "-c", file, "-o", file.with_suffix(".o")]
    _, status, usage = os.wait4(subprocess.Popen(command).pid, 0)
    if status != 0:
        raise SystemExit(f"{COMPILER[0]} failed: {name}")
    return usage.ru_utime, usage.ru_maxrss / 1000


def precompile(folder):
    (folder / "precompiled.hpp").write_text(UMBRELLA)
    subprocess.run([*COMPILER, f"-I{ROOT / 'include'}", "-x", "c++-header", folder / "precompiled.hpp",
                    "-o", folder / "precompiled.hpp.gch"], check=True)


def measure(files, rounds):
    """Seconds of each file in each round, by its name; one round more, first, reads the headers from disk."""
    seconds, memory = {name: [] for name in files}, {}
    with tempfile.TemporaryDirectory() as folder:
        precompile(pathlib.Path(folder))
        for turn in range(rounds + 1):
            for name, source in files.items():
                x, memory[name] = compile_once(pathlib.Path(folder), name, source)
                if turn != 0:
                    seconds[name].append(x)
    return seconds, memory


def add(lines, what, measured, rounds, unit="s"):
    """Adds a line of what was found, between the quartiles of the rounds, and returns it."""
    low, _, high = quartiles(rounds)
    lines.add(what, Quartiles(low, measured, high), unit)
    return measured


def includes(lines, rounds, typical):
    files = {
        "includes xsimd": XSIMD,
        "includes `all.hpp`": POLICIES + NOTHING,
        "includes the headers of one adam": FINEST + NOTHING,
        "includes the headers of one adam and takes its step": one_step(FINEST, "adam{}"),
        "has `gradstep.hpp` precompiled and takes a step of one adam": one_step(PRECOMPILED, "adam{}"),
    }
    for linked, ends in (("", ""), (LINKED, ", and links `gradstep::runtime`")):
        files |= {
            "includes `gradstep.hpp`" + ends: linked + UMBRELLA + NOTHING,
            "includes `gradstep.hpp` and takes a step of one adam" + ends: linked + one_step(UMBRELLA, "adam{}"),
            "updates a table of one adam" + ends: linked + TABLE,
            "updates a model of one adam" + ends: linked + UMBRELLA + MODEL + "}\n",
            "includes `checkpoint.hpp` as well and saves the model" + ends: linked + CHECKPOINT,
            "includes `config.hpp` and reads a configuration" + ends: linked + CONFIGURATION,
            "includes `runtime.hpp` and has one `any_parameter`" + ends: linked + RUN_TIME,
        }
    seconds, memory = measure(files, rounds)
    lines.section = "a file that"
    print("| a file that | seconds | / xsimd | MB |\n|---|---|---|---|")
    for text, own in seconds.items():
        least = seconds["includes xsimd"]
        alone = add(lines, text, typical(own), own)
        ratio = add(lines, f"{text} / xsimd alone", alone / typical(least), [a / b for a, b in zip(own, least)], "")
        print(f"| {text} | {alone:.2f} | {ratio:.2f} | {memory[text]:.0f} |")


def rules(lines, rounds, typical):
    oracles = "".join(path.read_text() for path in sorted((ROOT / "test/support/oracles").glob("*.hpp")))
    names = dict.fromkeys(re.findall(r"^constexpr auto line_of\(gs::(\w+)", oracles, re.MULTILINE))
    files = {"nothing": UMBRELLA + "int main() {}\n"}
    for name in names:
        rule = "averaged{gradstep::adam{}, gradstep::ema{}}" if name == "averaged" else name + "{}"
        files[name] = one_step(UMBRELLA, rule)
    seconds, _ = measure(files, rounds)
    lines.section = "a step of each rule, beyond the include"
    least = seconds["nothing"]
    print("| rule | seconds more than the include alone |\n|---|---|")
    for name in names:
        own = seconds[name]
        more = add(lines, name, typical(own) - typical(least), [a - b for a, b in zip(own, least)])
        print(f"| {name} | {more:.2f} |")
    print(f"\nThe include alone: {add(lines, 'the include alone', typical(least), least):.2f} s")


def choice(lines):
    with tempfile.TemporaryDirectory() as folder:
        seconds, memory = compile_once(pathlib.Path(folder), "choice", CHOICE)
    lines.section = "72 updaters in one file"
    lines.add("processor time", quartiles([seconds]), "s")
    lines.add("largest memory", quartiles([memory]), "MB")
    print(f"72 updaters in one file: {seconds:.1f} s, {memory:.0f} MB")


def libtorch(lines, torch, rounds, typical):
    COMPILER.extend(["-isystem", torch / "include", "-isystem", torch / "include/torch/csrc/api/include"])
    ours = "gradstep::torch_optim"
    seconds, _ = measure({"torch::optim": TORCH % ("", "torch::optim", "torch::optim"),
                          "gradstep": TORCH % ("#include <gradstep/adapt/libtorch.hpp>", ours, ours)}, rounds)
    lines.section = "a file with torch's optimizers"
    own, least = seconds["gradstep"], seconds["torch::optim"]
    print(f"a file with torch::optim's AdamW and SGD: {add(lines, 'torch::optim', typical(least), least):.2f} s; with those of "
          f"gradstep/adapt/libtorch.hpp {add(lines, 'more', typical(own) - typical(least), [a - b for a, b in zip(own, least)]):.2f} s more")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--rules", action="store_true")
    what.add_argument("--choice", action="store_true")
    what.add_argument("--libtorch", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--smallest", action="store_true")
    add_option(parser)
    given = parser.parse_args()
    typical = min if given.smallest else statistics.median
    print(" ".join(COMPILER))
    version = subprocess.run([COMPILER[0], "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[0]
    lines = Lines(given.json, {"compiler that is measured": version, "its options": " ".join(COMPILER[1:])})
    if given.choice:
        choice(lines)
    elif given.libtorch:
        libtorch(lines, given.libtorch, given.rounds, typical)
    elif given.rules:
        rules(lines, given.rounds, typical)
    else:
        includes(lines, given.rounds, typical)


if __name__ == "__main__":
    main()
