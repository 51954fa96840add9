/// The picture of docs/reference/dtypes.md: rounding errors over 1000 steps by dtype, on the
/// problem of rounding_problem.hpp. `./dev bench rounding FILE.svg` builds and runs it. gnuplot
/// draws.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <gradstep/gradstep.hpp>

#include "../examples/common/plot.hpp"
#include "rounding_problem.hpp"

namespace gs = gradstep;
using namespace rounding;

namespace {

constexpr std::array reported = {1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000};
using weights = std::vector<double>;
using history = std::array<weights, reported.size()>; // the weights after each of the reported numbers of steps

template <class Element, class Rule> history run(Rule const& rule) {
    auto const optimizer = gs::make_updater<Element>(rule, gs::constant{1e-3}, gs::serial_backend{});
    using storage = typename gs::element_traits<Element>::storage;
    std::vector<storage> first(size), g(size);
    for (std::size_t i = 0; i < size; ++i) first[i] = rounded<storage>(first_weight(i));
    gs::parameter w{optimizer, first};
    history out;
    std::size_t next = 0;
    for (int t = 1; t <= reported.back(); ++t) {
        for (std::size_t i = 0; i < size; ++i) g[i] = rounded<storage>(gradient(t, i, widened(w.values()[i])));
        w.update(g);
        if (t != reported[next]) continue;
        for (storage const x : w.values()) out[next].push_back(static_cast<double>(widened(x)));
        ++next;
    }
    return out;
}

/// The median error, relative to the root mean square of the exact weights.
double error(weights const& is, weights const& exact) {
    double squares = 0;
    for (double const x : exact) squares += x * x;
    std::vector<double> errors;
    for (std::size_t i = 0; i < size; ++i) errors.push_back(std::fabs(is[i] - exact[i]));
    auto const middle = errors.begin() + size / 2;
    std::ranges::nth_element(errors, middle);
    return *middle / std::sqrt(squares / size);
}

template <class Rule> panel errors_of(std::string title, Rule const& rule) {
    history const exact = run<double>(rule); // its errors are 2^-29 of float's
    panel out{.title = std::move(title),
              .curves = {},
              .logarithmic = true,
              .key = below,
              .x = x_axis{.label = "step", .end = reported.back(), .begin = 1, .logarithmic = true},
              .y_label = "median error / RMS of the weights"};
    auto const add = [&](std::string name, history const& is) {
        out.curves.push_back({std::move(name), {}});
        for (std::size_t k = 0; k < reported.size(); ++k)
            out.curves.back().points.push_back({static_cast<double>(reported[k]), error(is[k], exact[k])});
    };
    add("bfloat16", run<gs::bfloat16>(rule));
    add("float16", run<gs::float16>(rule));
    add("stochastic<bfloat16>", run<gs::stochastic<gs::bfloat16>>(rule));
    add("mixed<bfloat16>", run<gs::mixed<gs::bfloat16>>(rule));
    add("block8<float>", run<gs::block8<float>>(rule));
    add("float", run<float>(rule));
    return out;
}

} // namespace

int main(int argc, char** argv) try {
    if (argc != 2) return std::fputs("usage: rounding_picture FILE.svg\n", stderr), 2;
    figure const both{.title = "Rounding error by dtype, against double",
                      .x_label = "step",
                      .panels = {errors_of("adam", gs::adam{}), errors_of("momentum", gs::momentum{})},
                      .note = "a quadratic with noise, 4096 weights, learning rate 0.001"};
    plot(both, argv[1]);
} catch (std::exception const& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 1;
}
