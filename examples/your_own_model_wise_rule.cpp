// A rule that looks at the gradients of the whole model before it moves an element, and keeps one
// number for the model.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

// clang-format off
// [rule]
struct normalized_sgd {        // n <- beta * n + (1 - beta) * |g|, |g| over the whole model;  w <- w - lr / n * g
    double beta = 0.9;

    template <class X> struct state {};                                     // nothing for each element
    static constexpr std::array<char const*, 0> state_names{};
    static constexpr std::array clock_state_names{"n"};                     // one number for the model, in the clock
    gs::clock_state advance(gs::step_info now) const { return now.state; }  // before the sums of a step

    template <class T> struct coeffs {};                                    // nothing that is known before the sums
    template <class T> coeffs<T> prepare(gs::step_info) const { return {}; }

    template <class X> struct partial_sums { X squares; };
    template <class T, gs::pack V>
    GRADSTEP_HD static partial_sums<gs::wide_pack<V>> accumulate(coeffs<T> const&, V, V g, state<V> const&) {
        return {gs::math::wide_square(g)};
    }
    gs::clock_state settle(std::int64_t t, gs::clock_state const& before, partial_sums<double> const& sums) const {
        double const norm = std::max(std::sqrt(sums.squares), 1e-30);
        return {t == 1 ? norm : gs::math::mul(beta, before[0]) + gs::math::mul(1 - beta, norm)};
    }
    template <class T> T finalize(gs::step_info now, gs::clock_state const& after) const { return T(now.rate / after[0]); }
    template <class T, gs::pack V> GRADSTEP_HD static void apply(coeffs<T> const&, T settled, V& w, V g, state<V>&) {
        w = gs::math::fnma(V(settled), g, w);
    }
};
static_assert(gs::model_wise_rule<normalized_sgd>);
// [rule]
// clang-format on

/// Trains two tensors, as one model, to have the value 1.
template <class Backend> std::array<std::vector<float>, 2> train(Backend backend, double& n) {
    auto optimizer = gs::make_updater<float>(normalized_sgd{}, gs::constant{0.5}, backend);
    std::array<std::vector<float>, 2> w{std::vector<float>(10'007), std::vector<float>(5)}, g = w;
    std::vector<gs::slice<decltype(optimizer)>> const model{{w[0], g[0]}, {w[1], g[1]}};
    for (int step = 0; step < 300; ++step) {
        for (std::size_t k = 0; k < 2; ++k)
            for (std::size_t i = 0; i < w[k].size(); ++i) g[k][i] = w[k][i] - 1;
        optimizer.next_step()(model); // one call is the step of the whole model
    }
    n = optimizer.clock().state[0];
    return w;
}

int main() {
    gs::thread_pool pool(2);
    double n = 0, on_threads = 0;
    auto const w = train(gs::serial_backend{}, n);
    bool const same = w == train(gs::simd_backend{pool}, on_threads) && n == on_threads;
    std::printf("serial and simd %s; the weights are within %.0e of 1\n", same ? "agree bit by bit" : "DIFFER",
                static_cast<double>(std::fabs(w[1][0] - 1)) < 0.1 ? 0.1 : 1.0);
    return same && std::fabs(w[1][0] - 1) < 0.1f ? 0 : 1;
}
