// expected-error: gradstep: model-wise rule: a part is missing or has another form
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

struct normalized {
    template <class X> struct state {};
    static constexpr std::array<char const*, 0> state_names{};
    static constexpr std::array clock_state_names{"norm"};
    gs::clock_state advance(gs::step_info now) const { return now.state; }
    template <class T> struct coeffs { T rate; };
    template <class T> coeffs<T> prepare(gs::step_info now) const { return {T(now.rate)}; }
    template <class X> struct partial_sums { X squares; };
    template <class T, gs::pack V>
    GRADSTEP_HD static partial_sums<gs::wide_pack<V>> accumulate(coeffs<T> const&, V, V g, state<V> const&) {
        return {gs::math::wide_square(g)};
    }
    gs::clock_state settle(std::int64_t, gs::clock_state const&, partial_sums<double> const& sums) const {
        return {sums.squares};
    }
    template <class T, gs::pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, T, V& w, V g, state<V>&) {
        w = gs::math::fnma(V(c.rate), g, w);
    }
};
auto const optimizer = gs::make_updater<float>(normalized{}, gs::constant{1});
