// expected-error: gradstep: regularizer: `before` and `after` are missing or have another form; expected `before[(]coeffs<T> const& c, V& w, V& g[)]` [(]before the rule[)], `after
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

struct incomplete {
    template <class T> struct coeffs {};
    template <class T> coeffs<T> prepare(gs::step_info) const { return {}; }
};

auto const optimizer = gs::make_updater<float>(gs::sgd{}, incomplete{}, gs::constant{1});
