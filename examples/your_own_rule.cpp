// A rule of your own is one struct. It then runs on every backend, here on the plain loop and on
// SIMD packs, with the same bits.
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

// clang-format off
// [rule]
struct sign_sgd {                                            // w <- w - lr * sgn(g)
    template <class X> struct state {};
    static constexpr std::array<char const*, 0> state_names{};
    template <class T> struct coeffs { T rate; };
    template <class T> coeffs<T> prepare(gs::step_info now) const { return {T(now.rate)}; }
    template <class T, gs::pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>&) {
        w = gs::math::fnma(V(c.rate), gs::math::sign(g), w);
    }
};
static_assert(gs::check_rule<sign_sgd>());
// [rule]
// clang-format on

/// Walks from w = 0 to the minimum of |w - target|, whose distance is different for each element.
template <class Backend> std::vector<float> minimise(std::vector<float> const& target, Backend backend) {
    auto optimizer =
        gs::make_updater<float>(sign_sgd{}, gs::exponential{.rate = 0.1, .decay = 0.5, .steps = 50}, backend);
    std::vector<float> w(target.size()), g(target.size());
    for (int t = 0; t < 1000; ++t) {
        for (std::size_t i = 0; i < w.size(); ++i) g[i] = w[i] - target[i];
        auto step = optimizer.next_step();
        step(w, g);
    }
    return w;
}

int main() {
    std::vector<float> target(1003); // no multiple of any pack: the tail counts too
    for (std::size_t i = 0; i < target.size(); ++i) target[i] = std::sin(static_cast<float>(i));

    std::vector<float> const serial = minimise(target, gs::serial_backend{});
    std::vector<float> const simd = minimise(target, gs::simd_backend{});

    float furthest = 0;
    for (std::size_t i = 0; i < target.size(); ++i) furthest = std::fmax(furthest, std::fabs(simd[i] - target[i]));
    bool const same = serial == simd;
    std::printf("serial and simd %s; the furthest weight is %.1e from the minimum\n",
                same ? "agree bit by bit" : "DIFFER", furthest);
    return same && furthest < 1e-4f ? 0 : 1;
}
