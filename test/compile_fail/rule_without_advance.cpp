// expected-error: gradstep: rule: there are `clock_state_names`, and `advance` is missing or has another form
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

struct counting {
    template <class X> struct state {};
    static constexpr std::array<char const*, 0> state_names{};
    static constexpr std::array clock_state_names{"count"};
    template <class T> struct coeffs { T rate; };
    template <class T> coeffs<T> prepare(gs::step_info now) const { return {T(now.rate)}; }
    template <class T, gs::pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>&) {
        w = gs::math::fnma(V(c.rate), g, w);
    }
};
auto const optimizer = gs::make_updater<float>(counting{}, gs::constant{1});
