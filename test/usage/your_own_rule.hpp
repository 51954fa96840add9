#pragma once
#include <gradstep/all.hpp>

namespace gs = gradstep;

struct sign_sgd { // w <- w - lr * sgn(g)
    template <class X> struct state {};
    static constexpr std::array<char const*, 0> state_names{};
    template <class T> struct coeffs { T rate; };
    template <class T> coeffs<T> prepare(gs::step_info now) const { return {T(now.rate)}; }
    template <class T, gs::pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>&) {
        w = gs::math::fnma(V(c.rate), gs::math::sign(g), w);
    }
};
static_assert(gs::check_rule<sign_sgd>());
