// The seventh program of the public contract, on the backends of the CPU.
#include "usage/your_own_rule.hpp"

#include <gradstep/gradstep.hpp>

#include <array>
#include <cstdio>
#include <vector>

// [state]
struct heavy_ball { // m <- mu * m + g,  w <- w - lr * m
    double mu = 0.9;
    static constexpr auto hyperparameters =
        gs::hyperparameter_list{gs::hyperparameter{"mu", &heavy_ball::mu, gs::ranges::fraction}};

    template <class X> struct state { X m; };
    static constexpr std::array state_names{"m"};

    template <class T> struct coeffs { T mu, rate; };
    template <class T> coeffs<T> prepare(gs::step_info now) const { return {T(mu), T(now.rate)}; }
    template <class T, gs::pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.m = gs::math::fma(V(c.mu), s.m, g);
        w = gs::math::fnma(V(c.rate), s.m, w);
    }
};
// [state]
static_assert(gs::check_rule<heavy_ball>());

bool keeps_state() {
    std::vector<float> w(33, 1), g(33, 1), m(33);
    auto optimizer = gs::make_updater<float>(heavy_ball{.mu = 0.5}, gs::constant{0.25});
    optimizer.initialize(w, m);
    for (int t = 0; t < 2; ++t) optimizer.next_step()(w, g, m);
    return w[0] == 0.375f && m[32] == 1.5f;
}

template <class Backend> bool descends(Backend const& backend) {
    std::vector<float> w(33, 1), g(33, -7);
    g[32] = 0;
    auto optimizer = gs::make_updater<float>(sign_sgd{}, gs::constant{0.5}, backend);
    optimizer.next_step()(w, g);
    return w[0] == 1.5f && w[31] == 1.5f && w[32] == 1;
}

int main() {
    bool const right = descends(gs::serial_backend{}) && descends(gs::simd_backend{}) && keeps_state();
    if (!right) std::puts("the program does not do what it says");
    return right ? 0 : 1;
}
