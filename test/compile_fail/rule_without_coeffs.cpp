// expected-error: gradstep: rule: there is no `coeffs`; expected `template <class T> struct coeffs { ... };`
#include <gradstep/gradstep.hpp>

#include <array>

namespace gs = gradstep;

struct incomplete {
    template <class X> struct state { X m; };
    static constexpr std::array state_names{"m"};
    double prepare(gs::step_info now) const { return now.rate; }
    template <gs::pack V> GRADSTEP_HD static void apply(double, V&, V, state<V>&) {}
};

auto const optimizer = gs::make_updater<float>(incomplete{}, gs::constant{1});
