// A rule that looks at a whole tensor before it moves an element, and keeps one number for it.
// Outside tables the row is the tensor; in a table it is a row, and a row that was away catches up,
// since the rule says what it does without gradient.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

// clang-format off
// [rule]
struct rowwise_rmsprop {              // v <- beta * v + (1 - beta) * mean(g^2),  w <- w - lr * g / (sqrt(v) + epsilon)
    double beta = 0.9, epsilon = 1e-8;

    template <class X> struct state {};                                     // nothing for each element
    static constexpr std::array<char const*, 0> state_names{};
    template <class X> struct row_state { X v; };                           // one number for the row
    static constexpr std::array row_state_names{"v"};

    template <class T> struct coeffs { T beta, gain, rate, epsilon; };
    template <class T> coeffs<T> prepare(gs::step_info now) const {
        return {T(beta), T(1 - beta), T(now.rate), gs::never_zero<T>(epsilon)};
    }

    template <class X> struct partial_sums { X squares; };
    template <class T, gs::pack V> GRADSTEP_HD static partial_sums<V> accumulate(coeffs<T> const&, V, V g, state<V> const&) {
        return {gs::math::mul(g, g)};
    }
    template <class T> GRADSTEP_HD static T finalize(coeffs<T> const& c, partial_sums<double> row, double width, row_state<T>& s) {
        s.v = gs::math::fma(c.beta, s.v, c.gain * T(gs::math::div(row.squares, width)));
        return gs::finite_quotient(c.rate, gs::math::sqrt(s.v) + c.epsilon);
    }
    template <class T, gs::pack V> GRADSTEP_HD static void apply(coeffs<T> const&, T settled, V& w, V g, state<V>&) {
        w = gs::math::fnma(V(settled), g, w);
    }

    // Without gradient the weight stands still and v is multiplied by beta.
    static constexpr auto at_zero_gradient = gs::zero_gradient_effect::decays_state;
    state<double> decay() const { return {}; }
    row_state<double> row_decay() const { return {beta}; }
};
static_assert(gs::row_wise_rule<rowwise_rmsprop>);
// [rule]
// clang-format on

constexpr std::size_t width = 21;
constexpr gs::constant schedule{0.01};

std::vector<float> gradient(int step, std::size_t n) {
    std::vector<float> g(n);
    for (std::size_t i = 0; i < n; ++i) g[i] = std::sin(static_cast<float>(i) + 0.7f * static_cast<float>(step));
    return g;
}

template <class Backend> std::vector<float> train(std::size_t n, Backend backend) {
    gs::parameter weights{gs::make_updater<float>(rowwise_rmsprop{}, schedule, backend), std::vector<float>(n, 1)};
    for (int step = 0; step < 50; ++step) weights.update(gradient(step, n));
    return {weights.values().begin(), weights.values().end()};
}

/// The furthest that a row of a table, which gets a gradient on every fifth step, is from the same
/// row in a dense run that sees a gradient of 0 on the others.
float distance_of_a_row_from_dense() {
    auto optimizer = gs::make_updater<float>(rowwise_rmsprop{}, schedule);
    gs::table rows{optimizer, 5, width, gs::exact{}};
    gs::parameter dense{optimizer, rows.row(2)};
    for (int step = 0; step < 50; ++step) {
        std::int64_t const id = step % 5;
        std::vector<float> const g = gradient(step, width);
        rows.update(std::array{id}, g);
        dense.update(id == 2 ? g : std::vector<float>(width));
    }
    std::vector<float> const row = rows.row(2);
    float furthest = 0;
    for (std::size_t i = 0; i < width; ++i) furthest = std::fmax(furthest, std::fabs(row[i] - dense.values()[i]));
    return furthest;
}

int main() {
    bool const same = train(10'007, gs::serial_backend{}) == train(10'007, gs::simd_backend{});
    float const distance = distance_of_a_row_from_dense();
    std::printf("serial and simd %s; a row that was away is %.1e from the dense run\n",
                same ? "agree bit by bit" : "DIFFER", distance);
    return same && distance < 1e-6f ? 0 : 1;
}
