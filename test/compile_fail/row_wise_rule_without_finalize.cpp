// expected-error: gradstep: row-wise rule: a part is missing or has another form; expected .*finalize
#include <gradstep/gradstep.hpp>

#include <array>

namespace gs = gradstep;

struct incomplete {
    template <class X> struct state {};
    static constexpr std::array<char const*, 0> state_names{};
    template <class T> struct coeffs { T rate; };
    template <class T> coeffs<T> prepare(gs::step_info now) const { return {T(now.rate)}; }
    template <class X> struct partial_sums { X squares; };
    template <class T, gs::pack V>
    GRADSTEP_HD static partial_sums<V> accumulate(coeffs<T> const&, V, V g, state<V> const&) {
        return {gs::math::mul(g, g)};
    }
    template <class T, gs::pack V> GRADSTEP_HD static void apply(coeffs<T> const&, T settled, V& w, V g, state<V>&) {
        w = gs::math::fnma(V(settled), g, w);
    }
};

auto const optimizer = gs::make_updater<float>(incomplete{}, gs::constant{1});
