#pragma once
/// One tensor of a trainer whose optimizer is dgc_momentum.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>

#include <support/numbers.hpp>

namespace gs = gradstep;

template <class Element> struct trainer {
    using storage = typename gs::element_traits<Element>::storage;
    using state = typename gs::element_traits<Element>::state;
    static constexpr bool has_master = gs::element_traits<Element>::has_master;

    std::vector<storage> w, g;
    std::vector<state> u, v, master;

    explicit trainer(std::size_t n, std::uint32_t seed = 1)
        : w(numbers<storage>(n, seed)), g(numbers<storage>(n, seed + 1)), u(n), v(n), master(has_master ? n : 0) {}

    // f(w, g, u, v), and the master copy if there is one.
    template <class F> decltype(auto) in(F const& f) {
        if constexpr (has_master) return f(w, g, u, v, master);
        else return f(w, g, u, v);
    }
    template <class Optimizer> void initialize(Optimizer const& optimizer) {
        if constexpr (has_master) optimizer.initialize(w, u, v, master);
        else optimizer.initialize(w, u, v);
    }
    template <class Step> gs::sparse_message compress(Step const& step) {
        return in([&](auto&... buffers) { return step.compress(buffers...); });
    }
    template <class Step, class Messages> void apply(Step const& step, Messages const& messages) {
        if constexpr (has_master) step.apply(w, u, v, master, messages);
        else step.apply(w, u, v, messages);
    }
    template <class Step> void update(Step const& step) {
        in([&](auto&... buffers) { step(buffers...); });
    }
    long double trained(std::size_t i) const {
        if constexpr (has_master) return master[i];
        else return static_cast<long double>(gs::detail::widen(w[i]));
    }
    bool operator==(trainer const& other) const {
        return same_bits(w, other.w) && same_bits(g, other.g) && same_bits(u, other.u) && same_bits(v, other.v) &&
               same_bits(master, other.master);
    }
};

template <class T> bool is_zero(std::vector<T> const& x) {
    return std::all_of(x.begin(), x.end(), [](T each) { return each == T(0); });
}
