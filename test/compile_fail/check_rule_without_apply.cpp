// expected-error: gradstep: rule: `apply` is missing or has another form
// expected-errors: 1
#include <gradstep/gradstep.hpp>

#include <array>

namespace gs = gradstep;

struct incomplete {
    template <class X> struct state { X m; };
    static constexpr std::array state_names{"m"};
    template <class T> struct coeffs { T rate; };
    template <class T> coeffs<T> prepare(gs::step_info now) const { return {T(now.rate)}; }
};
static_assert(gs::check_rule<incomplete>());
