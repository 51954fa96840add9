// expected-error: gradstep: regularizer: `prepare` is missing or has another form; expected `template <class T> coeffs<T> prepare[(]gs::step_info now[)] const;`
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

struct incomplete {
    template <class T> struct coeffs {};
    template <class T, gs::pack V> GRADSTEP_HD static void before(coeffs<T> const&, V&, V&) {}
};

auto const optimizer = gs::make_updater<float>(gs::sgd{}, incomplete{}, gs::constant{1});
