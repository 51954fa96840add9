/// ./dev bench libtorch: a step of gradstep::torch_optim beside the step of torch::optim, in one
/// process, on torch's threads.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <torch/csrc/autograd/generated/variable_factories.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <gradstep/adapt/libtorch.hpp>

#include "report.hpp"

namespace {

namespace ours = gradstep::torch_optim;
namespace theirs = torch::optim;

std::vector<torch::Tensor> parameters(std::int64_t count, std::int64_t elements) {
    std::vector<torch::Tensor> out;
    for (std::int64_t i = 0; i < count; ++i) {
        out.push_back(torch::rand({elements}).requires_grad_());
        out.back().mutable_grad() = torch::rand({elements});
    }
    return out;
}

// Each optimizer has its own parameters.
template <class Ours, class Theirs, class Options>
void race(report& out, options const& o, std::string const& name, Options const& options, std::int64_t count,
          std::int64_t elements, int threads, std::optional<double> at_most = {}) {
    std::string const what = name + ", " + (count == 1 ? "" : std::to_string(count) + " x ") +
                             size_text(static_cast<std::size_t>(elements)) +
                             (threads == 1 ? ", 1 thread" : ", 2 threads");
    if (!out.wants(what)) return;
    at::set_num_threads(threads);
    Ours our(parameters(count, elements), options);
    Theirs their(parameters(count, elements), options);
    auto const times = measure::interleave({[&] { our.step(); }, [&] { their.step(); }}, o.rounds);
    out.line(what, measure::ratio(times[0], times[1]), at_most);
    measure::samples micro = times[0];
    for (double& seconds : micro) seconds *= 1e6;
    out.line("  the step of gradstep", measure::quartiles(micro), {}, "us");
}

// The bounds are for one tensor of 64 Ki, and for many tensors on two threads.
template <class Ours, class Theirs, class Options>
void race_all(report& out, options const& o, std::string const& name, Options const& options,
              std::optional<double> one = {}, std::optional<double> many = {}) {
    race<Ours, Theirs>(out, o, name, options, 1, 1024, 1);
    race<Ours, Theirs>(out, o, name, options, 1, 65'536, 1, one);
    race<Ours, Theirs>(out, o, name, options, 1, 4'194'304, 2);
    race<Ours, Theirs>(out, o, name, options, 1000, 1000, 1);
    race<Ours, Theirs>(out, o, name, options, 1000, 1000, 2, many);
}

} // namespace

int main(int argc, char** argv) {
    options o;
    o.rounds = 31;
    CLI::App app("Measures steps of gradstep::torch_optim beside those of torch::optim.");
    app.add_flag("--quick", o.quick, "3 rounds: whether it runs, not how fast");
    add_line_options(app, o);
    CLI11_PARSE(app, argc, argv);
    if (o.quick) o.rounds = 3;
    try {
        report out{o};
        out.section("gradstep::torch_optim / torch::optim");
        race_all<ours::AdamW, theirs::AdamW>(out, o, "AdamW", theirs::AdamWOptions(1e-3), 0.30, 0.083);
        race_all<ours::SGD, theirs::SGD>(out, o, "SGD with momentum", theirs::SGDOptions(1e-3).momentum(0.9));
        return out.all_hold() || !o.strict ? 0 : 1;
    } catch (std::exception const& problem) {
        std::fprintf(stderr, "gradstep_bench_libtorch: %s\n", problem.what());
        return 2;
    }
}
