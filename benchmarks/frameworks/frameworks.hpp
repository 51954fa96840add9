#pragma once
// What the benchmarks of ./dev bench dlib and ./dev bench ensmallen share.
#include <CLI/CLI.hpp>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "../measure.hpp"
#include "../report.hpp"

namespace frameworks {

/// A line with the time of the framework's own step over gradstep's, and both times in
/// microseconds.
inline void compare(report& out, std::string const& what, int rounds, measure::call const& theirs,
                    measure::call const& ours) {
    if (!out.wants(what)) return;
    auto const times = measure::interleave({theirs, ours}, rounds);
    auto const microseconds = [&](std::size_t which) {
        measure::samples x = times[which];
        for (double& seconds : x) seconds *= 1e6;
        return measure::quartiles(x);
    };
    out.line(what + ": framework / gradstep", measure::ratio(times[0], times[1]));
    out.line(what + ": framework", microseconds(0), {}, "us");
    out.line(what + ": gradstep", microseconds(1), {}, "us");
}

/// Calls run(report, n, rounds) for each size, or only for the first one with --quick.
template <class Run>
int main(int argc, char** argv, char const* framework, std::vector<std::size_t> sizes, Run const& run) {
    options o;
    CLI::App app(std::string("Measures optimizer steps of ") + framework + " beside gradstep's in it, on one thread.");
    app.add_option("rounds", o.rounds, "rounds of a comparison")->check(CLI::Range(3, 1000))->capture_default_str();
    app.add_flag("--quick", o.quick, "3 rounds of the smallest size: whether it runs, not how fast");
    add_line_options(app, o);
    CLI11_PARSE(app, argc, argv);
    if (o.quick) o.rounds = 3, sizes.resize(1);
    try {
        report out(o);
        for (std::size_t n : sizes) run(out, n, n > Mi ? std::min(o.rounds, o.large_rounds) : o.rounds);
        return 0;
    } catch (std::exception const& problem) {
        std::fprintf(stderr, "%s: %s\n", argv[0], problem.what());
        return 2;
    }
}

} // namespace frameworks
