// expected-error: gradstep: rule: `state_names` does not match `state`; expected a name for every member
// expected-errors: 1
#include <gradstep/gradstep.hpp>

#include <array>

namespace gs = gradstep;

struct incomplete {
    template <class X> struct state { X m; };
    static constexpr std::array state_names{"m", "v"};
    template <class T> struct coeffs { T rate; };
    template <class T> coeffs<T> prepare(gs::step_info now) const { return {T(now.rate)}; }
    template <class T, gs::pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>&) {
        w = gs::math::fnma(V(c.rate), g, w);
    }
};
static_assert(gs::check_rule<incomplete>());
