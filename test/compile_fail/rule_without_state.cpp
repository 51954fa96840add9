// expected-error: gradstep: rule: there is no `state`; expected `template <class X> struct state { X m, v; };`
#include <gradstep/gradstep.hpp>

#include <array>

namespace gs = gradstep;

struct incomplete {
    static constexpr std::array state_names{"m"};
    template <class T> struct coeffs { T rate; };
    template <class T> coeffs<T> prepare(gs::step_info now) const { return {T(now.rate)}; }
    template <class T, gs::pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g) {
        w = gs::math::fnma(V(c.rate), g, w);
    }
};

auto const optimizer = gs::make_updater<float>(incomplete{}, gs::constant{1});
